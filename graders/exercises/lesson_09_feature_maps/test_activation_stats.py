"""Exercise 09-activation-stats."""

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_09_feature_maps.programs import watched
from graders.scenes.scene import stories
from graders.scenes.stories import training_steps

WAYS = {
    "mean": lambda values: values.mean(),
    "std": lambda values: values.var().sqrt(),
    "hist": lambda values: values.histc(40, 0, 4),
}


def stats(
    layers,
    step,
    batches,
    copy=lambda output: output.detach().clone(),
    key=lambda name: name,
    how=None,
    give=None,
    **ways,
):
    """The statistics of each layer, a row for each step; `ways` to compute some of them may differ.

    What `give` makes of an output takes its place.
    """
    kept = {}

    def note(name, output):
        kept.setdefault(key(name), []).append(copy(output))
        return give and give(output)

    watched(layers, note, step, batches, **how or {})
    return described(kept, **ways)


def described(kept, **ways):
    """The statistics of what was kept of each layer."""
    return {
        name: {part: torch.stack([way(output) for output in outputs]) for part, way in (WAYS | ways).items()}
        for name, outputs in kept.items()
    }


@exercise(
    "09-activation-stats",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="Every layer's statistics, step by step",
    hints=(
        "Register one forward hook on each module of `layers`, then loop over the batches. Whenever a hook is called, "
        "it appends three things to the lists of its layer.",
        "`values = output.detach()`, then `values.mean()`, `values.std()` and `values.histc(40, 0, 4)`. Compute them "
        "inside the hook: a later layer may overwrite the output.",
        "At the end, `torch.stack(list)` puts the steps into rows. An `ExitStack` or `try` and `finally` removes the "
        "hooks. Do not switch gradients off: `step` needs them.",
    ),
    why=(
        "The hooks turn each output into 42 numbers while it is still as the layer left it, so nothing large is kept "
        "however long the training lasts. A class with `__enter__` and `__exit__` around the loop would do as well; so "
        "would a copy of each output for later, at the price of its memory."
    ),
    scene=stories(
        promises={
            "each layer has its statistics, a row for each step": training_steps.each_step,
            "a later call starts afresh": training_steps.each_step_again,
            "two calls at the same time do not disturb each other": training_steps.each_step_inside,
            "the model trains as it does without you": training_steps.trained,
            "nothing else changes": training_steps.left_alone,
            "an exception comes through and nothing is left": training_steps.step_raises,
        },
        axes=training_steps.STEPS,
    ),
)
class TestActivationStats:
    """Write `activation_stats(layers, step, batches)`: call `step(batch)`, a training step, for each batch, in order.
    Return, under each key of the dict `layers`, a dict with `"mean"`, `"std"` and `"hist"` of the outputs of that
    module: tensors with an entry (`hist`: a row) for each step.

    **Example.**

    >>> relu = nn.ReLU()
    >>> batches = [torch.tensor([-2.0, 1.125, 2.25]), torch.tensor([5.0, 5.0, 5.0])]
    >>> found = activation_stats({"relu": relu}, relu, batches)
    >>> found["relu"]["mean"].tolist(), found["relu"]["std"].tolist()
    ([1.125, 5.0], [1.125, 0.0])
    >>> found["relu"]["hist"].nonzero()  # row 1 counts nothing: 5 lies above 4
    tensor([[ 0,  0],
            [ 0, 11],
            [ 0, 22]])

    **Fine print.** Each step runs each module of `layers` once; no module has two keys. `"mean"` and `"std"` are what
    `output.mean()` and `output.std()` give. `"hist"`, of shape [steps, 40], is what `output.histc(40, 0, 4)` gives: it
    counts the values in 40 equal bins from 0 to 4, and no others. The tensors are detached, and may be of any numeric
    dtype. A later layer may overwrite an output in place. `batches` is a list with one or more of them.
    """

    def reference(layers, step, batches):
        return stats(layers, step, batches)

    class Mistakes:
        def late_binding(layers, step, batches):
            """All layers wrote into the record of one: your hooks read the loop variable when they run, and by then it
            has its last value. Bind it with a default argument, `name=name`.
            """
            return stats(layers, step, batches, key=lambda name: list(layers)[-1])

        def one_record_for_all(layers, step, batches):
            """All layers wrote into the same lists: `dict.fromkeys(layers, record)` puts one object under every key.
            Make a record for each, as in `{name: [] for name in layers}`.
            """
            return dict.fromkeys(layers, stats(layers, step, batches, key=lambda name: "")[""])

        def only_the_last_step(layers, step, batches):
            """You kept only one step: each call of a hook replaced what the call before had found. Append to a list."""
            found = stats(layers, step, batches)
            return {name: {part: value[-1] for part, value in parts.items()} for name, parts in found.items()}

        def bins_of_their_own(layers, step, batches):
            """Without limits, `histc` spreads its bins from the smallest to the largest value of each step, so no two
            rows can be compared. Give it the limits: `histc(40, 0, 4)`.
            """
            return stats(layers, step, batches, hist=lambda values: values.histc(40))

        def stored_alias(layers, step, batches):
            """You kept the outputs for later, and a ReLU overwrote them in place. Compute the statistics in the
            hook.
            """
            return stats(layers, step, batches, copy=lambda output: output.detach())

        def before_the_callers_hook(layers, step, batches):
            return stats(layers, step, batches, how={"prepend": True})

        def gradients_off(layers, step, batches):
            """You called `step` with gradients switched off, and `step` trains. `.detach()` what you keep instead."""
            return stats(layers, step, batches, how={"block": torch.no_grad})

        def returned_what_it_looked_at(layers, step, batches):
            """Your hook returns something, and what a hook returns takes the place of the output: here a tensor without
            a graph, so the layers before it got no gradient. A hook that only watches returns `None`.
            """
            return stats(layers, step, batches, give=lambda output: output.detach())

        def keyed_by_module(layers, step, batches):
            """The keys of your result are the modules. The task asks for the keys of `layers`: the names. Loop over
            `layers.items()`, and bind the name in the hook with a default argument, `name=name`.
            """
            return stats(layers, step, batches, key=lambda name: layers[name])

        def lists_not_tensors(layers, step, batches):
            """Your statistics are lists. Each has to be one tensor with a row for each step: keep tensors in a list,
            and return `torch.stack(list)`.
            """
            found = stats(layers, step, batches)
            return {name: {part: value.tolist() for part, value in parts.items()} for name, parts in found.items()}

        def lists_not_tensors__2(layers, step, batches):
            found = stats(layers, step, batches)
            return {name: {part: list(value) for part, value in parts.items()} for name, parts in found.items()}

        def outliers_counted(layers, step, batches):
            """You moved values outside 0 to 4 to the limits, where the first or the last bin counts them. They are not
            to be counted at all, and `histc(40, 0, 4)` leaves them out by itself: don't clamp.
            """
            return stats(layers, step, batches, hist=lambda values: values.clamp(0, 4).histc(40, 0, 4))

        def shares_not_counts(layers, step, batches):
            """Your histogram holds shares. The task asks for counts: don't divide by the number of values."""
            return stats(layers, step, batches, hist=lambda values: values.histc(40, 0, 4) / values.numel())

        def shares_not_counts__2(layers, step, batches):
            def density(values):
                return values.double().histogram(40, range=(0.0, 4.0), density=True).hist

            return stats(layers, step, batches, hist=density)

        def logarithms_of_counts(layers, step, batches):
            """Your histogram holds logarithms. The task asks for the counts: leave `log` to whoever draws them."""
            return stats(layers, step, batches, hist=lambda values: values.histc(40, 0, 4).log1p())

        def steps_in_columns(layers, step, batches):
            """Your histograms stand in columns, as `imshow` wants them. The task asks for a row for each step, [steps,
            40], and for plain counts: leave turning them, and logarithms, to whoever draws them.
            """
            found = stats(layers, step, batches)
            return {name: {**parts, "hist": parts["hist"].T} for name, parts in found.items()}

        def steps_in_columns__2(layers, step, batches):
            found = stats(layers, step, batches)
            return {name: {**parts, "hist": parts["hist"].T.log1p()} for name, parts in found.items()}

        def other_limits(layers, step, batches):
            """Your bins go from 0 to 10. The task asks for 40 bins from 0 to 4: `histc(40, 0, 4)`."""
            return stats(layers, step, batches, hist=lambda values: values.histc(40, 0, 10))

        def absolute_values(layers, step, batches):
            """Your histogram counts absolute values. Negative values lie below all bins: leave `abs()` out."""
            return stats(layers, step, batches, hist=lambda values: values.abs().histc(40, 0, 4))

        def variance_not_deviation(layers, step, batches):
            """You returned the variance as `"std"`. The standard deviation is its square root: `output.std()`."""
            return stats(layers, step, batches, std=lambda values: values.var())

        def registered_in_each_step(layers, step, batches):
            """Your result has too many rows: you registered new hooks in each step, and those of the steps before were
            still there. Register the hooks once, before the loop.
            """
            found = stats(layers, step, batches)
            return {
                name: {part: value.repeat_interleave(torch.arange(len(value)) + 1, 0) for part, value in parts.items()}
                for name, parts in found.items()
            }

        def of_the_inputs(layers, step, batches):
            """You described the inputs of the modules. The task asks for their outputs, the third argument of a forward
            hook.
            """
            return stats(layers, step, batches, how={"of": lambda args, output: args[0]})

        def what_step_returns(layers, step, batches):
            """You described what `step` returns. A step may return anything, or nothing: describe what each module
            returns, in a forward hook on it.
            """
            outputs = [step(batch).detach() for batch in batches]
            return described(dict.fromkeys(layers, outputs))

        def called_the_layers(layers, step, batches):
            """You called the modules on the batch yourself. Each gets another input inside the model: let forward hooks
            watch while `step(batch)` runs.
            """
            kept = {name: [] for name in layers}
            for batch in batches:
                step(batch)
                for name, layer in layers.items():
                    kept[name].append(layer(batch).detach())
            return described(kept)

        def divided_by_n(layers, step, batches):
            """Your standard deviation divides by n, as numpy's does. `output.std()` divides by n - 1."""
            return stats(layers, step, batches, std=lambda values: values.std(correction=0))

        def hook_left_behind(layers, step, batches):
            return stats(layers, step, batches, how={"removal": lambda went_well: False})

        def hook_left_after_exception(layers, step, batches):
            return stats(layers, step, batches, how={"removal": lambda went_well: went_well})
