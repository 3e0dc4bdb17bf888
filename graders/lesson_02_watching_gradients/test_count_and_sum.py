"""Exercise 02-count-and-sum."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    NO_GRADIENT_TO_HOOK,
    CallersHooks,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
    prepared,
)
from graders.lesson_02_watching_gradients.judging import (
    NONE_HAS_NO_GRADIENT,
    SWITCHED_OFF,
    arriving,
    factor,
    flowing,
    without_zeros,
)
from graders.lesson_02_watching_gradients.shared import graph_beneath, leaf_and_tensor, plain, run_passes, zero_in_place


@exercise(
    "02-count-and-sum",
    points=1,
    minutes=10,
    difficulty=1,
    title="Count the calls and add up the gradients",
    hints=(
        "How often is the hook of a tensor called that is used twice? Once for each backward pass, with the sum.",
        'At the first call there is no sum yet: `d["sum"]` is still `None`.',
        "Change the entries of the dict that you returned. A new dict would be invisible to the caller.",
    ),
    why=(
        "The hook changes the entries of the dict that the caller holds; a new dict would never reach the caller. "
        "`sum + received` makes a new tensor each time; adding in place to a tensor of zeros of your own would do "
        "as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
            "values": ALL,
            "place": ALL,
            "grad": ALL,
            "hooks": ALL,
            "call": ALL,
            "grad_mode": ALL,
            "backward": ALL,
        },
        excludes={
            "number": "there is no number among the arguments",
            "collection": "there is no collection among the arguments",
            "model": "there is no model",
            "hooked": "there is no model; the hooks sit on the tensor",
            "failure": "nothing of the caller's is called",
        },
    ),
)
class TestCountAndSum:
    """Write `count_and_sum(t)`. `t` is a tensor that requires grad. Return the dict `{"n": 0, "sum": None}` at once.
    From then on a hook on `t`, which stays for good, keeps this same dict up to date: `"n"` is the number of its calls,
    an `int`, and `"sum"` is the sum of all gradients that it received.

    The sum has the dtype of the gradients and no graph, and nothing outside your hook changes it. The gradients that
    flow through `t` stay as they are.

    **Example.** With `y = tensor([2.], requires_grad=True)` and `d = count_and_sum(y)`, the call
    `(3 * y + y * y).sum().backward()` leaves `d == {"n": 1, "sum": tensor([7.])}`: one call, although `y` is used in
    three places.
    """

    def draw(rng, dtype, rank, layout, values):
        shape = rng.shape(rank)
        like = {"dtype": dtype, "layout": layout, "values": values, "low": -2.0, "high": 2.0}
        return {"x": rng.tensor(*shape, **like), "up": rng.tensor(*shape, **like)}

    def oracle(x, up, grad, hooks, backward):
        received = arriving(x, up, hooks, backward)
        return [sum(received), sum(received) + 2 * factor(hooks) * x, flowing(x, up, grad, hooks)]

    def alive(x, up, hooks, backward):
        # The sum of all gradients must differ from the last one, and from the sum of the others.
        *others, last = arriving(x, up, hooks, backward)
        return bool((sum(others).abs() > 0.05).any() and (last.abs() > 0.05).any())

    def probe(student, x, up, layout, place, grad, hooks, call, grad_mode, backward):
        leaf, t = leaf_and_tensor(x, layout, place, grad)
        CallersHooks(hooks).on_tensor(t, "t")
        always = Witness(t=t)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(t=t)
            tally = student.count_and_sum(t)
            seen = {"changed": witness.changes(), "start": plain(tally)}
        unused = student.count_and_sum(prepared(x, layout=layout))
        u = prepared(-x, layout=layout) if call == "in turn" else t
        other = None if call == "once" else student.count_and_sum(u)
        seen |= run_passes(leaf, t, up, layout, backward)
        seen |= {"tally": copied(tally), "unused": plain(unused)}
        seen["a later call for the same tensor"] = copied(student.count_and_sum(t))
        (u * u).sum().backward()
        seen["other"] = plain(other)
        overwritten = prepared(x, layout=layout)
        first = student.count_and_sum(overwritten)
        overwritten.register_hook(zero_in_place)
        (overwritten * up).sum().backward()
        seen["overwritten"] = plain(first)
        curved = prepared(x, layout=layout)
        twice = student.count_and_sum(curved)
        for _ in range(2):
            torch.autograd.grad((curved**3 / 4).sum(), curved, create_graph=True)
        seen["twice"] = plain(twice)
        huge = prepared(x, layout=layout)
        infinite = student.count_and_sum(huge)
        huge.backward(torch.full_like(huge, torch.inf))
        huge.backward(torch.ones_like(huge))
        unknown = prepared(x, layout=layout)
        of_nan = student.count_and_sum(unknown)
        unknown.backward(torch.full_like(unknown, torch.nan))
        empty = torch.zeros(0, 3, dtype=x.dtype, requires_grad=True)
        of_empty = student.count_and_sum(empty)
        empty.sum().backward()
        kept = of_nan.get("sum") if isinstance(of_nan, dict) else None
        seen["nan stays"] = isinstance(kept, Tensor) and bool(kept.isnan().all())
        seen["of an empty tensor"] = plain(of_empty)
        base = prepared(x, layout=layout)
        of_base = student.count_and_sum(base)
        view = base.view_as(base)
        of_view = student.count_and_sum(view)
        (view * up).sum().backward()
        (base * up).sum().backward()
        seen |= {"of a tensor with a view": plain(of_base), "of the view": plain(of_view)}
        seen |= {"infinite": plain(infinite), "infinite.grad": huge.grad}
        seen["graph_flows_on"] = graph_beneath(student.count_and_sum, x)
        y = torch.tensor([2.0], requires_grad=True)
        example = student.count_and_sum(y)
        (3 * y + y * y).sum().backward()
        return {**seen, "changed_at_the_end": always.changes(), "example": plain(example)}

    mistakes = (
        Mistake(
            "only-last-pass",
            lambda seen, x, up, hooks, backward: (
                (
                    seen["tally"]["n"].value in (1, len(arriving(x, up, hooks, backward)))
                    and close(seen["tally"]["sum"], arriving(x, up, hooks, backward)[-1])
                )
                or (
                    seen["tally"]["n"].value == 1 and close(seen["tally"]["sum"], sum(arriving(x, up, hooks, backward)))
                )
            ),
            "After several passes your dict knows only one of them. Add to what is there instead of replacing it.",
        ),
        Mistake(
            "reads-dot-grad",
            lambda seen: seen["example"]["n"].value == 1 and seen["example"]["sum"].value is None,
            raises=NONE_HAS_NO_GRADIENT,
        ),
        Mistake(
            "stored-alias",
            lambda seen, x, up, hooks, backward: (
                seen["graph_flows"].value is True
                and seen["tally"]["n"].value == len(arriving(x, up, hooks, backward))
                and seen["overwritten"]["n"].value == 1
                and close(seen["overwritten"]["sum"], 0.0)
            ),
        ),
        Mistake(
            "returned-the-gradient",
            lambda seen, x, up, hooks, backward: (
                seen["graph_flows"].value is False
                and close(seen["tally"]["sum"], sum(arriving(x, up, hooks, backward)))
            ),
            "Your hook returned a tensor, and what a hook returns flows on instead of the gradient: here one without a "
            "graph. Return nothing.",
        ),
        Mistake(
            "zeros-left-out",
            lambda seen, x, up, hooks, backward: (
                seen["tally"]["n"].value == len(without_zeros(arriving(x, up, hooks, backward)))
                and close(seen["tally"]["sum"], sum(arriving(x, up, hooks, backward)))
            ),
        ),
        Mistake("hooked-a-copy", raises=NO_GRADIENT_TO_HOOK),
        Mistake(
            "another-dict",
            lambda seen: (
                seen["tally"]["n"].value == 0
                and seen["tally"]["sum"].value is None
                and bool(changes(seen["changed"], "hook-left *"))
            ),
            "A hook of yours is on `t`, but the dict that you returned still says 0 and `None`. Change the entries of "
            "that very dict; a new one is invisible to the caller.",
        ),
    )

    def test_the_gradients_add_up_over_passes(seen, x, up, hooks, backward):
        received = arriving(x, up, hooks, backward)
        expect(seen["tally"]).has_keys("n", "sum")
        expect(seen["tally"]["n"]).equals(len(received))
        expect(seen["tally"]["sum"]).close_to(sum(received), detached=False)

    def test_a_tensor_with_two_uses_counts_once(seen):
        expect_tally(seen["example"], 1, torch.tensor([7.0]))

    def test_an_unused_tensor_stays_at_the_start(seen):
        for name in ("start", "unused"):
            expect(seen[name]).has_keys("n", "sum")
            expect(seen[name]["n"]).equals(0)
            expect(seen[name]["sum"]).equals(None)

    def test_another_call_keeps_a_dict_of_its_own(seen, x, up, hooks, call, backward):
        received = arriving(x, up, hooks, backward)
        if call == "again":
            expect_tally(seen["other"], len(received) + 1, sum(received) + factor(hooks) * 2 * x)
        elif call == "in turn":
            expect_tally(seen["other"], 1, -2 * x)
        expect_tally(seen["of a tensor with a view"], 2, 2 * up)
        expect_tally(seen["of the view"], 1, up)
        later = seen["a later call for the same tensor"]
        expect(later).has_keys("n", "sum")
        expect(later["n"]).equals(0)

    def test_the_sum_is_a_copy_without_a_graph(seen, x, up, hooks, backward):
        expect(seen["tally"]["sum"]).close_to(sum(arriving(x, up, hooks, backward)))
        expect_tally(seen["overwritten"], 1, up)
        expect_tally(seen["twice"], 2, 1.5 * x * x)
        expect_tally(seen["infinite"], 2, torch.full_like(x, torch.inf))
        expect(seen["nan stays"]).is_true("the sum is not NaN where a gradient was")
        expect_tally(seen["of an empty tensor"], 1, torch.zeros(0, 3, dtype=x.dtype))

    def test_the_flow_is_unchanged(seen, x, up, grad, hooks):
        expect(seen["leaf.grad"]).close_to(flowing(x, up, grad, hooks))
        expect(seen["cube"]).close_to(factor(hooks) * 0.75 * x * x)
        expect(seen["infinite.grad"]).close_to(torch.full_like(x, torch.inf))
        expect(seen["graph_flows"]).is_true(
            "with create_graph=True the gradient that flowed on had lost its graph: the hook returned a detached one"
        )
        expect(seen["graph_flows_on"]).is_true(SWITCHED_OFF)

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["hook-left t"])
        nothing_changed(seen["changed_at_the_end"], but=["grad-* t", "hook-left t"], when="after the passes")


def copied(tally: object) -> Any:
    """The dict as it is now, although a hook goes on changing it; graphs stay visible."""
    entries = plain(tally)
    if type(entries) is not dict:
        return entries
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in entries.items()}


def expect_tally(tally: Seen, n: int, total: Tensor) -> None:
    """A dict with this count and this sum."""
    expect(tally).has_keys("n", "sum")
    expect(tally["n"]).equals(n)
    expect(tally["sum"]).close_to(total)
