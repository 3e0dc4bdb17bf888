"""Exercise 04-pass-and-total-norms."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from graders.authoring import Mistake, Seen, close, exercise, expect, snapshot


def copied(log: Any) -> Any:
    """A copy of a list, so that what is appended later does not show; any other value as it is."""
    return list(log)[:60] if isinstance(log, list) else log


@exercise(
    "04-pass-and-total-norms",
    points=1,
    title="This pass and the total",
    hints=(
        "You need two kinds of hook on `p`: one that sees the gradient of this pass, and one that runs when `.grad` "
        "holds the new total.",
        "`register_hook` gives you the gradient of this pass; `.grad` is still the old one then. A hook that was "
        "registered with `register_post_accumulate_grad_hook` receives `p` itself, and `p.grad` is the new total.",
        "The order comes by itself: in every backward pass the tensor hook runs first. Both hooks append to the same "
        "list. `.item()` makes a Python float of a norm.",
    ),
    cases=(
        {"shape": (3,), "dtype": torch.float32, "old": False},
        {"shape": (2, 3), "dtype": torch.float64, "old": False},
        {"shape": (2, 2), "dtype": torch.float32, "old": True},
    ),
)
class TestPassAndTotalNorms:
    """Write `pass_and_total_norms(p)`. `p` is a leaf that requires grad, of any shape.

    Return a new, empty list at once. From then on each `backward()` that reaches `p` appends two entries to this same
    list:

    1. the tuple `("pass", norm)` with the norm of the gradient of this pass alone,
    2. the tuple `("total", norm)` with the norm of `p.grad` as it is after this pass.

    Here `norm` is the L2 norm over all elements, as a Python float. Between two passes the caller may set `p.grad` to
    `None`, or to another tensor. No gradient and no value is changed by your function.

    **Example.** After `p = torch.zeros(2, requires_grad=True)` and `log = pass_and_total_norms(p)`, run
    `(torch.tensor([3., 4.]) * p).sum().backward()` twice. Now `log` is
    `[("pass", 5.0), ("total", 5.0), ("pass", 5.0), ("total", 10.0)]`.
    """

    def draw(rng, shape, dtype, old):
        draw = {name: rng.tensor(*shape, dtype=dtype) for name in ("p", "x", "q", "k", "m")}
        return {**draw, "old": rng.tensor(*shape, dtype=dtype) if old else None}

    def alive(p, k, m, old):
        entries = norms_over((k, k, m), old)
        passes, totals = entries[::2], entries[1::2]
        return all(abs(a - b) > 0.05 for a, b in zip(passes[1:], totals[1:])) and len({*totals, 0.0}) == 4

    def probe(student, p, x, q, k, m, old):
        p.requires_grad_()
        x.requires_grad_()
        q.requires_grad_()
        p.grad = None if old is None else old.clone()
        before = snapshot(p)
        log = student.pass_and_total_norms(p)
        other = student.pass_and_total_norms(q)
        seen = {"start": copied(log)}
        for factor in (k, k, m):
            (factor * (p + x)).sum().backward()
        seen |= {"log": copied(log), "p.grad": snapshot(p.grad)}
        p.grad = None
        for factor in (m, -m):
            (factor * (p + x)).sum().backward()
        (m * q).sum().backward()
        return {**seen, "whole": copied(log), "other": copied(other), "x.grad": snapshot(x.grad),
                "q.grad": snapshot(q.grad), "kept": torch.equal(p.detach(), before)}  # fmt: skip

    mistakes = (
        Mistake(
            "reads-dot-grad-too-early",
            lambda seen, k, m, old: any(close_norms(labelled(seen, "total"), late) for late in lagging(k, m, old)),
            "Your total lags one pass behind. In a tensor hook, `.grad` is still the old one: it is written after "
            "all tensor hooks have run. Read it in a post-accumulate-grad hook.",
            raises="'NoneType' object has no attribute",
        ),
        Mistake(
            "pass-is-not-total",
            lambda seen, k, m: close_norms(labelled(seen, "total"), norms_over((k, k, m), None)[::2]),
            "Your total is the norm of this pass once more. The total is what `p.grad` holds after the pass: the sum "
            "over all passes since it was last cleared.",
        ),
        Mistake(
            "accumulated-grad",
            lambda seen, k, m, old: close_norms(labelled(seen, "pass"), norms_over((k, k, m), old)[1::2]),
            'Your "pass" is the norm of `p.grad`, and `.grad` adds up over passes. The gradient of this pass alone is '
            "what a tensor hook receives (`register_hook`).",
        ),
    )

    def test_each_pass_appends_its_own_norm_and_that_of_the_total(seen, k, m, old):
        expect(seen["start"]).has_length(0, "entries before the first pass")
        same_log(seen["log"], norms_over((k, k, m), old))

    def test_the_total_follows_when_the_caller_clears_it(seen, k, m, old):
        same_log(seen["whole"], norms_over((k, k, m), old) + norms_over((m, -m), None))

    def test_each_call_has_a_list_of_its_own(seen, m):
        same_log(seen["other"], norms_over((m,), None))

    def test_the_flow_is_unchanged(seen, k, m, old):
        expect(seen["p.grad"]).close_to(2 * k + m + (0 if old is None else old))
        expect(seen["x.grad"]).close_to(2 * k + m)
        expect(seen["q.grad"]).close_to(m)
        expect(seen["kept"]).is_true("the values of p changed; the task is only to watch")


def norms_over(factors: tuple[Tensor, ...], start: Tensor | None) -> list[float]:
    """The norms of the log in order: pass, total, pass, total, … when `.grad` holds `start` at the beginning."""
    totals = list(accumulate(factors, initial=torch.zeros_like(factors[0]) if start is None else start))[1:]
    return [part.norm().item() for pair in zip(factors, totals) for part in pair]


def same_log(log: Seen, norms: list[float]) -> None:
    """Expect a log with these norms, labelled "pass" and "total" in turn."""
    expect(log).has_length(len(norms), "entries")
    for index, (entry, norm) in enumerate(zip(log, norms)):
        expect(entry[0]).equals("total" if index % 2 else "pass")
        expect(entry[1]).close_to(norm)
        if type(entry[1].value) is not float:
            expect(entry[1]).fail("expected a Python float; `.item()` makes one of a tensor")


def labelled(seen: Seen, label: str) -> list[Seen]:
    """The norms of the first three passes that carry a label."""
    return [entry[1] for entry in seen["log"] if entry[0].value == label]


def close_norms(norms: list[Seen], expected: list[float]) -> bool:
    """Whether these are the expected norms."""
    return len(norms) == len(expected) and all(close(one, norm) for one, norm in zip(norms, expected))


def lagging(k: Tensor, m: Tensor, old: Tensor | None) -> list[list[float]]:
    """The totals of somebody who reads `.grad` before it is written, with or without an entry for the first."""
    totals = norms_over((k, k, m), old)[1:-1:2]
    return [[0.0 if old is None else old.norm().item(), *totals], totals]
