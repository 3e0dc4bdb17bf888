"""Exercise 08-count-hook-calls."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

import torch
from torch.nn.modules import module as for_all
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from graders.authoring import exercise
from graders.scenes.event_models import stack
from graders.scenes.event_order import a_number_of_passes, in_a_sequential, runs_passes


def result(model, x, ckpt):
    """What the model returns, with a checkpoint or without one."""
    return checkpoint(model, x, use_reentrant=False) if ckpt else model(x)


def counted(model, n, run, counts=None):
    """Calls `run` so often, and counts with two hooks in the lesson's style."""
    counts = {"fwd": 0, "bwd": 0} if counts is None else counts

    def forward(*_):
        counts["fwd"] += 1

    def backward(*_):
        counts["bwd"] += 1

    with model[0].register_forward_hook(forward), model[0].register_full_backward_hook(backward):
        for _ in range(n):
            run()
    return counts


def in_parts(model, x, n, ckpt, parts):
    """Passes in which the checkpoint is one of parts of the model."""
    if not ckpt:
        return passes(model, x, n, ckpt)
    return counted(model, n, lambda: checkpoint_sequential(model, parts, x, use_reentrant=False).sum().backward())


def passes(model, x, n, ckpt):
    """What is asked for."""
    return counted(model, n, lambda: result(model, x, ckpt).sum().backward())


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
    scene=runs_passes(
        model=stack,
        arguments=a_number_of_passes,
        alone=in_a_sequential,
        only={"first": ("layer", "frozen", "no gradient", "nested")}
        | dict.fromkeys(("join", "names", "passing", "unit"), ()),
        words={
            "task": "the calls are counted",
            "alone": "the calls are counted in a model of one layer",
            "plain": "the passes ran as asked",
        },
    ),
)
class TestCountHookCalls:
    """Write `count_hook_calls(model, x, n, ckpt)`. It runs `model(x).sum().backward()` `n` times; with `ckpt`,
    `checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`. Return `{"fwd": ..., "bwd": ...}`:
    how often a forward hook and a full backward hook on `model[0]` are called in all.

    **Example.**

    >>> model, x = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)), torch.ones(1, 2)
    >>> count_hook_calls(model, x, 3, False)
    {'fwd': 3, 'bwd': 3}

    **Fine print.** `model` is an `nn.Sequential`, `checkpoint` that of `torch.utils.checkpoint`, and `n` is 1 or more.
    `model[0]` may stand a second time in `model`, its parameters may be frozen, and it may let no gradient through to
    its input, as `Positive` in the text. Something in the model requires grad. The `.grad` of the parameters, and of
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
            """You ran `model(x)` although `ckpt` is `True`. Then the forward pass has to be `checkpoint(model, x,
            use_reentrant=False)`, and the counts change.
            """
            return passes(model, x, n, False)

        def wrong_checkpoint(model, x, n, ckpt):
            """`checkpoint_sequential` cuts the model into parts: it never calls `model` itself, and it runs the last
            part without a checkpoint. Give the whole model to `checkpoint(model, x, use_reentrant=False)`.
            """
            return in_parts(model, x, n, ckpt, 1)

        def wrong_checkpoint__2(model, x, n, ckpt):
            return in_parts(model, x, n, ckpt, min(2, len(model)))

        def wrong_checkpoint__3(model, x, n, ckpt):
            return in_parts(model, x, n, ckpt, len(model))

        def assumed_one_call(model, x, n, ckpt):
            """You returned one call for each pass. But checkpoint runs the forward again during backward, a module can
            be used twice in one pass, and backward may skip one. Count the calls of hooks on `model[0]`, which stay
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

        def doubled_both__2(model, x, n, ckpt):
            counts = passes(model, x, n, ckpt)
            return counts | {"bwd": counts["bwd"] * (1 + ckpt)}

        def one_pass_only(model, x, n, ckpt):
            """These are the calls of one pass. Asked are those of all `n` passes together."""
            return {kind: count // n for kind, count in passes(model, x, n, ckpt).items()}

        def one_pass_only__2(model, x, n, ckpt):
            return passes(model, x, 1, ckpt)

        def exchanged(model, x, n, ckpt):
            """You exchanged the two numbers: `fwd` is how often the forward hook is called, `bwd` how often the full
            backward hook is.
            """
            counts = passes(model, x, n, ckpt)
            return {"fwd": counts["bwd"], "bwd": counts["fwd"]}

        def not_in_recomputation(model, x, n, ckpt):
            """You do not count the calls in the recomputation. It runs in `backward()`, and until then the forward hook
            has to stay on `model[0]`.
            """
            fwd, bwd = [], []
            with model[0].register_full_backward_hook(lambda *_: bwd.append(1)):
                for _ in range(n):
                    with model[0].register_forward_hook(lambda *_: fwd.append(1)):
                        output = result(model, x, ckpt)
                    output.sum().backward()
            return {"fwd": len(fwd), "bwd": len(bwd)}

        def kept_from_call_to_call(model, x, n, ckpt, counts={"fwd": 0, "bwd": 0}):  # noqa: B006 - the mistake
            """What earlier calls noted is still there, and your result goes on from it. Start anew in each call."""
            return dict(counted(model, n, lambda: result(model, x, ckpt).sum().backward(), counts))

        def registered_every_pass(model, x, n, ckpt):
            """You register the hooks again in each pass, so that the first pass counts once, the second twice, and so
            on. Register once, before the loop, or remove the hooks at the end of each pass.
            """
            counts, one = {"fwd": 0, "bwd": 0}, {}
            for number in range(n):
                one = passes(model, x, 1, ckpt)
                counts = {kind: count + (number + 1) * one[kind] for kind, count in counts.items()}
            return counts

        def no_graph(model, x, n, ckpt):
            """The result of the model has no graph. With `use_reentrant=True`, `checkpoint` makes none when `x`
            requires no grad, and under `no_grad` there is none either: write `checkpoint(model, x,
            use_reentrant=False)`.
            """
            run = lambda: (checkpoint(model, x, use_reentrant=True) if ckpt else model(x)).sum().backward()  # noqa: E731
            return counted(model, n, run)

        def no_graph__2(model, x, n, ckpt):
            with torch.no_grad():
                return passes(model, x, n, ckpt)

        def changed_the_input(model, x, n, ckpt):
            """The model received an input that differs from `x` in `requires_grad`. That changes which modules a
            gradient passes, and so the counts: give `x` to the model as it is.
            """
            return passes(model, x.detach().requires_grad_(), n, ckpt)

        def changed_the_input__2(model, x, n, ckpt):
            return passes(model, x.detach(), n, ckpt)

        def changed_the_input__3(model, x, n, ckpt):
            return passes(model, x.requires_grad_(), n, ckpt)

        def hook_left_behind(model, x, n, ckpt):
            model[0].register_forward_hook(lambda *_: None)
            return passes(model, x, n, ckpt)

        def hook_left_after_exception(model, x, n, ckpt):
            """When the model or one of its hooks raises, your `remove()` calls are skipped. Put them into `finally`, or
            use the handles as context managers.
            """
            handle = model[0].register_forward_hook(lambda *_: None)
            counts = passes(model, x, n, ckpt)
            handle.remove()
            return counts
