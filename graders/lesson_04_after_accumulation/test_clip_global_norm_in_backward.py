"""Exercise 04-clip-global-norm-in-backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    CallersHooks,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    all_removed,
    close,
    exactly,
    exercise,
    expect,
    nothing_changed,
    paired,
    prepared,
    snapshot,
)
from graders.lesson_04_after_accumulation.judging import RETURNED, autograd_on
from graders.lesson_04_after_accumulation.shared import modes_behind

OTHER_LISTS: list[tuple[list[list[float]], float]] = [
    ([[0.0], [0.0, 0.0]], 0.5),
    ([[3.0], [4.0]], 4.5),  # each norm is below the bound, and the joint one is not
    ([[3000.0], [4000.0]], 1000),
    ([[0.3, 0.4]], 1e-3),
    ([[1.0], [2.0], [], *[[1.0]] * 9], 1.0),
    ([[0.3], [0.4]], 0.4),  # the square of the norm is below the bound
    ([[1.2], [1.6]], 3.0),  # and here above it, though the norm is below
    ([[3.0], [4.0]], 4.99),
]
"""Gradients that arrive at the parameters of a list, and the bound of their norm."""


@exercise(
    "04-clip-global-norm-in-backward",
    points=3,
    minutes=30,
    difficulty=3,
    title="Clip the joint norm during backward",
    hints=(
        "The joint norm needs every gradient, so only the last parameter to arrive may clip. It is not always the "
        "same one.",
        "Count the arrivals in a post-accumulate-grad hook, or collect them in a set. When all have arrived, every "
        "`.grad` is written: clip them all, once.",
        "Reset the count after clipping, or the second pass never gets to clip. "
        "`torch.nn.utils.clip_grad_norm_(params, c)` may do the clipping itself.",
    ),
    why=(
        "The joint norm needs all gradients, so the last parameter to arrive clips them all, whichever that is. A "
        "counter, set back to 0 after clipping, would do in place of the set, and so would scaling each `.grad` by "
        "hand instead of calling `clip_grad_norm_`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL, "grad": ALL,
            "number": ("fraction", "large"), "collection": ("empty", "one", "many"),
            "hooks": ALL, "hooked": ("parameter",), "call": ("in turn",), "grad_mode": ALL,
            "backward": ("plain", "create_graph", "autograd.grad"),
        },
        excludes={
            "place": "parameters are parameters",
            "model": "the function gets parameters, and no model",
            "failure": "the function calls nothing of the caller",
        },
        pairs=[("hooks", "grad")],
    ),
)  # fmt: skip
class TestClipGlobalNormInBackward:
    """Write `clip_global_norm_in_backward(params, c)`. `params` is a list of different parameters of one dtype that
    require grad, and `c` is a number greater than 0. No parameter is in two lists at a time. Every `backward()` reaches
    all of them, in an order that can differ, and no exception stops it. No gradient is NaN.

    From now on, whenever `backward()` returns, the `.grad` of all parameters in the list is what
    `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it at this moment: if their joint L2 norm is greater
    than `c`, each is multiplied by the same factor, so that the joint norm is `c`; otherwise nothing changes.
    (`clip_grad_norm_` adds 1e-6 to the norm before it divides by it; you need not.) Gradients accumulate as usual: a
    second pass adds to what the first pass left, and the sum is clipped. The caller may set `.grad` to `None` between
    passes. After a pass with `create_graph=True` each `.grad` keeps its graph.

    `torch.autograd.grad` clips nothing. Return a list of all handles. After `remove()` on each of them, nothing is
    clipped any more. The caller removes all of them or none.

    **Example.** For `p = nn.Parameter(torch.zeros(1))`, `q = nn.Parameter(torch.zeros(1))` and
    `clip_global_norm_in_backward([p, q], 1.0)`, the call `(3 * p + 4 * q).sum().backward()` leaves `p.grad` at 0.6 and
    `q.grad` at 0.8: the joint norm was 5.
    """

    def draw(rng, dtype, rank, values, number, collection):
        shapes = rng.shuffled([(3,), (2, 2), (), (4,), rng.shape(rank)])
        few = {"empty": 0, "one": 1, "many": 2}[collection]
        return {
            "params": [rng.tensor(*shape, dtype=dtype, values=values) for shape in shapes],
            "passes": [
                {
                    "order": rng.shuffled(range(len(shapes))),
                    "factors": [rng.tensor(*shape, dtype=dtype, values=values) / size for shape in shapes],
                    "fresh": size > 1,
                }
                for size in (1, 1, 512, 1)
            ],
            "outside": rng.tensor(3, dtype=dtype, values=values),
            "few": [rng.tensor(2, dtype=dtype, values=values) for _ in range(few)],
            "c": rng.choice((0.5, 0.75)) if number == "fraction" else rng.choice((1.25, 1.5, 2.0)),
        }

    def alive(params, passes, c, grad, hooks):
        sent, left = arriving(passes, hooks), clipped_runs(params, passes, c, grad, hooks)
        raw = [joint_norm(step["factors"]) for step in sent]
        first, second, last = (
            joint_norm(added(before, step["factors"]))
            for before, step in (
                (held(params, grad), sent[0]),
                (left[0], sent[1]),
                (left[2], sent[3]),
            )
        )
        return (
            min(raw[0], first, second, last) > 1.5 * c
            and raw[2] < 0.5 * c
            and sum(bool(total.norm() > c) for total in added(held(params, grad), sent[0]["factors"])) > 2
        )

    def probe(student, params, passes, outside, few, c, layout, grad, hooks, grad_mode, backward):
        params = [prepared(p, layout=layout, place="parameter", grad=grad) for p in params]
        CallersHooks(hooks).on_parameter(params[0], "params[0]")
        other = torch.ones(3, dtype=outside.dtype, requires_grad=True)
        given = list(params)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(params=given)
            handles = student.clip_global_norm_in_backward(given, c)
            seen = {"changed": witness.changes()}
        after_each = []
        for step in passes:
            if backward == "autograd.grad":
                torch.autograd.grad(sum((2 * p).sum() for p in params), params)
                torch.autograd.grad(sum((2 * p).sum() for p in params), params[:2])
            run_pass(params, step, (outside * other).sum(), create_graph=backward == "create_graph")
            after_each.append([snapshot(p.grad) for p in params])
        second = [prepared(p.reshape(()), place="parameter") for p in outside]
        _kept = student.clip_global_norm_in_backward(list(second), 2 * c)
        mixed = {
            "order": [len(params), *passes[0]["order"], len(params) + 1, len(params) + 2],
            "factors": [*passes[0]["factors"], *torch.full((3,), 4 * c, dtype=outside.dtype)],
            "fresh": True,
        }
        run_pass([*params, *second], mixed, 0)
        lone = [prepared(p, place="parameter") for p in few]
        _kept_too = student.clip_global_norm_in_backward(list(lone), c)
        (sum((4 * c * p).sum() for p in lone) + other.sum()).backward()
        seen |= {
            "beside a second list": [snapshot(p.grad) for p in params],
            "second list": [snapshot(p.grad) for p in second],
            "a short list": [snapshot(p.grad) for p in lone],
            "grads": after_each,
            "outside": snapshot(other.grad),
            "changed later": [change for change in witness.changes() if change[0] in ("values", "entries")],
            "has_remove": isinstance(handles, list) and all_removed(handles),
            "hooks afterwards": [change for change in witness.changes() if change[0].startswith("hook-")],
        }
        run_pass(params, {**passes[0], "fresh": True}, 0)
        p, q = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        student.clip_global_norm_in_backward([p, q], 1.0)
        (3 * p + 4 * q).sum().backward()
        seen |= {"unclipped": [snapshot(p.grad) for p in params], "example": [snapshot(p.grad), snapshot(q.grad)]}
        all_removed(student.clip_global_norm_in_backward([nn.Parameter(torch.zeros(1))], 1.0))
        p.grad = q.grad = None
        (3 * p + 4 * q).sum().backward()
        seen["after remove() on the handles of another list"] = [snapshot(p.grad), snapshot(q.grad)]
        p.grad = q.grad = None
        with p.register_hook(lambda grad: 2 * grad):
            (3 * p + 8 * q).sum().backward()
        seen["a later hook"] = [snapshot(p.grad), snapshot(q.grad)]
        wide, still = (nn.Parameter(torch.zeros(16, dtype=torch.float64)) for _ in range(2))
        _kept_as_well = student.clip_global_norm_in_backward([wide, still], c)
        seen["many small entries"] = []
        for size in (c / 2, 1e40):  # every entry is below `c`, and their norm is not; a norm that float32 cannot hold
            wide.grad = still.grad = None
            (size * wide + 0 * still).sum().backward()
            seen["many small entries"].append([snapshot(wide.grad), snapshot(still.grad)])
        seen["infinite"] = []
        for size in (torch.inf, -torch.inf):
            p.grad = q.grad = None
            (size * p + 4 * q).sum().backward()
            seen["infinite"].append([snapshot(p.grad), snapshot(q.grad)])

        def clipped(gradients, c):
            params = [nn.Parameter(torch.zeros(len(gradient))) for gradient in gradients]
            _kept = student.clip_global_norm_in_backward(list(params), c)
            sum((torch.tensor(gradient) * p).sum() for gradient, p in zip(gradients, params)).backward()
            return joined(params)

        again = nn.Parameter(torch.zeros(2))
        all_removed(student.clip_global_norm_in_backward([again], 1.0))
        _kept_anew = student.clip_global_norm_in_backward([again], 2.0)
        (torch.tensor([3.0, 4.0]) * again).sum().backward()
        seen["called again"] = again.grad
        seen["other lists"] = [clipped(gradients, c) for gradients, c in OTHER_LISTS]
        special = [nn.Parameter(torch.zeros(shape)) for shape in ((2,), (1, 2, 3), (0, 2), (0,), ())]
        special.append(nn.Parameter(torch.zeros(3, 2).t()))
        _kept_then, ones = student.clip_global_norm_in_backward(list(special), 1.0), list(map(torch.ones_like, special))
        seen["each of them last"] = []
        for first in range(len(special)):
            order = [(first + index) % len(special) for index in range(len(special))]
            run_pass(special, {"order": order, "factors": ones, "fresh": True}, 0)
            seen["each of them last"].append(joined(special))
        turned = nn.Parameter(torch.zeros(3, 2).t())
        _kept_alone = student.clip_global_norm_in_backward([turned], 1.0)
        turned.sum().backward()
        seen["alone, transposed"] = turned.grad
        for what, c in (("small", 100.0), ("steep", 1.0)):
            curved = [nn.Parameter(torch.tensor(value)) for value in (3.0, 4.0)]
            _kept_with_graph = student.clip_global_norm_in_backward(list(curved), c)
            modes = modes_behind(curved[0])
            sum(p * p for p in curved).backward(create_graph=True)
            seen[what] = [snapshot(p.grad) for p in curved]
            seen[f"{what}, with graph"] = [p.grad.requires_grad for p in curved]
        return {**seen, "modes": modes}

    mistakes = (
        Mistake(
            "per-tensor-norm",
            lambda seen, params, passes, c, grad, hooks: close(
                seen["grads"][0],
                [total * clip_factor([total], c) for total in first_totals(params, passes, grad, hooks)],
            ),
            "You clipped each gradient to the norm `c` by itself. The norm is joint: one number for all parameters "
            "together, and one factor for all.",
        ),
        Mistake(
            "elements-not-norm",
            lambda seen, params, passes, c, grad, hooks: close(
                seen["grads"][0], [total.clamp(-c, c) for total in first_totals(params, passes, grad, hooks)]
            ),
            "You clamped the elements to [-c, c], which changes the direction of the gradient. Multiply all gradients "
            "by one factor, `c / norm`.",
        ),
        Mistake(
            "clipped-too-early",
            lambda seen, params, passes, c, grad, hooks: (
                SILENT  # the order of these passes hides it
                if close(seen["grads"], clipped_runs(params, passes, c, grad, hooks))
                else (
                    not close(seen["grads"][0], first_totals(params, passes, grad, hooks))
                    and any(close(seen["grads"][0], early) for early in early_clips(params, passes[0], c, grad, hooks))
                )
                or clipped_too_early_later(seen["grads"], params, passes, c, grad, hooks)
            ),
            "You clipped before the last gradient was in `.grad`: what had arrived was clipped without it. Clip once, "
            "in a post-accumulate-grad hook, when all parameters have arrived in this pass.",
            raises="NoneType",
        ),
        Mistake(
            "counter-not-reset",
            lambda seen, params, passes, c, grad, hooks: (
                close(seen["grads"][0], clipped_runs(params, passes[:1], c, grad, hooks)[0])
                and any(close(seen["grads"][1], wrong) for wrong in second_passes(params, passes, c, grad, hooks))
            ),
            "The first pass is right, the second is not. Either what told your hook that all had arrived was not set "
            "back (reset your counter as soon as you have clipped; a `.grad` that is not `None` may stem from an "
            "earlier pass), or your hooks are gone.",
        ),
        Mistake(
            "counted-autograd-grad",
            lambda seen, params, passes, grad, hooks, backward: (
                backward == "autograd.grad" and close(seen["grads"][0], first_totals(params, passes, grad, hooks))
            ),
            "After `torch.autograd.grad` your hooks do not clip in the next pass. It calls tensor hooks, and what they "
            "counted is no arrival: nothing was written. Count in post-accumulate-grad hooks only.",
        ),
        Mistake(
            "scaled-up",
            lambda seen, passes, c, hooks: close(
                seen["grads"][2], scaled_to(arriving(passes, hooks)[2]["factors"], c), rtol=1e-4
            ),
            "A joint norm below `c` was scaled up to `c`. Clipping only makes gradients smaller: the factor is "
            "`c / norm`, but never more than 1.",
        ),
        RETURNED,
    )

    def test_the_joint_norm_is_clipped_once_all_have_arrived(seen, params, passes, c, grad, hooks):
        same_grads(seen["grads"][0], clipped_runs(params, passes[:1], c, grad, hooks)[0])
        same_grads(seen["example"], [torch.tensor([0.6]), torch.tensor([0.8])])
        again = Seen(
            seen["called again"].value, "[3, 4] with c = 2, after a first call with c = 1 was undone by its handles"
        )
        expect(again).close_to(torch.tensor([1.2, 1.6]), rtol=1e-5, atol=1e-5)
        steep = Seen(seen["steep"].value, "`.grad` of 3 and 4 after a pass through their squares with c = 1")
        same_grads(steep, [torch.tensor(0.6), torch.tensor(0.8)])
        for has_graph in exactly(2, seen["steep, with graph"]):
            expect(has_graph).is_true("after a pass with `create_graph=True`, a clipped `.grad` has lost its graph")
        late = Seen(seen["a later hook"].value, "where a later hook of the caller doubles a gradient, `.grad`")
        same_grads(late, [torch.tensor([0.6]), torch.tensor([0.8])])
        for grads in exactly(2, seen["infinite"]):
            infinite = Seen(grads.value, "where the first gradient is infinite, `.grad`")
            same_grads(infinite, [torch.tensor([torch.nan]), torch.zeros(1)])
        for grads, (gradients, norm) in paired(seen["other lists"], OTHER_LISTS):
            plain = torch.tensor([entry for gradient in gradients for entry in gradient])
            clipped = Seen(grads.value, f"the gradients {gradients}, clipped with c = {norm},")
            same_grad(clipped, plain * clip_factor([plain], norm))

    def test_the_next_pass_accumulates_and_is_clipped_again(seen, params, passes, c, grad, hooks):
        right = clipped_runs(params, passes, c, grad, hooks)
        for index in (1, 3):
            same_grads(seen["grads"][index], right[index])
        alone = Seen(seen["alone, transposed"].value, "a gradient of ones for a transposed parameter that is alone")
        expect(alone).close_to(torch.full((2, 3), 6**-0.5))
        for grads in exactly(6, seen["each of them last"]):
            ones = Seen(grads.value, "gradients of ones, for parameters of six shapes in another order each time,")
            same_grad(ones, torch.full((15,), 15**-0.5))

    def test_a_small_gradient_stays_as_it_is(seen, passes, hooks):
        same_grads(seen["grads"][2], arriving(passes, hooks)[2]["factors"])
        same_grads(seen["small"], [torch.tensor(6.0), torch.tensor(8.0)])
        for has_graph in exactly(2, seen["small, with graph"]):
            expect(has_graph).is_true(
                "after a pass with `create_graph=True` whose norm is below `c`, `.grad` has lost its graph"
            )

    def test_the_norm_is_joint_over_all_entries(seen, c):
        clipped = torch.full((16,), c / 4, dtype=torch.float64)
        for grads, expected in paired(seen["many small entries"], [[clipped, torch.zeros_like(clipped)]] * 2):
            same_grads(grads, expected)

    def test_a_second_list_is_clipped_by_itself(seen, params, passes, few, outside, c, hooks):
        same_grads(seen["beside a second list"], clipped_runs(params, passes[:1], c, "empty", hooks)[0])
        same_grads(seen["second list"], [torch.tensor(2 * c / 3**0.5, dtype=outside.dtype)] * 3)
        size = sum(p.numel() for p in few)
        same_grads(seen["a short list"], [torch.full_like(p, c / size**0.5) for p in few])

    def test_nothing_else_changes(seen, passes, outside):
        expect(seen["outside"]).close_to(len(passes) * outside + 1)
        nothing_changed(seen["changed"], but=["hook-left params*"])
        nothing_changed(seen["changed later"])
        autograd_on(seen["modes"])

    def test_the_handles_remove_the_hooks(seen, passes, hooks):
        expect(seen["has_remove"]).is_true("the function did not return a list of handles, each with a remove() method")
        same_grads(seen["unclipped"], arriving(passes, hooks)[0]["factors"])
        nothing_changed(seen["hooks afterwards"], when="after remove()")
        same_grads(seen["after remove() on the handles of another list"], [torch.tensor([0.6]), torch.tensor([0.8])])


def joined(params: list[Tensor]) -> Tensor | None:
    """All entries of all gradients, one after the other; None when one has no gradient."""
    grads = [p.grad for p in params if p.grad is not None]
    return torch.cat([grad.detach().flatten() for grad in grads]) if len(grads) == len(params) else None


def run_pass(params: list[Tensor], step: dict[str, Any], rest: Any, *, create_graph: bool = False) -> None:
    """One backward pass in which the gradient of parameter i is `factors[i]`, in a given order of the graph.

    Each parameter is used twice, so that its gradient is a sum. "fresh" clears every `.grad` before.
    """
    if step["fresh"]:
        for p in params:
            p.grad = None
    loss = rest
    for index in step["order"]:
        p, factor = params[index], step["factors"][index]
        loss = loss + (factor * p).sum() / 2 + (factor * p).sum() / 2
    loss.backward(create_graph=create_graph)


def arriving(passes: list[dict[str, Any]], hooks: str) -> list[dict[str, Any]]:
    """The passes with the gradients as the hooks of the caller leave them: a replacing one sits on the first."""
    times = FACTOR if hooks == "replacing" else 1.0
    return [{**step, "factors": [step["factors"][0] * times, *step["factors"][1:]]} for step in passes]


def held(params: list[Tensor], grad: str) -> list[Tensor]:
    """`.grad` before the first pass; zeros stand for None."""
    return [torch.full_like(p, 0.7 if grad == "filled" else 0.0) for p in params]


def first_totals(params: list[Tensor], passes: list[dict[str, Any]], grad: str, hooks: str) -> list[Tensor]:
    """What is in `.grad` after the first pass when nobody clips it."""
    return added(held(params, grad), arriving(passes, hooks)[0]["factors"])


def same_grads(seen: Seen, expected: list[Tensor]) -> None:
    """Expect these gradients, one for each parameter."""
    for entry, gradient in paired(seen, expected):
        same_grad(entry, gradient)


def same_grad(seen: Seen, expected: Tensor) -> None:
    """Expect this gradient."""
    limit = 1e-5 if expected.dtype == torch.float32 else 1e-6  # 1e-6 is what torch adds to the norm
    expect(seen).close_to(expected, rtol=2 * limit, atol=limit)


def joint_norm(grads: list[Tensor]) -> float:
    """The L2 norm over all elements of all tensors."""
    return torch.cat([grad.reshape(-1) for grad in grads]).norm().item()


def clip_factor(grads: list[Tensor], c: float) -> float:
    """What clipping multiplies each of these with, as `clip_grad_norm_` defines it."""
    return min(1.0, c / (joint_norm(grads) + 1e-6))


def scaled_to(grads: list[Tensor], c: float) -> list[Tensor]:
    """These gradients, scaled to the joint norm `c`."""
    return [grad * (c / joint_norm(grads)) for grad in grads]


def added(before: list[Tensor], factors: list[Tensor]) -> list[Tensor]:
    """The sums of two lists of gradients."""
    return [left + factor for left, factor in zip(before, factors)]


def clipped_runs(
    params: list[Tensor], passes: list[dict[str, Any]], c: float, grad: str, hooks: str
) -> list[list[Tensor]]:
    """Every `.grad` after each pass, when torch's own `clip_grad_norm_` is called after backward."""
    grads, params = held(params, grad), [p.clone() for p in params]
    after_each = []
    for step in arriving(passes, hooks):
        for p, old, factor in zip(params, grads, step["factors"]):
            p.grad = factor.clone() if step["fresh"] else old + factor
        nn.utils.clip_grad_norm_(params, c)
        grads = [snapshot(p.grad) for p in params]
        after_each.append(grads)
    return after_each


def arrivals(params: list[Tensor], step: dict[str, Any]) -> list[int]:
    """The order in which the parameters receive their gradient."""
    params, log = [nn.Parameter(p.clone()) for p in params], []
    for index, p in enumerate(params):
        p.register_post_accumulate_grad_hook(lambda _, index=index: log.append(index))
    run_pass(params, step, 0)
    return log


def clipped_at_each(
    before: list[Tensor | None], factors: list[Tensor], order: list[int], c: float
) -> list[Tensor | None]:
    """What is left when every arrival clips all gradients that are there."""
    grads = list(before)
    for index in order:
        here = grads[index]
        grads[index] = factors[index] if here is None else here + factors[index]
        factor = clip_factor([total for total in grads if total is not None], c)
        grads = [None if total is None else total * factor for total in grads]
    return grads


def early_clips(params: list[Tensor], step: dict[str, Any], c: float, grad: str, hooks: str) -> list[list[Tensor]]:
    """What a first pass leaves when not only the last arrival clips, or an earlier one instead of it."""
    (sent,) = arriving([step], hooks)
    order, factors, start = arrivals(params, step), sent["factors"], held(params, grad)
    before = start if grad == "filled" else [None] * len(factors)
    # A `.grad` of None and one of zeros are clipped alike.
    return [clipped_at_each(before, factors, order, c), *clips_before_the_last(start, step, c, hooks)]


def clipped_too_early_later(
    seen: Seen, params: list[Tensor], passes: list[dict[str, Any]], c: float, grad: str, hooks: str
) -> bool:
    """Whether the first pass is right, and in the first one that is not somebody clipped who was not the last."""
    right = clipped_runs(params, passes, c, grad, hooks)
    index = next((index for index in range(len(passes)) if not close(seen[index], right[index])), 0)
    early = clips_before_the_last(right[index - 1], passes[index], c, hooks) if index in (1, 3) else []
    return any(close(seen[index], wrong) for wrong in early)


def clips_before_the_last(start: list[Tensor], step: dict[str, Any], c: float, hooks: str) -> list[list[Tensor]]:
    """What a pass leaves when one arrival clips that is not the last, and `.grad` is `start` before it."""
    (sent,) = arriving([step], hooks)
    order, factors = arrivals(start, step), sent["factors"]
    totals, found = added(start, factors), []
    for count in range(1, len(order)):
        there = [totals[index] if index in order[:count] else start[index] for index in range(len(totals))]
        factor = clip_factor(there, c)
        found.append(
            [
                total * factor if index in order[:count] else start[index] * factor + factors[index]
                for index, total in enumerate(totals)
            ]
        )
    return found


def second_passes(
    params: list[Tensor], passes: list[dict[str, Any]], c: float, grad: str, hooks: str
) -> list[list[Tensor]]:
    """What a second pass leaves when it is not clipped at all, or at every arrival."""
    (left,), factors = clipped_runs(params, passes[:1], c, grad, hooks), arriving(passes, hooks)[1]["factors"]
    return [added(left, factors), clipped_at_each(left, factors, arrivals(params, passes[1]), c)]
