"""Exercise 13-wrong-mode."""

from contextlib import ExitStack

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_13_broken_runs.programs import State
from graders.exercises.lesson_13_broken_runs.suspects import IN_WRONG_MODE
from graders.scenes.scene import stories
from graders.scenes.stories import inspected_runs as runs


def in_another_mode(model):
    """The modules whose mode is not that of the model."""
    return [m for m in model.modules() if m.training != model.training]


def tensors(output):
    """Copies of the tensors in an output."""
    values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
    return [value.clone().double() for value in values]


def differ(ones, others):
    """Whether two of them differ; the contract promises 0.02 then."""
    return any((one - other).abs().max() > 0.005 for one, other in zip(ones, others))


def total(ones, others):
    """Whether the sums of two of them differ: a mistake."""
    return any((one.sum() - other.sum()).abs() > 0.005 for one, other in zip(ones, others))


def verdicts(
    model, x, equal=("random", "buffers"), whole=False, copied=torch.clone, unequal=differ, among=in_another_mode,
    seed=None, nested=False,
):  # fmt: skip
    """For each suspect, whether its mode matters in each of its calls. The options are ways to go wrong."""
    found, busy, at_first = {}, [], State(model)
    kept = ("random", "buffers") if seed is None else ("buffers",)

    def weigh(module, args, kwargs):
        if busy and not nested:
            return
        busy.append(module)
        now, outputs = State(model), []
        for training in (True, False):
            now.put_back(equal if outputs else ())
            if seed is not None:
                torch.manual_seed(seed)
            module.train(training) if whole else setattr(module, "training", training)
            words = {key: copied(value) for key, value in kwargs.items()}
            outputs.append(tensors(module.forward(*map(copied, args), **words)))
        now.put_back(kept)
        busy.clear()
        found.setdefault(module, []).append(unequal(*outputs))

    with torch.no_grad(), ExitStack() as stack:
        stack.callback(at_first.put_back, kept)
        for module in among(model):
            stack.enter_context(module.register_forward_pre_hook(weigh, with_kwargs=True))
        model(x)
    return found


def named(model, found, matters=any):
    """The names of the modules whose calls say so."""
    return [name for name, m in model.named_modules() if m in found and matters(found[m])]


@exercise(
    "13-wrong-mode",
    points=3,
    minutes=35,
    difficulty=3,
    title="Left in the wrong mode",
    hints=(
        "A module's mode is its attribute `training`, and `train()` and `eval()` set it for all children, too. Which "
        "modules are not in the mode of the model? Of these you want the ones that would return something else.",
        "To know what a module would return, call it again, with the very input that it got in the model: pre-hooks "
        "see it (lesson 5), and see it before a module that works in place overwrites it (`11-first-nonfinite`). "
        "Call `module.forward` in the hook: a call of the module would fire your hook again, and so would a call of "
        "a copy. While such a trial runs, let your hooks do nothing. `with_kwargs=True` gives a pre-hook the keyword "
        "arguments (lesson 6).",
        "Two calls may differ for reasons other than the mode. Random numbers: `torch.random.fork_rng()` and "
        "`torch.get_rng_state()`. Buffers: keep copies of all, and put them back with `copy_` before each call and in "
        "`finally` at the end.",
    ),
    why=(
        "Each module runs in both modes on the input, buffers and random numbers of its own call, so only the mode can "
        "make a difference. Two deep copies of the model for each suspect, one in each mode and run with the same "
        "seed, would do as well."
    ),
    scene=stories(
        promises={
            "the modules in the wrong mode are named": runs.named,
            "each call begins anew": (runs.named_anew, runs.named_inside),
            "nothing of the caller changes": runs.nothing_else,
            "an exception comes through and nothing is left": runs.something_raises,
        },
        axes=runs.RUNS,
    ),
    planted=IN_WRONG_MODE,
)
class TestWrongMode:
    """Write `wrong_mode(model, x)`. Return a list of the names of all modules whose `training` is not that of the model
    itself, and whose mode **matters** in a call that `model(x)` makes, in the order of `model.named_modules()`.

    **Example.** The model is in training mode.

    >>> class Half(nn.Module):
    ...     def forward(self, x):
    ...         return x / 2 if self.training else x
    >>> model = nn.Sequential(nn.ReLU(), Half(), nn.Dropout(0.0), Half())
    >>> _ = model[:3].eval()
    >>> wrong_mode(model, torch.ones(4))
    ['1']

    **Fine print.** It matters if the output differs between `training = True` and `False`, with the same input, random
    numbers, buffers and other modes; then some entry below 100 differs by over 0.02. A module gets one tensor, by
    position or keyword, may work in place, and returns one, or a tuple or dict of them. Called twice, it changes
    buffers alike in both modes. Others' hooks only watch or scale. The model may run repeatedly. Afterwards buffers and
    random state are as before.
    """

    def reference(model, x):
        return named(model, verdicts(model, x))

    class Mistakes:
        def same_sum(model, x):
            """You miss a module that puts out the same numbers in another order: you compared a sum, or a mean. Compare
            entry by entry: `torch.allclose`, or `(one - other).abs().max()`.
            """
            return named(model, verdicts(model, x, unequal=total))

        def judged_in_a_trial(model, x):
            """You named a module that `model(x)` does not call: only your own trial call of a module around it, in the
            other mode, does. Let your hooks do nothing while a trial runs.
            """
            return named(model, verdicts(model, x, nested=True))

        def by_class(model, x):
            """You went by class: a `Dropout` or a `BatchNorm`, and nothing else. A module of any class may look at
            `self.training`, and a dropout of 0 does not care. Call each module in both modes, and compare.
            """
            kinds = torch.nn.Dropout, torch.nn.modules.batchnorm._BatchNorm
            return named(model, {m: [True] for m in in_another_mode(model) if isinstance(m, kinds)})

        def by_class__2(model, x):  # of those that are called
            kinds = torch.nn.Dropout, torch.nn.modules.batchnorm._BatchNorm
            return named(model, {m: [True] for m in verdicts(model, x) if isinstance(m, kinds)})

        def all_in_the_other_mode(model, x):
            """You returned all modules that are not in the mode of the model. Of these, only those count that return
            something else in the other mode: call each in both modes, and compare.
            """
            return named(model, {m: [True] for m in in_another_mode(model)})

        def all_in_the_other_mode__2(model, x):  # those that are called
            return named(model, {m: [True] for m in verdicts(model, x)})

        def switched_the_children(model, x):
            """You named a container only because modules in it depend on the mode. `train()` and `eval()` switch all of
            them: set `module.training` of this one alone.
            """
            return named(model, verdicts(model, x, whole=True))

        def other_random_numbers(model, x):
            """You named a module that draws random numbers in both modes: its two outputs differ only because of these.
            Give both calls the same ones, with `torch.get_rng_state()` and `torch.set_rng_state()`.
            """
            return named(model, verdicts(model, x, equal=["buffers"]))

        def buffers_moved_on(model, x):
            """You named a module that changes its buffers after it has computed its output: your second call found
            buffers that the first had changed. Put them back between the two.
            """
            return named(model, verdicts(model, x, equal=["random"]))

        def only_first_call(model, x):
            """A module may be called more than once, and here its mode matters only in the second call. Look at every
            call.
            """
            return named(model, verdicts(model, x), lambda calls: calls[0])

        def only_last_call(model, x):
            """A module may be called more than once, and here its mode matters only in the first call. Look at every
            call, and let none overwrite what an earlier one has shown.
            """
            return named(model, verdicts(model, x), lambda calls: calls[-1])

        def input_overwritten(model, x):
            """A module here works in place. By the time its forward hook fires, its input is overwritten, and a call of
            it overwrites what you give it: keep a copy of the input in a pre-hook, and give each call a copy of that.
            """
            return named(model, verdicts(model, x, copied=lambda value: value))

        def output_of_the_model(model, x):
            """You compared what the whole model returns: what comes after a module may hide what it does, or its mode
            may matter only to other modules. Compare what the call of the module itself returns.
            """
            at_first = State(model)

            def output(module, training):
                with torch.no_grad():
                    try:
                        module.training = training
                        return tensors(model(x))
                    finally:
                        at_first.put_back()

            both = {m: (output(m, True), output(m, False)) for m in in_another_mode(model)}
            return named(model, {m: [differ(*outputs)] for m, outputs in both.items()})

        def in_evaluation_alone(model, x):
            """You looked for modules in eval mode. Where the model itself is in eval mode, the wrong ones are in
            training mode: compare `training` with that of the model.
            """
            found = verdicts(model, x)
            return named(model, {module: calls for module, calls in found.items() if not module.training})

        def in_evaluation_alone__2(model, x):
            still = lambda model: [module for module in model.modules() if not module.training]  # noqa: E731
            return named(model, verdicts(model, x, among=still))

        def right_modes_too(model, x):
            """You named modules whose mode matters, but is that of the model. In the wrong mode are only those whose
            `training` differs from `model.training`.
            """
            return named(model, verdicts(model, x, among=torch.nn.Module.modules))

        def leaves_alone(model, x):
            """You looked at leaves only. A container may look at its own `training`, too."""
            found = verdicts(model, x)
            return named(model, {module: calls for module, calls in found.items() if not list(module.children())})

        def first_tensor_alone(model, x):
            """A module here returns several tensors, and you compared only the first. Any of them may differ."""
            return named(model, verdicts(model, x, unequal=lambda ones, others: differ(ones[:1], others[:1])))

        def random_state_left(model, x):
            """The names are right, but you left another random state behind: `torch.manual_seed` gives the caller other
            numbers. Do it within `torch.random.fork_rng()`, or put `torch.get_rng_state()` back at the end.
            """
            return named(model, verdicts(model, x, seed=0))
