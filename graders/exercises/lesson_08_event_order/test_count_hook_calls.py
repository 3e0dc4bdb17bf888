"""Exercise 08-count-hook-calls."""

import copy
from contextlib import ExitStack

import torch
from torch.nn.modules import module as for_all
from torch.utils.checkpoint import checkpoint

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import hook_events as events


def result(model, x, ckpt):
    """What the model returns, with a checkpoint or without one."""
    return checkpoint(model, x, use_reentrant=False) if ckpt else model(x)


def register(stack, module, counts, kinds=("forward", "full_backward")):
    """Two hooks of these kinds on the module that count, until `stack` is closed."""

    def forward(*_):
        counts["fwd"] += 1

    def backward(*_):
        counts["bwd"] += 1

    for kind, hook in zip(kinds, (forward, backward)):
        stack.enter_context(getattr(module, f"register_{kind}_hook")(hook))


def passes(model, x, n, ckpt, hooked=None, before_each=lambda: None, run=result, **how):
    """What is asked for, with two hooks on `hooked` in the lesson's style."""
    counts = {"fwd": 0, "bwd": 0}
    with ExitStack() as stack:
        register(stack, model[0] if hooked is None else hooked, counts, **how)
        for _ in range(n):
            before_each()
            run(model, x, ckpt).sum().backward()
    return counts


@exercise(
    "08-count-hook-calls",
    points=2,
    minutes=20,
    difficulty=2,
    title="Count hook calls, with and without checkpoint",
    hints=(
        "Count, do not compute: let each hook add 1, and run the model.",
        "With `ckpt=True` the forward part of the model runs a second time during backward: the recomputation.",
        "Remove both handles in `finally`. Register them once, before the first pass.",
    ),
    why=(
        "The hooks count, so you need not know how often the recomputation calls a module, and the `with` block "
        "removes both even if a pass raises. Two global hooks that ignore every module but `model[0]` would do as "
        "well, and so would a new pair of hooks for each pass."
    ),
    scene=stories(
        promises={
            "the calls are counted": events.REPORTED,
            "the calls are counted in a model of one layer": events.of_one_layer_in_a_row,
            "two calls at the same time do not disturb each other": events.inside,
            "the passes ran as asked": events.one_plain_pass,
            "nothing else changes": events.nothing_else,
            "an exception comes through and nothing is left": events.something_raises,
        },
        axes={**events.FIRST, **events.PASS},
        impossible=events.IMPOSSIBLE_COUNTS,
        arguments=events.passes,
        plainly=events.one_pass,
    ),
)
class TestCountHookCalls:
    """Write `count_hook_calls(model, x, n, ckpt)`. It runs `model(x).sum().backward()` `n` times; with `ckpt`,
    `checkpoint(model, x, use_reentrant=False)` takes the place of `model(x)`. Return `{"fwd": ..., "bwd": ...}`: how
    often a forward hook on `model[0]` is called in all `n` passes, and how often a full backward hook.

    **Example.**

    >>> model, x = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)), torch.ones(1, 2)
    >>> count_hook_calls(model, x, 3, False)
    {'fwd': 3, 'bwd': 3}

    **Fine print.** `model` is an `nn.Sequential`, `checkpoint` that of `torch.utils.checkpoint`, and `n` is 1 or more.
    `model[0]` may appear in `model` a second time, its parameters may be frozen, and it may let no gradient through to
    its input, like `Positive` in the text. Something in the model requires grad. The `.grad` of the parameters, and of
    `x` if it requires grad, accumulates over the passes.
    """

    def reference(model, x, n, ckpt):
        first, counts = model[0], {"fwd": 0, "bwd": 0}

        def counting(kind):
            return lambda module, *_: counts.update({kind: counts[kind] + (module is first)})

        with (
            for_all.register_module_forward_hook(counting("fwd")),
            for_all.register_module_full_backward_hook(counting("bwd")),
        ):
            for _ in range(n):
                torch.autograd.backward(result(model, x, ckpt).sum())
        return counts

    class Mistakes:
        def ignored_checkpoint(model, x, n, ckpt):
            """With `ckpt=True` the forward part runs again during `backward()`, and you did not count that. Either you
            ran `model(x)` instead of `checkpoint(model, x, use_reentrant=False)`, or your hooks were gone by then.
            """
            return passes(model, x, n, False)

        def assumed_one_call(model, x, n, ckpt):
            """You returned one call for each pass. But checkpoint runs the forward pass again during backward, a module
            can be used twice in one pass, and backward may skip one. Count the calls of hooks on `model[0]`, which stay
            until `backward()` has run.
            """
            passes(model, x, n, ckpt)
            return {"fwd": n, "bwd": n}

        def doubled_both(model, x, n, ckpt):
            """You doubled both numbers for the checkpoint. Only the forward part runs again; the backward pass, and
            with it the full backward hook, runs once.
            """
            passes(model, x, n, ckpt)
            return {"fwd": n * (1 + ckpt), "bwd": n * (1 + ckpt)}

        def assumed_two_calls(model, x, n, ckpt):
            """You calculated the numbers: one call of each hook in a pass, and one more forward call with a checkpoint.
            But a module can be used twice in one pass, and backward may skip one. Count with hooks on `model[0]`.
            """
            passes(model, x, n, ckpt)
            return {"fwd": n * (1 + ckpt), "bwd": n}

        def one_pass_only(model, x, n, ckpt):
            """These are the calls of one pass. The task asks for those of all `n` passes together."""
            return {kind: count // n for kind, count in passes(model, x, n, ckpt).items()}

        def changed_the_input(model, x, n, ckpt):
            """The model received an input that differs from `x` in `requires_grad`. That changes which modules a
            gradient passes, and so the counts: give `x` to the model as it is.
            """
            return passes(model, x.requires_grad_(), n, ckpt)

        def changed_the_input__2(model, x, n, ckpt):
            return passes(model, x.detach(), n, ckpt)

        def changed_the_input__3(model, x, n, ckpt):
            return passes(model, x.clone().requires_grad_(), n, ckpt)

        def hooked_the_model(model, x, n, ckpt):
            """These are the calls of the whole model. Register the two hooks on `model[0]`, its first module."""
            return passes(model, x, n, ckpt, model)

        def hooked_the_last_module(model, x, n, ckpt):
            """These are the calls of the last module. Register the two hooks on `model[0]`, the first one."""
            return passes(model, x, n, ckpt, model[-1])

        def counted_a_forward_pre_hook(model, x, n, ckpt):
            """You counted the calls of a forward pre-hook. The recomputation of a checkpoint may stop as soon as it has
            what backward needs, so a forward hook may be called less often: `register_forward_hook`.
            """
            return passes(model, x, n, ckpt, kinds=("forward_pre", "full_backward"))

        def counted_a_backward_pre_hook(model, x, n, ckpt):
            """You counted the calls of a backward pre-hook. A full backward hook may be called less often: use
            `register_full_backward_hook`.
            """
            return passes(model, x, n, ckpt, kinds=("forward", "full_backward_pre"))

        def hooked_every_module(model, x, n, ckpt):
            """You counted the calls of every module of the model. Register the two hooks on `model[0]` only."""
            counts = {"fwd": 0, "bwd": 0}
            with ExitStack() as stack:
                for module in model.modules():
                    register(stack, module, counts)
                for _ in range(n):
                    result(model, x, ckpt).sum().backward()
            return counts

        def registered_in_each_pass(model, x, n, ckpt):
            """You registered new hooks in each pass, and those of the passes before were still there, so they counted
            together. Register the two hooks once, before the loop, or remove them at the end of each pass.
            """
            counts = {"fwd": 0, "bwd": 0}
            with ExitStack() as stack:
                for _ in range(n):
                    register(stack, model[0], counts)
                    result(model, x, ckpt).sum().backward()
            return counts

        def checkpointed_the_first_layer(model, x, n, ckpt):
            """You put only the first layer into the checkpoint, but the whole model belongs there:
            `checkpoint(model, x, use_reentrant=False)`.
            """

            def run(model, x, ckpt):
                return model[1:](checkpoint(model[0], x, use_reentrant=False)) if ckpt else model(x)

            return passes(model, x, n, ckpt, run=run)

        def another_checkpoint(model, x, n, ckpt):
            """Your checkpoint is the reentrant one, which works differently, and not at all where the input requires no
            grad. Pass `use_reentrant=False`.
            """

            def run(model, x, ckpt):
                return checkpoint(model, x, use_reentrant=True) if ckpt else model(x)

            return passes(model, x, n, ckpt, run=run)

        def another_dropout(model, x, n, ckpt):
            """Your recomputation draws another dropout than the forward pass did, so the gradients of the parameters
            are wrong. Leave out `preserve_rng_state=False`.
            """

            def run(model, x, ckpt):
                return checkpoint(model, x, use_reentrant=False, preserve_rng_state=False) if ckpt else model(x)

            return passes(model, x, n, ckpt, run=run)

        def one_forward_pass(model, x, n, ckpt):
            """You ran the model once, and only its backward pass `n` times. Each of the `n` passes is a forward and a
            backward pass: run both in the loop.
            """
            counts = {"fwd": 0, "bwd": 0}
            with ExitStack() as stack:
                register(stack, model[0], counts)
                loss = result(model, x, ckpt).sum()
                for _ in range(n):
                    loss.backward(retain_graph=True)
            return counts

        def forwards_first(model, x, n, ckpt):
            """You ran all forward passes, and then all backward passes. In each of the `n` passes, backward comes right
            after forward.
            """
            counts = {"fwd": 0, "bwd": 0}
            with ExitStack() as stack:
                register(stack, model[0], counts)
                for out in [result(model, x, ckpt) for _ in range(n)]:
                    out.sum().backward()
            return counts

        def hook_left_behind(model, x, n, ckpt):
            counts = {"fwd": 0, "bwd": 0}
            model[0].register_forward_hook(lambda *_: counts.update(fwd=counts["fwd"] + 1))
            model[0].register_full_backward_hook(lambda *_: counts.update(bwd=counts["bwd"] + 1))
            for _ in range(n):
                result(model, x, ckpt).sum().backward()
            return counts

        def cleared_grads(model, x, n, ckpt):
            """The counts are right, but you cleared the gradients of the model. `.grad` accumulates over the passes:
            leave out `zero_grad()`.
            """
            return passes(model, x, n, ckpt, before_each=model.zero_grad)

        def cleared_the_grad_of_x(model, x, n, ckpt):
            """The counts are right, but you cleared `x.grad` before each pass. It accumulates over the passes."""
            return passes(model, x, n, ckpt, before_each=lambda: setattr(x, "grad", None))

        def one_pass_multiplied(model, x, n, ckpt):
            """You ran one pass and multiplied its counts by `n`. The task asks for `n` passes, and each of them adds to
            `.grad`.
            """
            return {kind: n * count for kind, count in passes(model, x, 1, ckpt).items()}

        def ran_on_a_copy(model, x, n, ckpt):
            """The counts are right, but `x.grad` gets nothing: you gave the model a copy of `x`. Give it `x` itself."""
            return passes(model, x.detach().clone().requires_grad_(x.requires_grad), n, ckpt)

        def ran_a_copy(model, x, n, ckpt):
            """The counts are right, but the parameters get no `.grad`: you ran a copy of the model. Run the model
            itself.
            """
            return passes(copy.deepcopy(model), x, n, ckpt)
