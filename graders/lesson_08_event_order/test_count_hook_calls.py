"""Exercise 08-count-hook-calls."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch import nn

from graders.authoring import (
    SILENT,
    Mistake,
    exercise,
    expect,
    expecting_boom,
    module_hooks,
    no_hook_left,
    tensor_hooks,
)
from graders.lesson_08_event_order.judging import plain_grads
from graders.lesson_08_event_order.shared import boom, build, dot_grads, with_ones


def make_stack(spec: dict[str, Any]) -> nn.Sequential:
    """A Sequential with the drawn names; `order` says which of the two trainable parts, or Tanh, stands where."""
    parts: list[nn.Module] = [build({"kind": "linear", **values}) for values in spec["layers"]]
    if spec["nested"]:
        parts[0] = nn.Sequential(parts[0], nn.Tanh())
    if spec["frozen"]:
        parts[0].requires_grad_(False)
    chosen = [nn.Tanh() if index is None else parts[index] for index in spec["order"]]
    return nn.Sequential(OrderedDict(zip(spec["names"], chosen)))


def calls_of_a_pass(spec: dict[str, Any], grad: bool, ckpt: bool) -> list[str]:
    """The calls of the two hooks on the first module in one pass, in their order, from the rules.

    Backward once for each use, unless the module neither has anything to learn nor an input that requires
    grad. Forward once for each use, and once more for each when the checkpoint runs it again, which is the
    first thing in backward. The second run stops as soon as it has all that it needs, which is inside the
    last module: its hook does not fire.
    """
    uses = sum(index == 0 for index in spec["order"])
    again = uses - (spec["order"][-1] == 0)
    return ["fwd"] * (uses + again * ckpt) + ["bwd"] * (uses * (grad or not spec["frozen"]))


def hook_calls(spec: dict[str, Any], grad: bool, n: int, ckpt: bool) -> dict[str, int]:
    """How often the two hooks on the first module are called in `n` passes."""
    calls = calls_of_a_pass(spec, grad, ckpt)
    return {kind: n * calls.count(kind) for kind in ("fwd", "bwd")}


ORDERS = {"plain": [0, None, 1], "twice": [0, None, 0, 1], "last": [0, None, 1, 0]}


@exercise(
    "08-count-hook-calls",
    points=2,
    title="Count hook calls, with and without checkpoint",
    hints=(
        "Count, do not compute: let each hook add 1, and run the model.",
        "With `ckpt=True` the forward part of the model runs a second time during backward: the recomputation.",
        "Remove both handles in `finally`. Register them once, before the first pass.",
    ),
    cases=(
        {"kind": "plain", "frozen": False, "ckpt": False, "grad": True},
        {"kind": "plain", "frozen": False, "ckpt": True, "grad": False},
        {"kind": "twice", "frozen": False, "ckpt": False, "grad": False},
        {"kind": "twice", "frozen": False, "ckpt": True, "grad": True},
        {"kind": "plain", "frozen": True, "ckpt": False, "grad": False},
        {"kind": "plain", "frozen": True, "ckpt": True, "grad": False},
        {"kind": "plain", "frozen": True, "ckpt": True, "grad": True},
        {"kind": "last", "frozen": False, "ckpt": True, "grad": True},
    ),
)
class TestCountHookCalls:
    """Write `count_hook_calls(model, x, n, ckpt)`. `model` is an `nn.Sequential`. Run `n` passes: each is one forward
    pass, and then `sum().backward()` on its result. The forward pass is `model(x)` when `ckpt` is `False`, and
    `checkpoint(model, x, use_reentrant=False)` from `torch.utils.checkpoint` when `ckpt` is `True`.

    Return `{"fwd": ..., "bwd": ...}` with two integers for all `n` passes together: how often a forward hook on
    `model[0]` is called (one that is registered by `model[0].register_forward_hook(fn)`), and how often a full
    backward hook on `model[0]` is called (`model[0].register_full_backward_hook(fn)`).

    Sometimes the module `model[0]` is used a second time in the same model, and sometimes its parameters are frozen.
    `x` may or may not require grad, and stays as it is. The `.grad` of the parameters, and of `x` if it requires grad,
    accumulates over the `n` passes, without clearing. The modules stay in their modes. Hooks of the caller stay and
    fire. No hook of yours is left, even when the model or a hook raises; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))`, `n = 3` and `ckpt = False`
    the result is `{"fwd": 3, "bwd": 3}`.
    """

    def draw(rng, kind, frozen, ckpt, grad):
        order = ORDERS[kind]
        layers = [{"weight": rng.tensor(3, 3, low=-1, high=1), "bias": rng.tensor(3)} for _ in range(2)]
        names = rng.names(len(order))
        spec = {"layers": layers, "names": names, "order": order, "frozen": frozen, "nested": rng.choice((True, False))}
        return {"spec": spec, "x": rng.tensor(2, 3), "grad": grad, "n": rng.choice((4, 6, 8)), "ckpt": ckpt}

    def alive(spec, x, grad):
        return any(gradient.abs().max() > 0.01 for gradient in plain_grads(make_stack(spec), x, grad).values())

    def probe(student, spec, x, grad, n, ckpt):
        x.requires_grad_(grad)
        model = with_ones(make_stack(spec), x)
        model[1].eval()
        modes = [module.training for module in model.modules()]
        needs, calls = [], []
        model.register_forward_pre_hook(lambda module, args: needs.append(args[0].requires_grad))
        model[0].register_forward_hook(lambda *_: calls.append("fwd"))
        model[0].register_full_backward_hook(lambda *_: calls.append("bwd"))
        hooks = module_hooks(model) + tensor_hooks(x)
        counts = student.count_hook_calls(model, x, n, ckpt)
        seen = {
            "counts": dict(counts) if isinstance(counts, dict) else counts,
            "input_needs_grad": needs[:5],
            "callers_calls": calls[:1000],
            "grads": dot_grads(model, x),
            "x_needs_grad": x.requires_grad,
            "modes_kept": modes == [module.training for module in model.modules()],
            "hooks_left": module_hooks(model) + tensor_hooks(x) - hooks,
        }
        calls.clear()
        model(x.detach().clone().requires_grad_(grad)).sum().backward()
        seen["callers_calls_later"] = list(calls)
        failing = make_stack(spec)
        failing[1].register_forward_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen, "exception_in_forward"):
            student.count_hook_calls(failing, x.detach().clone().requires_grad_(grad), n, ckpt)
        seen["hooks_left_by_forward"] = module_hooks(failing) - hooks
        failing = make_stack(spec)
        next(parameter for parameter in failing.parameters() if parameter.requires_grad).register_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen, "exception_in_backward"):
            student.count_hook_calls(failing, x.detach().clone().requires_grad_(grad), n, ckpt)
        seen["hooks_left_by_backward"] = module_hooks(failing) - hooks
        return seen

    mistakes = (
        Mistake(
            "ignored-checkpoint",
            lambda seen, spec, grad, n, ckpt: (
                ckpt
                and seen["counts"].value == hook_calls(spec, grad, n, False)
                and seen["callers_calls"].value.count("fwd") == seen["counts"]["fwd"].value
            ),
            "You ran `model(x)` although `ckpt` is `True`. Then the forward pass has to be "
            "`checkpoint(model, x, use_reentrant=False)`, and the counts change.",
        ),
        Mistake(
            "assumed-one-call",
            lambda seen, spec, grad, n, ckpt: (
                seen["counts"].value == {"fwd": n, "bwd": n} != hook_calls(spec, grad, n, ckpt)
                and all(flag.value is grad for flag in seen["input_needs_grad"])
                and not (ckpt and seen["callers_calls"].value.count("fwd") == hook_calls(spec, grad, n, False)["fwd"])
            ),
            "You returned one call for each pass. But checkpoint runs the forward again during backward, a module can "
            "be used twice in one pass, and a frozen module may be skipped. Count the calls in the hooks.",
        ),
        Mistake(
            "doubled-both",
            lambda seen, spec, grad, n, ckpt: (
                seen["counts"].value != hook_calls(spec, grad, n, ckpt)
                and seen["counts"].value
                in (
                    {"fwd": 2 * n, "bwd": 2 * n},
                    {kind: times * hook_calls(spec, grad, n, ckpt)[kind] for kind, times in (("fwd", 1), ("bwd", 2))},
                )
                if ckpt
                else SILENT
            ),
            "You doubled both numbers for the checkpoint. Only the forward part runs again; the backward pass, and "
            "with it the full backward hook, runs once.",
        ),
        Mistake(
            "registered-every-pass",
            lambda seen, spec, grad, n, ckpt: (
                seen["counts"].value
                == {kind: count * (n + 1) // 2 for kind, count in hook_calls(spec, grad, n, ckpt).items()}
            ),
            "You register the hooks again in each pass, so that the first pass counts once, the second twice, and so "
            "on. Register once, before the loop, or remove the hooks at the end of each pass.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, grad: (
                len(seen["input_needs_grad"]) > 0 and all(flag.value is not grad for flag in seen["input_needs_grad"])
            ),
            "The model received an input that differs from `x` in `requires_grad`. That changes which modules a "
            "gradient passes, and so the counts: give `x` to the model as it is.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec, grad, n, ckpt: (
                seen["counts"].value == hook_calls(spec, grad, n, ckpt) and seen["hooks_left"].value > 0
            ),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                seen["hooks_left"].value == 0
                and (seen["hooks_left_by_forward"].value > 0 or seen["hooks_left_by_backward"].value > 0)
            ),
            "When the model or one of its hooks raises, your `remove()` calls are skipped. Put them into `finally`, or "
            "use the handles as context managers.",
        ),
    )

    def test_the_calls_are_counted(seen, spec, grad, n, ckpt):
        expected = hook_calls(spec, grad, n, ckpt)
        expect(seen["counts"]).has_keys("fwd", "bwd")
        for kind in expected:
            expect(seen["counts"][kind]).equals(expected[kind])

    def test_the_passes_ran_as_asked(seen, spec, x, grad, n, ckpt):
        expect(seen["callers_calls"]).timeline(n * calls_of_a_pass(spec, grad, ckpt))
        expect(seen["x_needs_grad"]).equals(grad)
        grads = plain_grads(make_stack(spec), x, grad)
        for name, gradient in grads.items():
            expect(seen["grads"][name]).close_to(n * gradient + 1, rtol=1e-4, atol=1e-4)

    def test_modes_and_hooks_of_the_caller_stay(seen, spec, grad):
        expect(seen["modes_kept"]).is_true("the modules are not in the modes in which the caller had set them")
        expect(seen["callers_calls_later"]).equals(calls_of_a_pass(spec, grad, ckpt=False))

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_something_raises(seen):
        for where in ("forward", "backward"):
            expect(seen[f"exception_in_{where}"]).equals("propagated")
            no_hook_left(seen[f"hooks_left_by_{where}"])
