"""Exercise 04-pass-and-total-norms."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    CallersHooks,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    abort,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    paired,
    prepared,
    snapshot,
)


def copied(log: Any) -> Any:
    """A copy of a list, so that what is appended later does not show; any other value as it is."""
    return list(log)[:60] if isinstance(log, list) else log


@exercise(
    "04-pass-and-total-norms",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="This pass and the total",
    hints=(
        "You need two kinds of hook on `p`: one that sees the gradient of this pass, and one that runs when `.grad` "
        "holds the new total.",
        "`register_hook` gives you the gradient of this pass; `.grad` is still the old one then. A hook that was "
        "registered with `register_post_accumulate_grad_hook` receives `p` itself, and `p.grad` is the new total.",
        "The order comes by itself: in every backward pass the tensor hook runs first. Both hooks append to the same "
        "list. `.item()` makes a Python float of a norm.",
    ),
    why=(
        "A tensor hook sees the gradient of this pass, and a post-accumulate-grad hook runs once the total is in "
        "`.grad`, so the two lines come in the right order by themselves. The second hook alone could append both, "
        "if the first one leaves it the gradient."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ("leaf", "parameter"), "grad": ALL,
            "hooks": ALL, "call": ("again", "in turn"), "grad_mode": ALL,
            "backward": ("plain", "create_graph", "after an aborted one"),
        },
        excludes={
            "number": "no number is an argument",
            "collection": "there is no collection",
            "model": "there is no model",
            "hooked": "there is one tensor to hook",
            "failure": "the function calls nothing of the caller",
        },
        own={"further_passes": (1, 2, 60)},
        pairs=[("backward", "hooks")],
    ),
)  # fmt: skip
class TestPassAndTotalNorms:
    """Write `pass_and_total_norms(p)`. `p` is a leaf that requires grad.

    Return a new, empty list at once. From then on each `backward()` that reaches `p` appends two tuples to this same
    list:

    1. `("pass", norm)` with the norm of the gradient of this pass alone,
    2. `("total", norm)` with the norm of `p.grad` after this pass.

    Here `norm` is the L2 norm over all elements, as a Python float, exact to the digits of the dtype of `p`. Between
    two passes the caller may set `p.grad` to `None`, or to another tensor. Your hooks stay for good, and change no
    gradient. The caller does not call `torch.autograd.grad`, and no exception stops a pass at `p` itself.

    A hook that the caller registers on `p` after your call may change the gradient. Then "total" still is the norm of
    what is in `p.grad`, while "pass" may be the norm before this hook or after it.

    **Example.** After `p = torch.zeros(2, requires_grad=True)` and `log = pass_and_total_norms(p)`, run
    `(torch.tensor([3., 4.]) * p).sum().backward()` twice. Now `log` is
    `[("pass", 5.0), ("total", 5.0), ("pass", 5.0), ("total", 10.0)]`.
    """

    def draw(rng, dtype, rank, layout, values):
        shape = rng.shape(rank)
        parts = {name: rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for name in ("p", "k", "m")}
        return {**parts, "x": rng.tensor(*shape, dtype=dtype, values=values)}

    def alive(k, m, grad, hooks):
        entries = norms_over(passes(k, m, hooks), 0.7 if grad == "filled" else None)
        singles, totals = entries[::2], entries[1::2]
        return (
            all(abs(a - b) > 0.05 for a, b in zip(singles[1:], totals[1:])) and len({*totals, 0.0}) == len(totals) + 1
        )

    def probe(student, p, x, k, m, layout, place, grad, hooks, grad_mode, backward, further_passes):
        p = prepared(p, layout=layout, place=place, grad=grad)
        k, m = laid_out(k, layout), laid_out(m, layout)
        q = p.detach().clone().requires_grad_()
        x.requires_grad_()
        callers = CallersHooks(hooks).on_parameter(p, "p")
        values = Witness(p=p.detach(), k=k, m=m)
        with torch.set_grad_enabled(grad_mode == "on"):
            grads = Witness(p=p)
            log = student.pass_and_total_norms(p)
            other = student.pass_and_total_norms(q)
            again = student.pass_and_total_norms(p)
            seen = {"start": copied(log), "changed": grads.changes(), "a new list": again is not log}
        if backward == "after an aborted one":
            inner = p + x
            abort(lambda: (k * inner).sum(), inner)
        for factor in (k, k, m):
            (factor * (p + x)).sum().backward(create_graph=backward == "create_graph")
        seen |= {"log": copied(log), "p.grad": snapshot(p.grad), "other at first": copied(other)}
        p.grad = None
        for factor in (m, -m, 0 * k, 1e-9 * k):
            (factor * (p + x)).sum().backward()
        (m * q).sum().backward()
        seen |= {"log of a second call": copied(again)}
        seen |= {
            "log of seven passes": copied(log), "other": copied(other),
            "x.grad": snapshot(x.grad), "q.grad": snapshot(q.grad), "tiny": snapshot(p.grad),
        }  # fmt: skip
        callers.remove()
        r = q.detach().clone().requires_grad_()
        r.grad = large = torch.full_like(r, 2.0**27)
        beside = student.pass_and_total_norms(r)

        def late(g):
            with torch.enable_grad():
                (2 * m * r).sum().backward()  # one pass inside another
            return -g / 2

        q.grad = None
        q.register_hook(late)
        (m * q).sum().backward()
        seen |= {"late hook": copied(other)[2:], "q.grad late": snapshot(q.grad)}
        seen["the same .grad"] = r.grad is large
        s, counts = m.clone().requires_grad_(), []
        many = student.pass_and_total_norms(s)
        (s * s).sum().backward(create_graph=True)
        seen["keeps its graph"] = s.grad.requires_grad
        s.grad = None
        for _ in range(further_passes):
            (0 * s).sum().backward()
            counts.append(len(many) if isinstance(many, list) else None)
        p = torch.zeros(2, requires_grad=True)
        example = student.pass_and_total_norms(p)
        for _ in range(2):
            (torch.tensor([3.0, 4.0]) * p).sum().backward()
        seen |= {"changed by hooks": values.changes(), "counts": counts, "example": copied(example)}
        if isinstance(example, list):
            example.clear()
        (torch.tensor([3.0, 4.0]) * p).sum().backward()
        seen["after clear()"] = copied(example)
        nothing, spoilt = torch.zeros(0, requires_grad=True), torch.zeros(2, requires_grad=True)
        logs = [student.pass_and_total_norms(t) for t in (nothing, spoilt)]
        nothing.sum().backward()
        (torch.tensor([torch.nan, 1.0]) * spoilt).sum().backward()
        norms = [tuple(entry) if isinstance(entry, tuple) else entry for entry in copied(logs[1]) or []]
        left = None if spoilt.grad is None else spoilt.grad.tolist()
        seen["no entries"], seen["nan"] = copied(logs[0]), [str(norms), str(left)]
        return {**seen, "log beside a large .grad": copied(beside)}

    mistakes = (
        Mistake(
            "reads-dot-grad-too-early",
            lambda seen, k, m, grad, hooks: any(
                close_norms(labelled(seen, "total"), late) for late in lagging(k, m, grad, hooks)
            ),
            "Your total is not that of what `.grad` holds after this pass. In a tensor hook, `.grad` is still the old "
            "one, or `None`: it is written after all tensor hooks have run. Read it in a post-accumulate-grad hook.",
        ),
        Mistake(
            "dot-grad-was-none",
            message="`.grad` was `None` where your hook read it. In a tensor hook it is not written yet: read it in a "
            "post-accumulate-grad hook. And leave it where it is: your function can be called twice for one tensor.",
            raises="'NoneType' object has no attribute",
        ),
        Mistake(
            "changed-the-gradient",
            lambda seen, k, m, grad, hooks: (
                close_norms(labelled(seen, "pass"), norms_over(passes(k, m, hooks), None)[::2])
                and not close(seen["p.grad"], gradient_left(k, m, grad, hooks))
            ),
            "Your hooks changed what `p.grad` holds: they worked in place, or returned a gradient. They only watch.",
        ),
        Mistake(
            "removed-the-callers-hooks",
            lambda seen, hooks: changes(seen["changed"], "hook-removed p") != [] if hooks != "none" else SILENT,
            "Your function took hooks away that were there before it. They belong to the caller, and stay.",
        ),
        Mistake(
            "pass-is-not-total",
            lambda seen, k, m, hooks: close_norms(labelled(seen, "total"), norms_over(passes(k, m, hooks), None)[::2]),
            "Your total is the norm of this pass once more. The total is what `p.grad` holds after the pass: the sum "
            "over all passes since it was last cleared.",
        ),
        Mistake(
            "accumulated-grad",
            lambda seen, k, m, grad, hooks: close_norms(
                labelled(seen, "pass"), norms_over(passes(k, m, hooks), old(grad))[1::2]
            ),
            'Your "pass" is the norm of `p.grad`, and `.grad` adds up over passes. The gradient of this pass alone is '
            "what a tensor hook receives (`register_hook`).",
        ),
        Mistake(
            "total-before-later-hooks",
            lambda seen, k, m, grad, hooks: (
                seen["late hook"][1][0].value == "total"
                and close(seen["late hook"][1][1], m.norm().item())
                and close_norms(labelled(seen, "total"), norms_over(passes(k, m, hooks), old(grad))[1::2])
            ),
            "A hook that the caller registered after yours changed the gradient, and your total does not know it. Read "
            "`p.grad` when it has been written: in a post-accumulate-grad hook.",
        ),
        Mistake(
            "one-slot-for-all",
            lambda seen, m: (
                len(seen["start"]) == 0
                and (
                    len(seen["other at first"]) > 0
                    or len(seen["log"]) in (12, 18)
                    or close(seen["late hook"][0][1], 2 * m.norm().item())
                )
            ),
        ),
    )

    def test_each_pass_appends_its_own_norm_and_that_of_the_total(seen, k, m, grad, hooks):
        expect(seen["start"]).equals([])
        same_log(seen["log"], norms_over(passes(k, m, hooks), old(grad)), k)
        same_log(seen["example"], [5.0, 5.0, 5.0, 10.0], torch.ones(1))
        same_log(seen["after clear()"], [5.0, 15.0], torch.ones(1))
        same_log(seen["no entries"], [0.0, 0.0], torch.ones(1))
        expect(seen["nan"][0]).equals("[('pass', nan), ('total', nan)]")

    def test_every_pass_counts(seen, further_passes):
        for count, number in paired(seen["counts"], range(2, further_passes + 2)):
            if count.value != 2 * number:
                expect(count).fail(
                    f"after {number} passes, {2 * number} entries are expected, and there are {count.value}"
                )

    def test_the_total_follows_when_the_caller_clears_it(seen, k, m, grad, hooks):
        first, then = passes(k, m, hooks), [f * times(hooks) for f in (m, -m, 0 * k, 1e-9 * k)]
        for log in ("log of seven passes", "log of a second call"):
            same_log(seen[log], norms_over(first, old(grad)) + norms_over(then, None), k)

    def test_each_call_has_a_list_of_its_own(seen, m):
        expect(seen["other at first"]).equals([])
        expect(seen["a new list"]).is_true("two calls on one tensor returned the same list; each makes a new one")
        same_log(seen["other"], norms_over([m], None), m)

    def test_the_pass_is_not_a_difference_of_totals(seen, m):
        same_log(seen["log beside a large .grad"], norms_over([2 * m], 2.0**27), m)

    def test_the_total_is_what_a_later_hook_left(seen, m):
        before, after = m.norm().item(), m.norm().item() / 2
        same_log(seen["late hook"], [after if close(seen["late hook"][0][1], after) else before, after], m)

    def test_the_flow_is_unchanged(seen, p, k, m, grad, hooks):
        tiny = times(hooks)
        expect(seen["p.grad"]).close_to(gradient_left(k, m, grad, hooks), rtol=0, atol=0)
        expect(seen["tiny"]).close_to(((m * tiny) + (-m * tiny)) + 1e-9 * k * tiny, rtol=0, atol=0)
        expect(seen["q.grad"]).close_to(m, rtol=0, atol=0)
        expect(seen["q.grad late"]).close_to(-m / 2, rtol=0, atol=0)
        expect(seen["x.grad"]).close_to(((((k + k) + m) + m) - m) + 1e-9 * k)
        nothing_changed(seen["changed"], but=["hook-left p"])
        nothing_changed(seen["changed by hooks"])
        expect(seen["nan"][1]).equals("[nan, 1.0]")
        expect(seen["the same .grad"]).is_true("after a pass, `p.grad` is another tensor than before it")
        expect(seen["keeps its graph"]).is_true("after a pass with `create_graph=True`, `p.grad` lost its graph")


def times(hooks: str) -> float:
    """By what the hooks of the caller multiply a gradient."""
    return FACTOR if hooks == "replacing" else 1.0


def passes(k: Tensor, m: Tensor, hooks: str) -> list[Tensor]:
    """The gradients of the first three passes."""
    return [factor * times(hooks) for factor in (k, k, m)]


def old(grad: str) -> float | None:
    """What `.grad` holds everywhere before the first pass."""
    return 0.7 if grad == "filled" else None


def start(like: Tensor, filled: float | None) -> Tensor:
    """`.grad` before the first pass; zeros stand for None."""
    return like * 0 + (filled or 0)


def gradient_left(k: Tensor, m: Tensor, grad: str, hooks: str) -> Tensor:
    """What `.grad` holds after the first three passes."""
    return list(accumulate(passes(k, m, hooks), initial=start(k, old(grad))))[-1]


def norms_over(gradients: list[Tensor], filled: float | None) -> list[float]:
    """The norms of the log in order: pass, total, pass, total, … when `.grad` is `filled` at the beginning."""
    totals = list(accumulate(gradients, initial=start(gradients[0], filled)))[1:]
    return [part.norm().item() for pair in zip(gradients, totals) for part in pair]


def digits(like: Tensor) -> dict[str, float]:
    """The tolerance for a norm in the dtype of a tensor."""
    return {"rtol": 1e-5, "atol": 1e-12} if like.element_size() == 4 else {"rtol": 1e-12, "atol": 1e-15}


def same_log(log: Seen, norms: list[float], like: Tensor) -> None:
    """Expect a log with these norms, labelled "pass" and "total" in turn."""
    expect(log).has_length(len(norms), "entries")
    for index, (entry, norm) in enumerate(zip(log, norms)):
        expect(entry).has_length(2, "entries", tuple)
        expect(entry[0]).equals("total" if index % 2 else "pass")
        if type(entry[1].value) is not float:
            expect(entry[1]).fail("expected a Python float; `.item()` makes one of a tensor")
        expect(entry[1]).close_to(norm, **digits(like))


def labelled(seen: Seen, label: str) -> list[Seen]:
    """The norms of the first three passes that carry a label."""
    return [entry[1] for entry in seen["log"] if entry[0].value == label]


def close_norms(norms: list[Seen], expected: list[float]) -> bool:
    """Whether these are the expected norms."""
    return len(norms) == len(expected) and all(close(seen, norm) for seen, norm in zip(norms, expected))


def lagging(k: Tensor, m: Tensor, grad: str, hooks: str) -> list[list[float]]:
    """The totals of somebody who reads `.grad` before it is written, with or without an entry for the first."""
    totals = norms_over(passes(k, m, hooks), old(grad))[1:-1:2]
    return [[start(k, old(grad)).norm().item(), *totals], totals]
