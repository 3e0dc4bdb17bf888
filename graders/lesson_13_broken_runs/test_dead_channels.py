"""Exercise 13-dead-channels."""

from __future__ import annotations

import torch
from torch import nn

from graders.authoring import exercise
from graders.lesson_13_broken_runs.programs import all_in_eval_mode
from graders.scenes.inspections import inspects
from graders.scenes.relus import plain_relus, with_relus


def by_relu(model, batches, *, fired=lambda rows: rows != 0, among=nn.Module.named_modules, keep=torch.clone, **how):
    """For each ReLU, batch and call, what fired of the rows of each channel. The options are ways to go wrong."""
    names = {m: name for name, m in among(model) if isinstance(m, nn.ReLU)}
    outputs = []

    def note(m, args, out):
        outputs[-1].append((m, keep(out.detach())))

    hooks = [m.register_forward_hook(note, **how) for m in names]
    try:
        for batch in batches:
            outputs.append([])
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    rows = [[(names[m], fired(out.transpose(0, 1).flatten(1))) for m, out in calls] for calls in outputs]
    called = dict.fromkeys(name for calls in rows for name, _ in calls)
    return {name: [[row for one, row in calls if one == name] for calls in rows] for name in called}


def dead(found, join=lambda calls: torch.stack(calls).any(0)):
    """The channels of each ReLU in which `join` finds nothing, in what fired in all calls."""
    rows = {name: join([call.any(1) for calls in batches for call in calls]) for name, batches in found.items()}
    channels = {name: (~row).nonzero().flatten().tolist() for name, row in rows.items()}
    return {name: listed for name, listed in channels.items() if listed}


def of_batches(found, batches=slice(None), calls=slice(None)):
    """Those batches, and those calls of each, alone."""
    return {name: [one[calls] for one in every[batches]] for name, every in found.items()}


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
        "A channel is dead when it fires in no call of no batch: join the truth values of all calls with `|`. Look at "
        "the numbers in the hook itself, since the next layer may rewrite them in place (lesson 5), and remove all "
        "hooks in `finally` (lesson 11).",
    ),
    why=(
        "The hook looks at each output before a later layer can overwrite it, and keeps only one truth value for each "
        "channel. A set of the channels that have been 0 so far, cut down at each call, would do as well."
    ),
    scene=inspects(
        made=with_relus,
        also=plain_relus,
        only={"rank": (2, 3, 4, 5), "follower": ("plain", "in-place")},
        words={
            "task": "the dead channels are found",
            "special": "the names are those of the model",
            "runs": "each batch runs once",
        },
    ),
)
class TestDeadChannels:
    """Write `dead_channels(model, batches)`. Run the model on each tensor in the list `batches`. Return a dict: for
    each `nn.ReLU` with dead channels, its name and an ascending list of them. A channel is **dead** when it is exactly
    0 in every call, for every batch.

    **Example.**

    >>> batches = [torch.tensor([[-1.0, 2.0, 0.0]]), torch.tensor([[0.0, -3.0, -4.0]])]
    >>> dead_channels(nn.Sequential(nn.ReLU()), batches)  # channel 1 fires in the first batch
    {'0': [0, 2]}

    **Fine print.** Channels lie along dimension 1 of the output, which has 2 to 5 dimensions; other sizes may differ
    from call to call. They are `int`s. Subclasses of `nn.ReLU` count, and nothing else that computes the same. A ReLU
    may be called several times in one run, or never: then it is not in the dict. The model may be a ReLU itself. What
    leaves a ReLU is never negative.
    """

    def reference(model, batches):
        return dead(by_relu(model, batches))

    class Mistakes:
        def last_batch_only(model, batches):
            """You listed the channels that are 0 in the last batch. A channel is dead when it is 0 in all batches:
            join what you see in each call with what you saw before.
            """
            return dead(of_batches(by_relu(model, batches), batches=slice(-1, None)))

        def first_batch_only(model, batches):
            """You listed the channels that are 0 in the first batch. A channel is dead when it is 0 in all batches."""
            return dead(of_batches(by_relu(model, batches), batches=slice(1)))

        def only_last_call(model, batches):
            """A ReLU may be called several times in one run, and you kept only its last call of each run. A channel
            that fires in an earlier call is not dead.
            """
            return dead(of_batches(by_relu(model, batches), calls=slice(-1, None)))

        def only_first_call(model, batches):
            """A ReLU may be called several times in one run, and you looked only at its first call of each run. A
            channel that fires in a later call is not dead.
            """
            return dead(of_batches(by_relu(model, batches), calls=slice(1)))

        def last_call_of_all(model, batches):
            """You listed the channels that are 0 in the last call of the last batch: each call overwrote what you knew
            of the ones before. Join the calls.
            """
            return dead(by_relu(model, batches), join=lambda calls: calls[-1])

        def first_input_only(model, batches):
            """You looked at the first input of each batch only. A channel is dead when it is 0 for all of them."""
            return dead(by_relu(model, batches, keep=lambda out: out[:1].clone()))

        def some_zero(model, batches):
            """You listed each channel that is 0 somewhere. A dead channel is 0 everywhere: `all`, not `any`."""
            found = by_relu(model, batches, fired=lambda rows: (rows != 0).all(1, keepdim=True))
            return dead(found, join=lambda calls: torch.stack(calls).all(0))

        def dead_in_some_call(model, batches):
            """You listed each channel that is 0 in one whole call. A dead channel is 0 in all calls of all batches."""
            return dead(by_relu(model, batches), join=lambda calls: torch.stack(calls).all(0))

        def nearly_zero(model, batches):
            """A channel with very small numbers is not dead: something still comes through, and its gradient is not 0.
            Compare with 0 itself, in the dtype of the output.
            """
            return dead(by_relu(model, batches, fired=lambda rows: rows > 1e-6))

        def nearly_zero__2(model, batches):
            return dead(by_relu(model, batches, keep=lambda out: out.float().clone()))

        def in_eval_mode(model, batches):
            """You put the model into eval mode, and there other channels are 0. Leave each part in its mode."""
            with all_in_eval_mode(model):
                return dead(by_relu(model, batches))

        def relus_left_out(model, batches):
            """A ReLU is missing that lies in another module, and is of a subclass of `nn.ReLU`. `named_modules()` has
            modules of every depth, `named_children()` does not. Ask with `isinstance(module, nn.ReLU)`.
            """
            return dead(by_relu(model, batches, among=nn.Module.named_children))

        def listed_the_living(model, batches):
            """You listed the channels that fire. The others are asked for."""
            return dead(by_relu(model, batches), join=lambda calls: ~torch.stack(calls).any(0))

        def before_the_callers_hook(model, batches):
            """A hook of the caller replaces the output of a ReLU, and you looked at it before that. What counts is
            what the next layer gets: register your hook without `prepend=True`.
            """
            return dead(by_relu(model, batches, prepend=True))

        def looked_too_late(model, batches):
            """A later layer works in place on what a ReLU returned, and where you look its zeros are gone. Look in the
            hook, while the output is as it left the module, or keep a copy.
            """
            return dead(by_relu(model, batches, keep=lambda out: out))

        def empty_lists(model, batches):
            """Modules without dead channels are in your dict, with an empty list. Leave them out."""
            found = by_relu(model, batches)
            return {**{name: [] for name in found}, **dead(found)}
