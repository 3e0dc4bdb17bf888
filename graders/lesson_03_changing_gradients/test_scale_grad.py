"""Exercise 03-scale-grad."""

from __future__ import annotations

import torch

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, removed, snapshot, tensor_hooks
from graders.lesson_03_changing_gradients.judging import SINGLE_LOCATION, fan
from graders.lesson_03_changing_gradients.shared import scene


@exercise(
    "03-scale-grad",
    points=1,
    title="Scale a gradient on its way back",
    hints=(
        "A hook may return a tensor. What happens to the gradient then, and what happens when it returns `None`?",
        "Do not use a method whose name ends in an underscore, nor `grad *= s`: both write into a shared buffer.",
        "Register a hook that returns `grad * s`, and return the handle that `register_hook` gave you.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32, "sign": -1},
        {"leaf": False, "dtype": torch.float64, "sign": 1},
        {"leaf": True, "dtype": torch.bfloat16, "sign": 1},
    ),
)
class TestScaleGrad:
    """Write `scale_grad(t, s)`. `t` is a tensor that requires grad, leaf or not, of any floating dtype. `s` is a
    number. From now on, every gradient that arrives at `t` is multiplied by `s` before it goes on: into `t.grad` if
    `t` is a leaf, otherwise to the tensors that `t` was computed from. This holds in every backward pass. Return the
    handle; after `handle.remove()` gradients pass as they are.

    Nothing else changes: not the values of `t`, not the gradients of its neighbours (in `t + u`, the gradient of `u`),
    and not a tensor that the caller passes as `backward(gradient=...)`. Hooks that are already on `t` stay.

    **Example.** For `w = tensor([1.])` and `x = tensor([2.])`, both leaves, and `scale_grad(w, 10.0)`, the call
    `(3 * (w + x)).sum().backward()` leaves `w.grad == tensor([30.])` and `x.grad == tensor([3.])`.
    """

    def draw(rng, leaf, dtype, sign):
        return {
            "x": rng.tensor(3, dtype=dtype),
            "other": rng.tensor(3, dtype=dtype),
            "factors": [rng.tensor(3, dtype=dtype) for _ in range(2)],
            "up": rng.tensor(3, dtype=dtype),
            # In float64 a number that float32 does not hold, so that a detour through float32 shows.
            "s": sign * rng.choice((0.5, 2.0, 3.0)) / (7 if dtype == torch.float64 else 1),
            "leaf": leaf,
        }

    def probe(student, x, other, factors, up, s, leaf):
        t, neighbour = scene(x, other, leaf)
        calls = []
        t.register_hook(lambda grad: calls.append(1))
        values, hooks = snapshot(t), tensor_hooks(t)
        handle = student.scale_grad(t, s)
        seen = {"hooks_added": tensor_hooks(t) - hooks, "values_kept": torch.equal(t.detach(), values)}
        seen |= {"grad_kept": x.grad is None and not t.retains_grad}
        ((t + neighbour) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"x.grad": snapshot(x.grad), "neighbour.grad": snapshot(other.grad)}
        ((t + neighbour) * factors[1]).sum().backward(retain_graph=True)
        seen |= {"x.grad after two passes": snapshot(x.grad)}
        x.grad = other.grad = None
        (t + neighbour).sum().backward(retain_graph=True)  # every entry of this gradient is the same memory
        seen |= {"x.grad of a sum": snapshot(x.grad), "neighbour.grad of a sum": snapshot(other.grad)}
        x.grad, callers = None, up.clone()
        t.backward(gradient=callers, retain_graph=True)
        seen |= {"x.grad of gradient=": snapshot(x.grad), "gradient=": callers}
        x.grad, second = None, torch.ones_like(x).requires_grad_()
        _kept = student.scale_grad(second, 2 * s)  # a handle may keep its hook alive
        ((t + second) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"x.grad beside a second tensor": snapshot(x.grad), "second.grad": second.grad}
        seen |= {"values_kept_later": torch.equal(t.detach(), values), "calls": len(calls)}
        x.grad = None
        seen |= {"has_remove": removed(handle), "hooks left": tensor_hooks(t) - hooks}
        (t * factors[0]).sum().backward()
        return {**seen, "x.grad after remove": x.grad, "calls_in_the_end": len(calls)}

    mistakes = (
        Mistake(
            "in-place-leak",
            lambda seen, factors, s: close(seen["neighbour.grad"], 3 * s * factors[0]),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, leaf: (
                close(seen["x.grad"], fan(leaf) * factors[0])
                and close(seen["neighbour.grad"], 3 * factors[0])
                and seen["hooks_added"].value > 0
                and seen["values_kept_later"].value is True
            ),
        ),
        Mistake("changed-values", lambda seen: seen["values_kept_later"].value is False),
        Mistake(
            "wrong-hook-kind",
            lambda seen, factors, s, leaf: close(
                seen["x.grad after two passes"], fan(leaf) * s * (s * factors[0] + factors[1])
            ),
            "A post-accumulate-grad hook exists on leaves only, and it sees `.grad`, the total of all passes. "
            "`register_hook` works on every tensor that requires grad, and its hook gets the gradient of this pass.",
            raises=("cannot be registered on non-leaf", "post accumulate grad hooks should return None"),
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen, factors, leaf: (
                close(seen["x.grad"], fan(leaf) * factors[0])
                and seen["hooks_added"].value == 0
                and seen["has_remove"].value is True
                and seen["values_kept_later"].value is True
            ),
        ),
        Mistake("changed-dtype", raises="has changed the type of value"),
    )

    def test_the_gradient_is_scaled(seen, factors, s, leaf):
        expect(seen["x.grad"]).close_to(fan(leaf) * s * factors[0])

    def test_every_pass_is_scaled_once(seen, factors, up, s, leaf):
        expect(seen["x.grad after two passes"]).close_to(fan(leaf) * s * (factors[0] + factors[1]))
        expect(seen["x.grad of a sum"]).close_to(torch.full_like(up, fan(leaf) * s))
        expect(seen["x.grad of gradient="]).close_to(fan(leaf) * s * up)

    def test_a_second_tensor_has_its_own_number(seen, factors, s, leaf):
        expect(seen["x.grad beside a second tensor"]).close_to(fan(leaf) * s * factors[0])
        expect(seen["second.grad"]).close_to(2 * s * factors[0])

    def test_the_neighbour_and_the_caller_see_no_change(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(3 * factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, 3))
        expect(seen["gradient="]).close_to(up)

    def test_t_itself_stays_as_it_is(seen):
        expect(seen["grad_kept"]).is_true("your function set `t.grad`, or told `t` to retain it")
        expect(seen["values_kept"]).is_true("the values of t changed; the task is about its gradient")
        expect(seen["values_kept_later"]).is_true("the values of t changed; the task is about its gradient")

    def test_the_handle_removes_the_hook_and_no_other(seen, factors, leaf):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["x.grad after remove"]).close_to(fan(leaf) * factors[0])
        no_hook_left(seen["hooks left"])
        expect(seen["calls"]).equals(5)
        expect(seen["calls_in_the_end"]).equals(6)
