"""Exercise 03-clip-and-log."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    Circumstances,
    Mistake,
    Rng,
    Seen,
    Witness,
    beyond_float32,
    close,
    exercise,
    expect,
    gradients,
    laid_out,
    nothing_changed,
    own_grads,
    refuse,
    shares_storage,
    snapshot,
)
from graders.lesson_03_changing_gradients.judging import (
    ONE_BOUND,
    SINGLE_LOCATION,
    differentiated_as,
    expect_rare,
    inside,
    start,
    times,
)
from graders.lesson_03_changing_gradients.shared import rare, scene

BELOW, ABOVE, BETWEEN = range(3)
"""Where an entry of a gradient lies: below both bounds, above both, or between them."""


@exercise(
    "03-clip-and-log",
    points=2,
    minutes=20,
    difficulty=2,
    title="Clip, and log both sides of it",
    hints=(
        "One hook can do both: it receives the raw gradient, and it makes the clipped one.",
        "With two hooks the order of registration matters: the one that logs the raw gradient has to come first.",
        "Store copies in the dict that you returned, and return the clipped gradient itself, not the copy: the copy "
        "has no graph, and a pass with `create_graph=True` needs one.",
    ),
    why=(
        "One hook has both gradients in hand, so nothing depends on the order of hooks. The log gets copies "
        "without a graph, while the gradient that goes on keeps its own; three hooks in the right order would do "
        "as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL, "hooks": ALL,
            "call": ALL, "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "number": "the two numbers are bounds, an axis of their own",
            "collection": "there is no collection",
            "model": "there is no model",
            "hooked": "there is one tensor to hook",
            "failure": "the function calls nothing of the caller",
        },
        own={"bounds": ("around 0", "from 0", "up to 0", "below 0", "above 0")},
    ),
)  # fmt: skip
class TestClipAndLog:
    """Write `clip_and_log(t, lo, hi)`. `t` is a tensor that requires grad, leaf or not. `lo` and `hi` are numbers with
    `lo < hi`. Return a new, empty dict at once. Your hooks stay for good, also when the caller has thrown the dict
    away.

    From then on, each backward pass that reaches `t` clamps the gradient at `t`, element by element, to the range from
    `lo` to `hi` (an element inside it stays as it is), and the clamped gradient goes on. After each pass this same dict
    holds two gradients of the latest pass:

    - `"raw"`: the gradient before it was clamped, as the hooks that were on `t` before have left it,
    - `"clipped"`: the clamped gradient.

    Both are copies, each with memory of its own, and have no graph, not even in a pass with `create_graph=True`. The
    gradient that goes on keeps its graph in such a pass.

    **Example.** For a leaf `w = tensor([1., 1.])` and `d = clip_and_log(w, -1.0, 2.0)`, the call
    `(tensor([0.5, 7.]) * w).sum().backward()` leaves `d == {"raw": tensor([0.5, 7.]), "clipped": tensor([0.5, 2.])}`
    and `w.grad == tensor([0.5, 2.])`.
    """

    def draw(rng, dtype, rank, layout, values, bounds, hooks):
        shape = rng.shape(rank)
        # Numbers that float32 does not hold, so that a detour through float32 shows.
        near, far = beyond_float32(rng.uniform(0.5, 1.0)), beyond_float32(rng.uniform(1.25, 2.0))
        lo, hi = {"around 0": rng.choice(((-near, far), (-far, near))), "from 0": (0, far), "up to 0": (-far, 0),
                  "below 0": (-far, -near), "above 0": (near, far)}[bounds]  # fmt: skip
        wheres = [*rng.shuffled((BELOW, ABOVE)), BETWEEN]
        like = {"dtype": dtype, "values": values, "layout": layout}
        return {
            **{name: rng.tensor(*shape, **like) for name in ("x", "other")},
            "factors": [across(rng, shape, lo, hi, wheres[i:] + wheres[:i], like) / times(hooks) for i in range(3)],
            "rare_up": across(rng, (2, 3, 2), lo, hi, wheres, like | {"layout": "contiguous"}),
            "lo": lo,
            "hi": hi,
        }

    def probe(student, x, other, factors, lo, hi, rare_up, layout, place, grad, hooks, grad_mode, backward):
        x, t, neighbour = scene(x, other, layout, place, grad, hooks)
        factors = [laid_out(factor, layout) for factor in factors]
        second = torch.ones_like(x).requires_grad_()
        things = {"t": t, "x": x, "other": other, "factors": factors}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            log = student.clip_and_log(t, lo, hi)
            changed = witness.changes()
            its_log = student.clip_and_log(second, lo - 1, hi + 1)

        kept = list[Any]()

        def hooked(t):
            kept.append(student.clip_and_log(t, lo, hi))
            return t

        seen = {"the dict at first": entries(log), "changed": changed} | rare(hooked, rare_up, later="replacing")

        def loss(factor):
            return ((t + neighbour) * factor).sum()

        # Passes of all kinds. `.grad` holds afterwards what it held before.
        seen["x.grad"], seen["neighbour.grad"] = gradients(lambda: loss(factors[0]), [x, other], backward)
        first = dict(log) if isinstance(log, dict) else {}
        seen |= {"log": entries(log), "the dict of a second call, at first": entries(its_log)}
        seen["x.grad of another pass"], _ = gradients(lambda: loss(factors[1]), [x, other])
        seen |= {"log of another pass": entries(log), "entries of the first pass, later": entries(first)}
        # The caller keeps what `torch.autograd.grad` gave: the next pass must not write into it.
        (kept_grad,), _later = (torch.autograd.grad(loss(factor), [x], allow_unused=True) for factor in factors[:2])
        seen["x.grad of a pass, read after the next pass"] = kept_grad
        (seen["x.grad of two uses"],) = gradients(lambda: (t * factors[0]).sum() + (t * factors[2]).sum(), [x])
        seen["log of two uses"] = entries(log)
        for name, number in (("zeros", 0.0), ("infinities", torch.inf)):
            (went_on,) = gradients(lambda number=number: (t * number).sum(), [x])
            seen |= {f"x.grad of {name}": went_on, f"log of {name}": entries(log)}
        # Every entry of this gradient is the same memory.
        seen["x.grad of a sum"], seen["neighbour.grad of a sum"] = gradients((t + neighbour).sum, [x, other])

        # A gradient of the caller's, and a graph that can be differentiated again.
        up, gone_on = laid_out(factors[1], layout), []
        with own_grads([x]), t.register_hook(gone_on.append):
            t.backward(gradient=up)
            seen |= {
                "x.grad of gradient=": snapshot(x.grad),
                "gradient=": snapshot(up),
                "log of gradient=": entries(log),
            }
            common = shared(log, {"`gradient=`": up, "the gradient that went on": gone_on[0], "`.grad`": x.grad})
        between = factors[2].detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(loss(between), x, create_graph=True)
        seen |= {"log with create_graph": dict(log) if isinstance(log, dict) else log}
        seen |= {"shared": common + shared(log, {"the gradient that went on": found})}
        again = torch.autograd.grad(found.sum(), between, allow_unused=True)[0] if found.requires_grad else None
        seen["x.grad differentiated"] = again

        # Passes that add up, two tensors at a time, a second call for the same tensor, the example.
        for factor in factors[:2]:
            (loss(factor) + (second * factors[2]).sum()).backward()
        seen |= {"x.grad after two passes": snapshot(x.grad), "log beside a second tensor": entries(log)}
        seen |= {"log of the second": entries(its_log), "second.grad": snapshot(second.grad)}
        inner = student.clip_and_log(t, lo + (hi - lo) / 4, hi)
        seen["the dict of a call for the same tensor, at first"] = entries(inner)
        (seen["x.grad clipped twice"],) = gradients(lambda: loss(factors[0]), [x])
        seen |= {"log of a second call for the same tensor": entries(inner), "changed in the end": before.changes()}
        lonely = torch.zeros_like(rare_up).requires_grad_()
        student.clip_and_log(lonely, lo, hi)
        (lonely * rare_up).sum().backward()
        seen["the gradient of a tensor whose dict nobody keeps"] = lonely.grad
        wide = torch.zeros(2, requires_grad=True)  # bounds whose own rounding is larger than an element
        wide_log = student.clip_and_log(wide, -1e6, 1e6)
        for element in (1e7, 0.2):
            (wide * torch.tensor([0.1, element])).sum().backward()
            seen[f"log of {element:g} within wide bounds"] = entries(wide_log)
        seen["shared"] += shared(wide_log, {"`.grad`": wide.grad})  # of a gradient that clamping does not change
        empty = torch.zeros(0, 2, requires_grad=True)
        empty_log = student.clip_and_log(empty, -1.0, 2.0)
        empty.sum().backward()
        seen["log of an empty tensor"] = entries(empty_log)
        w = torch.ones(2, requires_grad=True)
        d = student.clip_and_log(w, -1.0, 2.0)
        (torch.tensor([0.5, 7.0]) * w).sum().backward()
        return {**seen, "example": entries(d), "w.grad": w.grad}

    mistakes = (
        Mistake(
            "logged-after-clip",
            lambda seen, factors, lo, hi, hooks: (
                apart(factors[0] * times(hooks), lo, hi)
                and close(seen["log"]["raw"], (factors[0] * times(hooks)).clamp(lo, hi))
                and close(seen["log"]["clipped"], (factors[0] * times(hooks)).clamp(lo, hi))
                and close(seen["neighbour.grad"], -factors[0])
            ),
            "Your raw log runs after the clipping hook, so it records the clipped gradient twice. Log before you clip.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, lo, hi, hooks: (
                log_is(seen["log"], factors[0] * times(hooks), lo, hi)
                and close(seen["x.grad"], factors[0] * times(hooks))
                and close(seen["x.grad of another pass"], factors[1] * times(hooks))
            ),
            "Your log is right, but the unclipped gradient went on. A hook changes a gradient only by returning the "
            "new one.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, factors, lo, hi, hooks: (
                apart(factors[0], lo, hi)
                and close(seen["x.grad"], (factors[0] * times(hooks)).clamp(lo, hi))
                and close(seen["neighbour.grad"], -(factors[0].clamp(lo, hi)))
            ),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "stored-alias",
            lambda seen, factors, lo, hi, hooks: (
                log_is(seen["log"], factors[0] * times(hooks), lo, hi)
                and log_is(seen["log of another pass"], factors[1] * times(hooks), lo, hi)
                and not (
                    seen["shared"].value == []
                    and log_is(seen["entries of the first pass, later"], factors[0] * times(hooks), lo, hi)
                )
            ),
            "The numbers are right, but an entry of your log is not a copy: it shares its memory with a tensor that "
            "others may write into, or the next pass writes into it. Store `grad.detach().clone()` in every pass.",
        ),
        Mistake(
            "one-bound-only",
            lambda seen, factors, lo, hi, hooks: any(
                close(seen["x.grad"], (factors[0] * times(hooks)).clamp(**bound))
                and close(seen["x.grad of another pass"], (factors[1] * times(hooks)).clamp(**bound))
                for bound in ({"min": lo}, {"max": hi})
            ),
            ONE_BOUND,
        ),
        Mistake(
            "rebound-dict",
            lambda seen, factors, lo, hi, hooks: (
                seen["the dict at first"].value == {}
                and seen["log of another pass"].value == {}
                and close(seen["x.grad"], (factors[0] * times(hooks)).clamp(lo, hi))
            ),
            "The dict that you returned stays empty. Your hook makes a new dict, or fills another one: write "
            '`log["raw"] = ...` into the dict that the caller has.',
        ),
    )

    def test_the_log_holds_both_gradients(seen, factors, lo, hi, hooks):
        first, second, third = (factor * times(hooks) for factor in factors)
        expect_log(seen["log"], first, lo, hi)
        expect_log(seen["log of another pass"], second, lo, hi)
        expect_log(seen["log of two uses"], first + third, lo, hi)
        expect_log(seen["log of gradient="], second, lo, hi)
        expect_log(seen["log of zeros"], torch.zeros_like(first), lo, hi)
        expect_log(seen["log of infinities"], torch.full_like(first, torch.inf), lo, hi)
        for element in (1e7, 0.2):
            expect_log(seen[f"log of {element:g} within wide bounds"], torch.tensor([0.1, element]), -1e6, 1e6)
        expect_log(seen["log of an empty tensor"], torch.zeros(0, 2), -1.0, 2.0)
        expect_log(seen["example"], torch.tensor([0.5, 7.0]), -1.0, 2.0)

    def test_the_clipped_gradient_goes_on(seen, factors, lo, hi, grad, hooks):
        first, second, third = (factor * times(hooks) for factor in factors)
        expect(seen["x.grad"]).close_to(first.clamp(lo, hi))
        expect(seen["x.grad of another pass"]).close_to(second.clamp(lo, hi))
        expect(seen["x.grad of a pass, read after the next pass"]).close_to(first.clamp(lo, hi))
        expect(seen["x.grad of two uses"]).close_to((first + third).clamp(lo, hi))
        expect(seen["x.grad of a sum"]).close_to(torch.full_like(first, times(hooks)).clamp(lo, hi))
        expect(seen["x.grad of gradient="]).close_to(second.clamp(lo, hi))
        expect(seen["x.grad of zeros"]).close_to(torch.zeros_like(first).clamp(lo, hi))
        expect(seen["x.grad of infinities"]).close_to(torch.full_like(first, hi))
        expect(seen["x.grad after two passes"]).close_to(
            start(first, grad) + first.clamp(lo, hi) + second.clamp(lo, hi)
        )
        expect(seen["w.grad"]).close_to(torch.tensor([0.5, 2.0]))

    def test_the_gradient_that_goes_on_keeps_its_graph(seen, factors, lo, hi, hooks):
        between = inside(factors[2] * times(hooks), lo, hi)
        differentiated_as(seen["x.grad differentiated"], times(hooks) * between)

    def test_the_dict_is_new_and_empty(seen):
        for when in (
            "the dict at first",
            "the dict of a second call, at first",
            "the dict of a call for the same tensor, at first",
        ):
            expect(seen[when]).has_keys()

    def test_the_entries_are_copies_without_a_graph(seen, factors, lo, hi, hooks):
        expect_log(seen["entries of the first pass, later"], factors[0] * times(hooks), lo, hi)
        for sentence in expect(seen["shared"]).list_of(str):
            refuse(f"{sentence}; store a copy")
        expect_log(seen["log with create_graph"], factors[2] * times(hooks), lo, hi)

    def test_any_tensor_is_clipped_before_the_hooks_that_came_later(seen, lo, hi, rare_up):
        expect(seen["the gradient of a tensor whose dict nobody keeps"]).close_to(rare_up.clamp(lo, hi))
        expect_rare(seen, rare_up, of_two=3 * (2 * rare_up[0]).clamp(lo, hi) + 1, turned=rare_up.clamp(lo, hi))

    def test_each_call_has_a_log_of_its_own(seen, factors, lo, hi, hooks):
        expect_log(seen["log beside a second tensor"], factors[1] * times(hooks), lo, hi)
        expect_log(seen["log of the second"], factors[2], lo - 1, hi + 1)
        expect(seen["second.grad"]).close_to(2 * factors[2].clamp(lo - 1, hi + 1))
        once, narrower = (factors[0] * times(hooks)).clamp(lo, hi), lo + (hi - lo) / 4
        expect_log(seen["log of a second call for the same tensor"], once, narrower, hi)
        expect(seen["x.grad clipped twice"]).close_to(once.clamp(narrower, hi))

    def test_nothing_else_changes(seen, factors):
        expect(seen["neighbour.grad"]).close_to(-factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(factors[0], -1))
        expect(seen["gradient="]).close_to(factors[1])
        nothing_changed(seen["changed"], but=["hook-left t"])
        nothing_changed(seen["changed in the end"], but=["hook-left t", "grad-* *"], when="after some passes")


def across(rng: Rng, shape: tuple[int, ...], lo: float, hi: float, wheres: list[int], like: dict[str, Any]) -> Tensor:
    """A tensor whose entries lie below, above and between the bounds in turn, as `wheres` says."""
    inner = shape[1:] if like["layout"] == "expanded" else shape
    turns = torch.tensor(wheres)[torch.arange(math.prod(inner)) % 3].reshape(inner).expand(shape)
    beyond, share = (rng.tensor(*shape, low=low, high=high, **like) for low, high in ((0.5, 1.5), (0.25, 0.75)))
    inside = lo + (hi - lo) * share
    return torch.where(turns == BELOW, lo - beyond, torch.where(turns == ABOVE, hi + beyond, inside))


def entries(log: object) -> object:
    """Copies of what a dict holds now; any other value as it is."""
    return {key: snapshot(value) for key, value in log.items()} if isinstance(log, dict) else log


def shared(log: object, others: dict[str, Any]) -> list[str]:
    """In sentences, which entries of a log look at the memory of another tensor or of each other."""
    if not isinstance(log, dict):
        return []
    pairs = [(key, name, t) for key in ("raw", "clipped") for name, t in others.items()]
    pairs.append(("raw", 'the entry "clipped"', log.get("clipped")))
    return [f'"{key}" shares its memory with {name}' for key, name, t in pairs if shares_storage(log.get(key), t)]


def apart(gradient: Tensor, lo: float, hi: float) -> bool:
    """Whether clamping changes this gradient."""
    return not torch.equal(gradient, gradient.clamp(lo, hi))


def log_is(seen: Seen, gradient: Tensor, lo: float, hi: float) -> bool:
    """Whether a log holds this gradient and its clamped version."""
    return close(seen["raw"], gradient) and close(seen["clipped"], gradient.clamp(lo, hi))


def expect_log(seen: Seen, gradient: Tensor, lo: float, hi: float) -> None:
    """A log with this gradient and its clamped version."""
    expect(seen).has_keys("raw", "clipped")
    expect(seen["raw"]).close_to(gradient)
    expect(seen["clipped"]).close_to(gradient.clamp(lo, hi))
