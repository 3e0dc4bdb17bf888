"""Exercise 03-scale-grad."""

from __future__ import annotations

import torch

from graders.authoring import (
    ALL,
    NO_GRADIENT_TO_HOOK,
    SILENT,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    beyond_float32,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    paired,
    refuse,
    removed,
    snapshot,
)
from graders.lesson_03_changing_gradients.judging import (
    SINGLE_LOCATION,
    differentiated_as,
    expect_rare,
    start,
    times,
)
from graders.lesson_03_changing_gradients.shared import FAR, TINY, accumulated, after_remove, flow, rare, scene


@exercise(
    "03-scale-grad",
    points=1,
    minutes=5,
    difficulty=1,
    core=True,
    title="Scale a gradient on its way back",
    hints=(
        "A hook may return a tensor. What happens to the gradient then, and what happens when it returns `None`?",
        "Do not use a method whose name ends in an underscore, nor `grad *= s`: both write into a shared buffer.",
        "Register a hook that returns `grad * s`, and return the handle that `register_hook` gave you.",
    ),
    why=(
        "`grad * s` is a new tensor, so whoever else holds the old gradient keeps it as it was. "
        "`grad.clone().mul_(s)` would do as well: what may not be written into is `grad` itself."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL, "number": ALL,
            "hooks": ALL, "call": ALL, "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "collection": "there is no collection",
            "model": "there is no model",
            "hooked": "there is one tensor to hook",
            "failure": "the function calls nothing of the caller",
        },
    ),
)  # fmt: skip
class TestScaleGrad:
    """Write `scale_grad(t, s)`. `t` is a tensor that requires grad, leaf or not, of any floating dtype, and `s` is a
    number. From now on, in every backward pass, the gradient that arrives at `t` is multiplied by `s` before it goes
    on: into `t.grad` if `t` is a leaf, otherwise to the tensors that `t` was computed from. Return the handle.

    **Example.** For `w = tensor([1.])` and `x = tensor([2.])`, both leaves, and `scale_grad(w, 10.0)`, the call
    `(3 * (w + x)).sum().backward()` leaves `w.grad == tensor([30.])` and `x.grad == tensor([3.])`.
    """

    def draw(rng, dtype, rank, layout, values, number):
        shape = rng.shape(rank)
        return {
            **{name: rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for name in ("x", "other", "up")},
            "factors": [rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for _ in range(2)],
            # A number that float32 does not hold, so that a detour through float32 shows; never 1.
            "s": beyond_float32(rng.number(number) * 9 / 7),
            "rare_up": rng.tensor(2, 3, 2, dtype=dtype, values=values),
        }

    def probe(student, x, other, factors, up, s, rare_up, layout, place, grad, hooks, grad_mode, backward):
        free = torch.ones(2, requires_grad=True)  # the very first call counts, too, and the very first `remove()`
        handle = student.scale_grad(free, 10.0)
        (3 * free).sum().backward()
        first_hook = [snapshot(free.grad)]
        removed(handle)
        (3 * free).sum().backward()
        x, t, neighbour = scene(x, other, layout, place, grad, hooks)
        factors = [laid_out(factor, layout) for factor in factors]
        second, half = (
            torch.ones_like(x).requires_grad_(),
            torch.ones(x.shape[:1], dtype=torch.bfloat16, requires_grad=True),
        )
        things = {"t": t, "x": x, "other": other, "factors": factors}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            handle = student.scale_grad(t, s)
            changed = witness.changes()
            same = torch.ones_like(x).requires_grad_()
            # A handle may keep its hook alive.
            kept = [student.scale_grad(u, number) for u, number in ((same, 1.0), (half, s), (second, 2 * s))]

        def hooked(t):
            kept.append(student.scale_grad(t, s))
            return t

        seen = {"changed": changed} | flow(x, lambda: t, other, neighbour, factors, up, backward)
        (t + second).backward(gradient=factors[0], inputs=[second])
        (3 * half).sum().backward()
        (3 * same).sum().backward()
        far = [torch.ones(2, requires_grad=True) for _ in FAR]
        for u, number in zip(far, FAR):
            kept.append(student.scale_grad(u, number))
            (3 * u).sum().backward()
        seen["gradients far from 1"] = [u.grad for u in far]
        seen |= {"the gradient for s = 1": same.grad, "for s = 1 has remove()": removed(kept[0])}
        seen |= {"the gradient of a second tensor": second.grad, "the gradient of a bfloat16 tensor": half.grad}
        seen |= rare(hooked, rare_up) | {"x.grad after two passes": accumulated(x, t, neighbour, factors)}
        twice = student.scale_grad(t, 0.5)
        seen |= {"x.grad with two hooks": flow(x, lambda: t, other, neighbour, factors, up, "plain")["x.grad"]}
        seen |= after_remove("first_handle", handle, x, t, factors[0])
        seen |= after_remove("second_handle", twice, x, t, factors[0])
        w, x = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
        student.scale_grad(w, 10.0)
        (3 * (w + x)).sum().backward()
        return {
            **seen,
            "changed in the end": before.changes(),
            "example": [w.grad, x.grad],
            "first hook of all": [*first_hook, free.grad],
        }

    mistakes = (
        Mistake(
            "in-place-leak",
            lambda seen, factors, s: close(seen["neighbour.grad"], -s * factors[0]),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, hooks: (
                close(seen["x.grad"], times(hooks) * factors[0])
                and close(seen["neighbour.grad"], -factors[0])
                and changes(seen["changed"], "hook-left *")
                and not changes(seen["changed"], "values *")
            ),
            everywhere=True,
        ),
        Mistake("changed-values", lambda seen: changes(seen["changed in the end"], "values t")),
        Mistake(
            "wrong-hook-kind",
            lambda seen, factors, s, grad, hooks: close(
                seen["x.grad after two passes"],
                s * (s * (start(factors[0], grad) + times(hooks) * factors[0]) + times(hooks) * factors[1]),
            ),
            "A post-accumulate-grad hook exists on leaves only, and it sees `.grad`, the total of all passes. "
            "`register_hook` works on every tensor that requires grad, and its hook gets the gradient of this pass.",
            raises=("cannot be registered on non-leaf", "post accumulate grad hooks should return None"),
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen, factors, hooks: (
                close(seen["x.grad"], times(hooks) * factors[0])
                and seen["changed"].value == []
                and seen["first_handle has remove()"].value is True
            ),
            raises=NO_GRADIENT_TO_HOOK,
        ),
        Mistake("changed-dtype", raises="has changed the type of value"),
        Mistake(
            "one-slot-for-all",
            lambda seen, factors, s, hooks: close(seen["x.grad"], 2 * s * times(hooks) * factors[0]) if s else SILENT,
        ),
    )

    def test_the_gradient_is_scaled(seen, factors, s, place, hooks):
        arriving = times(hooks) * factors[0]
        if close(seen["x.grad"], arriving) and not close(seen["x.grad"], s * arriving):
            refuse(f"with s = {s:g} and a {place} the gradient went on as it arrived")
        expect(seen["x.grad"]).close_to(s * arriving)
        expect(seen["example"][0]).close_to(torch.tensor([30.0]))

    def test_every_pass_is_scaled_once(seen, factors, up, s, grad, hooks):
        s = times(hooks) * s
        expect(seen["x.grad of another pass"]).close_to(s * factors[1])
        expect(seen["x.grad of a pass, read after the next pass"]).close_to(s * factors[0])
        expect(seen["x.grad of a sum"]).close_to(torch.full_like(up, s))
        expect(seen["x.grad of two uses"]).close_to(s * (factors[0] + factors[1]))
        expect(seen["x.grad of gradient="]).close_to(s * up)
        expect(seen["x.grad of zeros"]).close_to(torch.zeros_like(up))
        expect(seen["x.grad of a tiny gradient"]).close_to(torch.full_like(up, s * TINY), atol=0)
        if s != 0:
            expect(seen["x.grad of infinities"]).close_to(torch.full_like(up, s * torch.inf))
        expect(seen["x.grad after two passes"]).close_to(start(up, grad) + s * (factors[0] + factors[1]))
        first = Seen(seen["first hook of all"][0].value, "the gradient with the very first hook")
        expect(first).close_to(torch.full((2,), 30.0))
        for entry, number in paired(seen["gradients far from 1"], FAR):
            expect(Seen(entry.value, f"the gradient for s = {number:g}")).close_to(torch.full((2,), 3 * number), atol=0)

    def test_the_gradient_can_be_differentiated_again(seen, factors, s, hooks):
        differentiated_as(seen["x.grad differentiated"], torch.full_like(factors[0], times(hooks) * s))

    def test_any_tensor_and_several_at_a_time(seen, factors, s, rare_up, hooks):
        expect_rare(seen, rare_up, of_two=2 * s * rare_up[0], turned=s * rare_up)
        expect(seen["the gradient of a second tensor"]).close_to(2 * s * factors[0])
        expect(seen["the gradient of a bfloat16 tensor"]).close_to(
            torch.full(factors[0].shape[:1], 3 * s, dtype=torch.bfloat16), rtol=1e-2, atol=1e-2
        )
        expect(seen["the gradient for s = 1"]).close_to(torch.full_like(factors[0], 3))
        expect(seen["x.grad with two hooks"]).close_to(times(hooks) * s / 2 * factors[0])

    def test_nothing_else_changes(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(-factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, -1))
        expect(seen["gradient="]).close_to(up)
        expect(seen["example"][1]).close_to(torch.tensor([3.0]))
        nothing_changed(seen["changed"], but=["hook-left t"])

    def test_the_handle_removes_the_hook_and_no_other(seen, factors, s, hooks):
        for handle, left in (("first_handle", 0.5), ("second_handle", 1)):
            expect(seen[f"{handle} has remove()"]).is_true("the function returned nothing that has a remove() method")
            expect(seen[f"x.grad after {handle}.remove()"]).close_to(times(hooks) * left * factors[0])
        without = Seen(
            seen["first hook of all"][1].value, "`.grad` after a pass with the very first hook, and one without"
        )
        expect(without).close_to(torch.full((2,), 33.0))
        expect(seen["for s = 1 has remove()"]).is_true(
            "for s = 1 the function returned nothing that has a remove() method"
        )
        nothing_changed(seen["changed in the end"], but=["grad-* *"], when="after `remove()`")
