"""Exercise 04-clip-global-norm-in-backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, Seen, close, exercise, expect, no_hook_left, removed, snapshot, tensor_hooks
from graders.lesson_04_after_accumulation.judging import RETURNED


@exercise(
    "04-clip-global-norm-in-backward",
    points=3,
    title="Clip the joint norm during backward",
    hints=(
        "The joint norm needs every gradient, so only the last parameter to arrive may clip. It is not always the "
        "same one.",
        "Count the arrivals in a post-accumulate-grad hook, or collect them in a set. When all have arrived, every "
        "`.grad` is written: clip them all, once.",
        "Reset the count after clipping, or the second pass never gets to clip. "
        "`torch.nn.utils.clip_grad_norm_(params, c)` may do the clipping itself.",
    ),
)
class TestClipGlobalNormInBackward:
    """Write `clip_global_norm_in_backward(params, c)`. `params` is a list of different parameters, each of which
    requires grad. Every `backward()` reaches all of them, in an order that can differ from pass to pass.

    From now on, whenever `backward()` returns, the `.grad` of all parameters in the list is what
    `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it at this moment. That is: if the joint L2 norm over
    the `.grad` of all of them is greater than `c`, each is multiplied by the same factor, so that the joint norm is
    `c`; otherwise nothing changes. Gradients accumulate as usual: a second pass adds to what the first pass left, and
    the sum is clipped. The caller may set `.grad` to `None` between passes.

    Gradients of tensors that are not in the list, and the values of all parameters, stay as they are. Return a list of
    all handles. After `remove()` on each of them, nothing is clipped any more.

    **Example.** For `p = nn.Parameter(torch.zeros(1))`, `q = nn.Parameter(torch.zeros(1))` and
    `clip_global_norm_in_backward([p, q], 1.0)`, the call `(3 * p + 4 * q).sum().backward()` leaves `p.grad` at 0.6 and
    `q.grad` at 0.8: the joint norm was 5.
    """

    def draw(rng):
        shapes = rng.shuffled([(3,), (2, 2), (), (4,), (1, 3)])
        return {
            "params": [rng.tensor(*shape) for shape in shapes],
            "passes": [
                {
                    "order": rng.shuffled(range(len(shapes))),
                    "factors": [rng.tensor(*shape) / size for shape in shapes],
                    "fresh": size > 1,
                }
                for size in (1, 1, 128, 1)
            ],
            "outside": rng.tensor(3),
            "c": rng.choice((0.75, 1.0, 1.25, 1.5)),
        }

    def alive(params, passes, c):
        raw = [joint_norm(one["factors"]) for one in passes]
        left = clipped_runs(params, passes, c)
        second, last = (joint_norm(added(left[index - 1], passes[index]["factors"])) for index in (1, len(passes) - 1))
        return (
            min(raw[0], second, last) > 1.5 * c
            and raw[2] < 0.5 * c
            and sum(bool(factor.norm() > c) for factor in passes[0]["factors"]) > 2
        )

    def probe(student, params, passes, outside, c):
        params = [nn.Parameter(p) for p in params]
        values = [snapshot(p) for p in params]
        other = torch.ones(3, requires_grad=True)
        handles = student.clip_global_norm_in_backward(list(params), c)
        after_each = []
        for one in passes:
            run_pass(params, one, (outside * other).sum())
            after_each.append([snapshot(p.grad) for p in params])
        second = [nn.Parameter(p) for p in outside]
        _kept = student.clip_global_norm_in_backward(list(second), 2 * c)
        mixed = {
            "order": [len(params), *passes[0]["order"], len(params) + 1, len(params) + 2],
            "factors": [*passes[0]["factors"], *torch.full((3,), 4 * c)],
            "fresh": True,
        }
        run_pass([*params, *second], mixed, 0)
        seen = {
            "beside a second list": [snapshot(p.grad) for p in params],
            "second list": [snapshot(p.grad) for p in second],
            "grads": after_each,
            "outside": snapshot(other.grad),
            "values_kept": all(torch.equal(p.detach(), value) for p, value in zip(params, values)),
            "has_remove": removed(handles),
        }
        run_pass(params, {**passes[0], "fresh": True}, 0)
        return {**seen, "unclipped": [snapshot(p.grad) for p in params], "hooks": tensor_hooks(*params)}

    mistakes = (
        Mistake(
            "per-tensor-norm",
            lambda seen, passes, c: close(
                seen["grads"][0], [factor * clip_factor([factor], c) for factor in passes[0]["factors"]]
            ),
            "You clipped each gradient to the norm `c` by itself. The norm is joint: one number for all parameters "
            "together, and one factor for all.",
        ),
        Mistake(
            "elements-not-norm",
            lambda seen, passes, c: close(seen["grads"][0], [factor.clamp(-c, c) for factor in passes[0]["factors"]]),
            "You clamped the elements to [-c, c], which changes the direction of the gradient. Multiply all gradients "
            "by one factor, `c / norm`.",
        ),
        Mistake(
            "clipped-too-early",
            lambda seen, params, passes, c: (
                not close(seen["grads"][0], passes[0]["factors"])
                and any(close(seen["grads"][0], early) for early in early_clips(params, passes[0], c))
            ),
            "You clipped before the last gradient was in `.grad`: what had arrived was clipped without it. Clip once, "
            "in a post-accumulate-grad hook, when all parameters have arrived in this pass.",
            raises="NoneType",
        ),
        Mistake(
            "counter-not-reset",
            lambda seen, params, passes, c: (
                close(seen["grads"][0], clipped_runs(params, passes[:1], c)[0])
                and any(close(seen["grads"][1], wrong) for wrong in second_passes(params, passes, c))
            ),
            "The first pass is right, the second is not: what told your hook that all had arrived was not set back. "
            "Reset your counter as soon as you have clipped. (A `.grad` that is not `None` may stem from an earlier "
            "pass.)",
        ),
        Mistake(
            "scaled-up",
            lambda seen, passes, c: close(
                seen["grads"][2],
                [factor * (c / joint_norm(passes[2]["factors"])) for factor in passes[2]["factors"]],
                rtol=1e-4,
            ),
            "A joint norm below `c` was scaled up to `c`. Clipping only makes gradients smaller: the factor is "
            "`c / norm`, but never more than 1.",
        ),
        RETURNED,
    )

    def test_the_joint_norm_is_clipped_once_all_have_arrived(seen, params, passes, c):
        same_grads(seen["grads"][0], clipped_runs(params, passes, c)[0])

    def test_the_next_pass_accumulates_and_is_clipped_again(seen, params, passes, c):
        for index in (1, 3):
            same_grads(seen["grads"][index], clipped_runs(params, passes, c)[index])

    def test_a_small_gradient_stays_as_it_is(seen, passes):
        same_grads(seen["grads"][2], passes[2]["factors"])

    def test_a_second_list_is_clipped_by_itself(seen, params, passes, c):
        same_grads(seen["beside a second list"], clipped_runs(params, passes[:1], c)[0])
        same_grads(seen["second list"], [torch.tensor(2 * c / 3**0.5)] * 3)

    def test_nothing_else_changes(seen, passes, outside):
        expect(seen["outside"]).close_to(len(passes) * outside)
        expect(seen["values_kept"]).is_true("the values of a parameter changed; only gradients were to be clipped")

    def test_the_handles_remove_the_hooks(seen, passes):
        expect(seen["has_remove"]).is_true("the function did not return a list of handles, each with a remove() method")
        same_grads(seen["unclipped"], passes[0]["factors"])
        no_hook_left(seen["hooks"])


def run_pass(params: list[Tensor], one: dict[str, Any], rest: Any) -> None:
    """One backward pass in which the gradient of parameter i is `factors[i]`, in a given order of the graph.

    Each parameter is used twice, so that its gradient is a sum. "fresh" clears every `.grad` before.
    """
    if one["fresh"]:
        for p in params:
            p.grad = None
    loss = rest
    for index in one["order"]:
        p, factor = params[index], one["factors"][index]
        loss = loss + (factor * p).sum() / 2 + (factor * p).sum() / 2
    loss.backward()


def same_grads(seen: Seen, expected: list[Tensor]) -> None:
    """Expect these gradients, one for each parameter."""
    for entry, gradient in zip(seen, expected):
        expect(entry).close_to(gradient)


def joint_norm(grads: list[Tensor]) -> float:
    """The L2 norm over all elements of all tensors."""
    return torch.cat([grad.reshape(-1) for grad in grads]).norm().item()


def clip_factor(grads: list[Tensor], c: float) -> float:
    """What clipping multiplies each of these with, as `clip_grad_norm_` defines it."""
    return min(1.0, c / (joint_norm(grads) + 1e-6))


def added(before: list[Tensor], factors: list[Tensor]) -> list[Tensor]:
    """The sums of two lists of gradients."""
    return [left + factor for left, factor in zip(before, factors)]


def clipped_runs(params: list[Tensor], passes: list[dict[str, Any]], c: float) -> list[list[Tensor]]:
    """Every `.grad` after each pass, when torch's own `clip_grad_norm_` is called after backward."""
    params = [nn.Parameter(p.clone()) for p in params]
    after_each = []
    for one in passes:
        run_pass(params, one, 0)
        nn.utils.clip_grad_norm_(params, c)
        after_each.append([snapshot(p.grad) for p in params])
    return after_each


def arrivals(params: list[Tensor], one: dict[str, Any]) -> list[int]:
    """The order in which the parameters receive their gradient."""
    params, log = [nn.Parameter(p.clone()) for p in params], []
    for index, p in enumerate(params):
        p.register_post_accumulate_grad_hook(lambda _, index=index: log.append(index))
    run_pass(params, one, 0)
    return log


def clipped_at_each(
    before: list[Tensor | None], factors: list[Tensor], order: list[int], c: float
) -> list[Tensor | None]:
    """What is left when every arrival clips all gradients that are there."""
    grads = list(before)
    for index in order:
        here = grads[index]
        grads[index] = factors[index] if here is None else here + factors[index]
        factor = clip_factor([grad for grad in grads if grad is not None], c)
        grads = [None if grad is None else grad * factor for grad in grads]
    return grads


def early_clips(params: list[Tensor], one: dict[str, Any], c: float) -> list[list[Tensor]]:
    """What a first pass leaves when not only the last arrival clips, or an earlier one instead of it."""
    order, factors = arrivals(params, one), one["factors"]
    found = [clipped_at_each([None] * len(factors), factors, order, c)]
    for count in range(1, len(order)):
        arrived = order[:count]
        factor = clip_factor([factors[index] for index in arrived], c)
        found.append([grad * (factor if index in arrived else 1.0) for index, grad in enumerate(factors)])
    return found


def second_passes(params: list[Tensor], passes: list[dict[str, Any]], c: float) -> list[list[Tensor]]:
    """What a second pass leaves when it is not clipped at all, or at every arrival."""
    (left,), factors = clipped_runs(params, passes[:1], c), passes[1]["factors"]
    return [added(left, factors), clipped_at_each(left, factors, arrivals(params, passes[1]), c)]
