"""Exercise 13-dead-channels."""

import contextlib
from functools import partial

import torch
from torch import nn

from graders.exercises.authoring import exercise
from graders.exercises.lesson_13_broken_runs.programs import State
from graders.exercises.lesson_13_broken_runs.silent_models import SILENT
from graders.scenes.scene import stories
from graders.scenes.stories import silent_channels as silent


def fired(
    model, batches, alive=lambda rows: (rows != 0).any(1), among=nn.Module.named_modules, keep=torch.clone, **how
):
    """For each ReLU that is called, the channels that fire in each of its calls. The options are ways to go wrong."""
    calls, hooks = [], []

    def note(module, args, out, name):
        calls.append((name, keep(out.detach())))

    try:
        for name, module in among(model):
            if isinstance(module, nn.ReLU):
                hooks.append(module.register_forward_hook(partial(note, name=name), **how))
        for batch in batches:
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    found = {}
    for name, out in calls:
        found.setdefault(name, []).append(alive(out.transpose(0, 1).flatten(1)))
    return found


def dead(found, join=lambda calls: torch.stack(calls).any(0)):
    """The channels of each ReLU that are not there when its calls are joined."""
    channels = {name: (~join(calls)).nonzero().flatten().tolist() for name, calls in found.items()}
    return {name: listed for name, listed in channels.items() if listed}


@exercise(
    "13-dead-channels",
    points=2,
    minutes=25,
    difficulty=2,
    core=True,
    title="Find the channels of a ReLU that never fire",
    hints=(
        "A forward hook on each `nn.ReLU` sees what it outputs (lesson 5). Register one on each entry of "
        "`named_modules()` that is an instance of it, and bind the name (lesson 5, too).",
        "`output.transpose(0, 1).flatten(1)` has one row for each channel, for 2 dimensions and for 5 (lesson 9). "
        "`(rows != 0).any(1)` is one truth value for each channel: did it fire in this call?",
        "A channel is dead when it fires in no call of any batch: join the truth values of all calls with `|`. Look "
        "at the numbers in the hook itself, since the next layer may rewrite them in place (lesson 5), and remove all "
        "hooks in `finally` (lesson 11).",
    ),
    why=(
        "The hook looks at each output before a later layer can overwrite it, and keeps only one truth value for each "
        "channel. A set of the channels that have been 0 so far, cut down at each call, would do as well."
    ),
    scene=stories(
        promises={
            "the dead channels are found": silent.found,
            "the names are those of the model": silent.found_in_a_relu,
            "each call begins anew": (silent.found_anew, silent.found_inside),
            "each batch runs once": silent.one_run,
            "nothing of the caller changes": silent.nothing_else,
            "an exception comes through and nothing is left": silent.something_raises,
        },
        axes=silent.AXES,
    ),
    planted=SILENT,
)
class TestDeadChannels:
    """Write `dead_channels(model, batches)`. Run the model once on each tensor in the list `batches`. Return a dict:
    for each `nn.ReLU` with dead channels, its name and an ascending list of them. A channel is **dead** when it is
    exactly 0 in every call, for every batch.

    **Example.**

    >>> batches = [torch.tensor([[-1.0, 2.0, 0.0]]), torch.tensor([[0.0, -3.0, -4.0]])]
    >>> dead_channels(nn.Sequential(nn.ReLU()), batches)  # channel 1 fires in the first batch
    {'0': [0, 2]}

    **Fine print.** Channels run along dimension 1 of the output, which has 2 to 5 dimensions; other sizes may differ
    from call to call. They are `int`s. Names are those of `model.named_modules()`. Subclasses of `nn.ReLU` count, but
    nothing else that computes the same. A ReLU may be called several times in one run, or never: then it is not in the
    dict. The model may be a ReLU itself. What leaves a ReLU is never negative or NaN.
    """

    def reference(model, batches):
        return dead(fired(model, batches))

    class Mistakes:
        def last_call_of_all(model, batches):
            """You listed the channels that are 0 in the last call of the last batch: each call overwrote what you knew
            from the ones before. Join the calls.
            """
            return dead(fired(model, batches), join=lambda calls: calls[-1])

        def last_call_of_each_run(model, batches):
            """A ReLU may be called several times in one run, and of each run you kept only the last call: it overwrote
            the ones before. Join all calls, in the hook: `|` with what you know already.
            """
            found = {}
            for batch in batches:
                for name, calls in fired(model, [batch]).items():
                    found.setdefault(name, []).append(calls[-1])
            return dead(found)

        def dead_in_some_call(model, batches):
            """You listed each channel that is 0 in one whole call. A dead channel is 0 in all calls of all batches."""
            return dead(fired(model, batches), join=lambda calls: torch.stack(calls).all(0))

        def nearly_zero(model, batches):
            """A channel with very small numbers is not dead: something still comes through, and its gradient is not 0.
            Compare with 0 itself, in the dtype of the output.
            """
            return dead(fired(model, batches, alive=lambda rows: (rows > 1e-6).any(1)))

        def nearly_zero__2(model, batches):
            return dead(fired(model, batches, alive=lambda rows: (rows.float() != 0).any(1)))

        def children_only(model, batches):
            """A ReLU inside another module is missing. `named_modules()` visits every depth, `named_children()` only
            the first.
            """
            return dead(fired(model, batches, among=nn.Module.named_children))

        def subclasses_left_out(model, batches):
            """A ReLU of a subclass of `nn.ReLU` is missing. `isinstance(module, nn.ReLU)` knows subclasses; a
            comparison of types does not.
            """
            plain = lambda model: [(name, m) for name, m in model.named_modules() if type(m) is nn.ReLU]  # noqa: E731
            return dead(fired(model, batches, among=plain))

        def every_name(model, batches):
            return dead(fired(model, batches, among=partial(nn.Module.named_modules, remove_duplicate=False)))

        def before_the_callers_hook(model, batches):
            """One of the caller's hooks replaces what leaves a ReLU, and you looked before that: with `prepend=True`,
            or at what goes in. Look at `output` in a forward hook without `prepend`.
            """
            return dead(fired(model, batches, prepend=True))

        def before_the_callers_hook__2(model, batches):
            calls, hooks = {}, []
            try:
                for name, module in model.named_modules():
                    if isinstance(module, nn.ReLU):
                        hook = lambda module, args, name: calls.setdefault(name, []).append(args[0].clone())  # noqa: E731
                        hooks.append(module.register_forward_pre_hook(partial(hook, name=name)))
                for batch in batches:
                    model(batch)
            finally:
                for hook in hooks:
                    hook.remove()
            return dead({name: [(x.transpose(0, 1).flatten(1) > 0).any(1) for x in of] for name, of in calls.items()})

        def looked_too_late(model, batches):
            return dead(fired(model, batches, keep=lambda out: out))

        def empty_lists(model, batches):
            """Modules without dead channels are in your dict, with an empty list. Leave them out."""
            relus = [name for name, module in model.named_modules() if isinstance(module, nn.ReLU)]
            return {**{name: [] for name in relus}, **dead(fired(model, batches))}

        def empty_lists__2(model, batches):  # of those that are called
            calls = fired(model, batches)
            return {**{name: [] for name in calls}, **dead(calls)}

        def living_channels(model, batches):
            """You listed the channels that fire. The task asks for those that never do."""
            return dead(fired(model, batches), join=lambda calls: ~torch.stack(calls).any(0))

        def zero_once(model, batches):
            """You listed each channel that has a 0 somewhere. A dead channel has nothing else: use
            `(rows == 0).all(1)`, or `~(rows != 0).any(1)`.
            """
            return dead(
                fired(model, batches, alive=lambda rows: (rows != 0).all(1)),
                join=lambda calls: torch.stack(calls).all(0),
            )

        def zero_once__2(model, batches):
            return dead(fired(model, batches, alive=lambda rows: (rows != 0).all(1)))

        def one_number_of_dimensions(model, batches):
            """Your line does not fit every number of dimensions: what leaves a ReLU has 2 behind an `nn.Linear`, and 3
            to 5 behind a convolution. `output.transpose(0, 1).flatten(1)` has one row for each channel in all of them.
            """
            return dead(fired(model, batches, keep=lambda out: out.flatten(2)))

        def one_number_of_dimensions__2(model, batches):
            found = {}

            def hook(module, args, out):
                found[module] = found.get(module, False) | (out.detach() != 0).any(0)

            with contextlib.ExitStack() as stack:
                for module in model.modules():
                    if isinstance(module, nn.ReLU):
                        stack.enter_context(module.register_forward_hook(hook))
                for batch in batches:
                    model(batch)
            channels = {name: (~found[m]).nonzero()[:, 0].tolist() for name, m in model.named_modules() if m in found}
            return {name: listed for name, listed in channels.items() if listed}

        def another_mode(model, batches):
            return dead(fired(model.eval(), batches))

        def another_mode__2(model, batches):
            before = State(model)
            try:
                return dead(fired(model.eval(), batches))
            finally:
                before.put_back([])

        def hook_returned_something(model, batches):
            """Your hook returned something, and it took the place of what leaves the ReLU; a lambda returns the value
            of its expression. Write the hook with `def`, and let it return nothing.
            """
            with contextlib.ExitStack() as stack:
                for module in model.modules():
                    if isinstance(module, nn.ReLU):
                        hook = lambda module, args, out: out.transpose(0, 1).flatten(1).amax(1)  # noqa: E731
                        stack.enter_context(module.register_forward_hook(hook))
                return dead(fired(model, batches, prepend=True))
