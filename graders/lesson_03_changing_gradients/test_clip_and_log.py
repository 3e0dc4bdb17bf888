"""Exercise 03-clip-and-log."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, Seen, close, exercise, expect, snapshot
from graders.lesson_03_changing_gradients.judging import across, bounds, fan
from graders.lesson_03_changing_gradients.shared import scene


@exercise(
    "03-clip-and-log",
    points=2,
    title="Clip, and log both sides of it",
    hints=(
        "One hook can do both: it receives the raw gradient, and it makes the clipped one.",
        "With two hooks the order of registration matters: the one that logs the raw gradient has to come first.",
        "Store copies in the dict that you returned, log before you clip, and return the clipped gradient.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float64},
        {"leaf": False, "dtype": torch.float32},
    ),
)
class TestClipAndLog:
    """Write `clip_and_log(t, lo, hi)`. `t` is a tensor that requires grad, leaf or not. `lo` and `hi` are numbers
    with `lo < hi`. Return an empty dict at once.

    From then on, each backward pass clamps the gradient at `t`, element by element, to the range from `lo` to `hi`, and
    the clamped gradient goes on. After each pass this same dict holds two gradients of the latest pass:

    - `"raw"`: the gradient as it arrived at `t`,
    - `"clipped"`: the clamped gradient.

    Both are copies that nothing later can change, with the dtype of the gradient and without a graph (even when the
    pass was run with `create_graph=True`). Nothing else changes: not the values of `t`, not the gradients of its
    neighbours (in `t + u`, the gradient of `u`), and not a tensor that the caller passes as `backward(gradient=...)`.

    **Example.** For a leaf `w = tensor([1., 1.])` and `d = clip_and_log(w, -1.0, 2.0)`, the call
    `(tensor([0.5, 7.]) * w).sum().backward()` leaves `d == {"raw": tensor([0.5, 7.]), "clipped": tensor([0.5, 2.])}`
    and `w.grad == tensor([0.5, 2.])`.
    """

    def draw(rng, leaf, dtype):
        lo, hi = bounds(rng, dtype)
        return {
            "x": rng.tensor(4, dtype=dtype),
            "other": rng.tensor(4, dtype=dtype),
            "factors": [across(rng, lo, hi, dtype) for _ in range(2)],
            "up": across(rng, lo, hi, dtype),
            "lo": lo,
            "hi": hi,
            "leaf": leaf,
        }

    def probe(student, x, other, factors, up, lo, hi, leaf):
        t, neighbour = scene(x, other, leaf)
        values = snapshot(t)
        log = student.clip_and_log(t, lo, hi)
        seen = {"start": entries(log)}
        ((t + neighbour) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"first": entries(log), "x.grad": snapshot(x.grad), "neighbour.grad": snapshot(other.grad)}
        ((t + neighbour) * factors[1]).sum().backward(retain_graph=True)
        seen |= {"second": entries(log), "x.grad after two passes": snapshot(x.grad)}
        x.grad, callers = None, up.clone()
        with t.register_hook(zero_in_place):
            t.backward(gradient=callers, retain_graph=True)
        seen |= {"gradient=": snapshot(callers)}
        callers.zero_()
        seen |= {"later": entries(log)}
        x.grad = None
        ((t + neighbour) * factors[0]).sum().backward(retain_graph=True)
        x.grad.zero_()
        seen |= {"later still": entries(log)}
        x.grad = None
        (t * t * factors[0]).sum().backward(create_graph=True)
        x.grad = None
        graph = dict(log) if isinstance(log, dict) else log
        second = torch.ones_like(x).requires_grad_()
        its_log = student.clip_and_log(second, lo / 2, hi / 2)
        (t * factors[0] + second * factors[1]).sum().backward()
        seen |= {"beside a second tensor": entries(log), "log of the second": entries(its_log)}
        return {**seen, "with create_graph": graph, "values_kept": torch.equal(t.detach(), values)}

    mistakes = (
        Mistake(
            "logged-after-clip",
            lambda seen, factors, lo, hi: (
                close(seen["first"]["raw"], factors[0].clamp(lo, hi))
                and close(seen["first"]["clipped"], factors[0].clamp(lo, hi))
                and close(seen["neighbour.grad"], 3 * factors[0])
            ),
            "Your raw log runs after the clipping hook, so it records the clipped gradient twice. Log before you clip.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, lo, hi, leaf: (
                close(seen["first"]["clipped"], factors[0].clamp(lo, hi))
                and close(seen["x.grad"], fan(leaf) * factors[0])
            ),
            "Your log is right, but the unclipped gradient went on. A hook changes a gradient only by returning the "
            "new one.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, factors, lo, hi: close(seen["neighbour.grad"], 3 * factors[0].clamp(lo, hi)),
        ),
        Mistake(
            "stored-alias",
            lambda seen, factors, up, lo, hi, leaf: (
                log_is(seen["first"], factors[0], lo, hi)
                and log_is(seen["second"], factors[1], lo, hi)
                and close(seen["x.grad"], fan(leaf) * factors[0].clamp(lo, hi))
                and not (log_is(seen["later"], up, lo, hi) and log_is(seen["later still"], factors[0], lo, hi))
            ),
        ),
        Mistake(
            "rebound-dict",
            lambda seen, factors, lo, hi, leaf: (
                seen["start"].value == {}
                and seen["second"].value == {}
                and close(seen["x.grad"], fan(leaf) * factors[0].clamp(lo, hi))
            ),
            "The dict that you returned stays empty. Your hook makes a new dict, or fills another one: write "
            '`log["raw"] = ...` into the dict that the caller has.',
        ),
    )

    def test_the_log_holds_both_gradients(seen, factors, lo, hi):
        for when, factor in (("first", factors[0]), ("second", factors[1])):
            expect(seen[when]).has_keys("raw", "clipped")
            expect(seen[when]["raw"]).close_to(factor)
            expect(seen[when]["clipped"]).close_to(factor.clamp(lo, hi))

    def test_the_clipped_gradient_goes_on(seen, factors, lo, hi, leaf):
        clamped = [factor.clamp(lo, hi) for factor in factors]
        expect(seen["x.grad"]).close_to(fan(leaf) * clamped[0])
        expect(seen["x.grad after two passes"]).close_to(fan(leaf) * sum(clamped))

    def test_the_dict_is_empty_until_the_first_pass(seen):
        if type(seen["start"].value) is not dict:
            expect(seen["start"]).has_keys()
        expect(Seen(seen["start"].value == {})).is_true("the dict has entries before the first pass")

    def test_the_entries_are_copies_without_a_graph(seen, x, factors, up, lo, hi, leaf):
        for when, gradient in (
            ("later", up),
            ("later still", factors[0]),
            ("with create_graph", 2 * fan(leaf) * x * factors[0]),
        ):
            expect(seen[when]["raw"]).close_to(gradient)
            expect(seen[when]["clipped"]).close_to(gradient.clamp(lo, hi))

    def test_a_second_tensor_has_its_own_log(seen, factors, lo, hi):
        for log, gradient, unit in (("beside a second tensor", factors[0], 1), ("log of the second", factors[1], 0.5)):
            expect(seen[log]["raw"]).close_to(gradient)
            expect(seen[log]["clipped"]).close_to(gradient.clamp(unit * lo, unit * hi))

    def test_nothing_else_changes(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(3 * factors[0])
        expect(seen["gradient="]).close_to(up)
        expect(seen["values_kept"]).is_true("the values of t changed; the task is about its gradient")


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def entries(log: object) -> object:
    """Copies of what a dict holds now; any other value as it is."""
    return {key: snapshot(value) for key, value in log.items()} if isinstance(log, dict) else log


def log_is(seen: Seen, gradient: Tensor, lo: float, hi: float) -> bool:
    """Whether a log holds this gradient and its clamped version."""
    return close(seen["raw"], gradient) and close(seen["clipped"], gradient.clamp(lo, hi))
