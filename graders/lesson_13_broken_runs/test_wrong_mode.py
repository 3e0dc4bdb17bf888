"""Exercise 13-wrong-mode."""

from __future__ import annotations

import torch

from graders.authoring import exercise
from graders.lesson_13_broken_runs.programs import State
from graders.scenes.inspections import inspects
from graders.scenes.modes import SUSPECTS, with_modes


def in_another_mode(model):
    """The modules whose mode is not that of the model."""
    return [m for m in model.modules() if m.training != model.training]


def tensors(output):
    """Copies of the tensors in an output."""
    values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
    return [value.clone().double() for value in values if torch.is_tensor(value)]


def differ(ones, others):
    """Whether two of them differ; the contract promises 0.01 then."""
    return any((one - other).abs().max() > 0.005 for one, other in zip(ones, others))


def verdicts(
    model, x, suspects=None, *, equal=("random", "buffers"), whole=False, of=tensors, copied=torch.clone, before=True
):
    """For each suspect, whether its mode matters in each of its calls. The options are ways to go wrong."""
    found, busy, at_first = {}, [], State(model)

    def weigh(module, forward, args, kwargs):
        now, outputs = State(model), []
        for training in (True, False):
            now.put_back(equal if outputs else ())
            module.train(training) if whole else setattr(module, "training", training)
            outputs.append(of(forward(*map(copied, args), **{key: copied(value) for key, value in kwargs.items()})))
        now.put_back()
        return differ(*outputs)

    def weighing(module, forward):
        def call(*args, **kwargs):
            if busy:
                return forward(*args, **kwargs)
            output = None if before else forward(*args, **kwargs)
            busy.append(module)
            try:
                found.setdefault(module, []).append(weigh(module, forward, args, kwargs))
            finally:
                busy.clear()
            return forward(*args, **kwargs) if before else output

        return call

    suspects = suspects or in_another_mode(model)
    with torch.no_grad():
        try:
            for module in suspects:
                module.__dict__["forward"] = weighing(module, module.forward)
            model(x)
        finally:
            for module in suspects:
                module.__dict__.pop("forward", None)
            at_first.put_back()
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
        "modules have another one than the model? Of these you want the ones that would return something else.",
        "To know what a module would return, call it again, at the very input that it got in the model: pre-hooks see "
        "it (lesson 5), and see it before a module that works in place overwrites it (`11-first-nonfinite`). Call "
        "`module.forward` in the hook: a call of the module would fire your hook again, and a call of a copy would, "
        "too. `with_kwargs=True` gives a pre-hook the keyword arguments (lesson 6).",
        "Two calls may differ for other reasons than the mode. Random numbers: `torch.random.fork_rng()` and "
        "`torch.get_rng_state()`. Buffers: keep copies of all, and put them back with `copy_` before each call and in "
        "`finally` at the end.",
    ),
    why=(
        "Each module runs in both modes on the input, buffers and random numbers of its own call, so only the mode can "
        "make a difference. Two deep copies of the model for each suspect, one in each mode and run with the same "
        "seed, would do as well."
    ),
    scene=inspects(
        made=with_modes,
        only={"mode": (), "suspects": tuple(SUSPECTS), "rank": (2, 3)},
        words={"task": "the modules in the wrong mode are named"},
    ),
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

    **Fine print.** The mode matters if the output is another one with `training = True` than with `False`, all else
    being equal as the call begins: input, random numbers, all buffers, other modes. A module gets one tensor, by
    position or keyword, may work in place, and returns a tensor, or a tuple or dict with tensors in it; an entry of one
    then differs by 0.01 or more. The model may run several times. Afterwards buffers and random state are as before.
    """

    def reference(model, x):
        return named(model, verdicts(model, x))

    class Mistakes:
        def by_class(model, x):
            """You went by the class: what is a `Dropout` or a `BatchNorm`, and nothing else. A module of any class may
            look at `self.training`, and a dropout of 0 does not care. Call each module in both modes, and compare.
            """
            kinds = torch.nn.Dropout, torch.nn.modules.batchnorm._BatchNorm
            return named(model, {m: [True] for m in in_another_mode(model) if isinstance(m, kinds)})

        def all_in_the_other_mode(model, x):
            """You returned all modules that are in another mode than the model. Of these, only those count that return
            something else in the other mode: call each in both modes, and compare.
            """
            return named(model, {m: [True] for m in in_another_mode(model)})

        def all_whose_mode_matters(model, x):
            """You returned modules that are in the same mode as the model, too. Only those count whose `training` is
            not `model.training`.
            """
            return named(model, verdicts(model, x, [*model.modules()][1:]))

        def leaves_only(model, x):
            suspects = [m for m in in_another_mode(model) if not list(m.children())]
            return named(model, verdicts(model, x, suspects))

        def switched_the_children(model, x):
            """You named a container whose children depend on the mode, and not the container itself. `train()` and
            `eval()` switch all modules inside: set `module.training` of this one alone.
            """
            return named(model, verdicts(model, x, whole=True))

        def other_random_numbers(model, x):
            """You named a module that draws random numbers in both modes: its two outputs differ by these alone. Give
            both calls the same ones, with `torch.get_rng_state()` and `torch.set_rng_state()`.
            """
            return named(model, verdicts(model, x, equal=["buffers"]))

        def buffers_moved_on(model, x):
            """You named a module that changes its buffers after it has computed its output: your second call found
            other buffers than the first. Put them back between the two.
            """
            return named(model, verdicts(model, x, equal=["random"]))

        def only_first_call(model, x):
            """A module may be called more than once, and here its mode matters in the second call only. Look at every
            call.
            """
            return named(model, verdicts(model, x), lambda calls: calls[0])

        def only_last_call(model, x):
            """A module may be called more than once, and here its mode matters in the first call only. Look at every
            call.
            """
            return named(model, verdicts(model, x), lambda calls: calls[-1])

        def input_overwritten(model, x):
            """A module here works in place. When its forward hook fires, its input is overwritten, and a call of it
            overwrites what you give it: keep a copy of the input in a pre-hook, and give each call a copy of that.
            """
            return named(model, verdicts(model, x, copied=lambda value: value))

        def input_overwritten__2(model, x):
            return named(model, verdicts(model, x, before=False))

        def first_tensor_only(model, x):
            """You compared the first tensor of each output. A module may return several, in a tuple or a dict, and the
            difference may be in another one.
            """
            return named(model, verdicts(model, x, of=lambda output: tensors(output)[:1]))

        def order_of_calls(model, x):
            """The names are right, and in another order: asked for is that of `model.named_modules()`."""
            names = {m: name for name, m in model.named_modules()}
            return [names[m] for m, calls in verdicts(model, x).items() if any(calls)]

        def output_of_the_model(model, x):
            """You compared what the whole model returns: what comes after a module may hide what it does, or its mode
            may matter to others alone. Compare what the call of the module itself returns.
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
