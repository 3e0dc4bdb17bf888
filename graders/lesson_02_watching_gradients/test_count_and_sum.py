"""Exercise 02-count-and-sum."""

from __future__ import annotations

import torch

from graders.authoring import Mistake, close, exercise, expect
from graders.lesson_02_watching_gradients.judging import NONE_HAS_NO_GRADIENT
from graders.lesson_02_watching_gradients.shared import plain, zero_in_place


@exercise(
    "02-count-and-sum",
    points=1,
    title="Count the calls and add up the gradients",
    hints=(
        "How often is the hook of a tensor called that is used twice? Once for each backward pass, with the sum.",
        'At the first call there is no sum yet: `d["sum"]` is still `None`.',
        "Change the entries of the dict that you returned. A new dict would be invisible to the caller.",
    ),
    cases=({"dtype": torch.float32}, {"dtype": torch.float64}),
)
class TestCountAndSum:
    """Write `count_and_sum(t)`. `t` is a tensor that requires grad. Return the dict `{"n": 0, "sum": None}`
    at once. From then on a hook on `t` keeps this same dict up to date: `"n"` is the number of times that the hook
    was called, and `"sum"` is the sum of all gradients that it received.

    The sum is a tensor without a graph that nothing outside your hook changes. The gradients that flow through `t`
    stay as they are.

    **Example.** With `y = tensor([2.], requires_grad=True)` and `d = count_and_sum(y)`, the call
    `(3 * y + y * y).sum().backward()` leaves `d == {"n": 1, "sum": tensor([7.])}`: one call, although `y` is used
    in three places.
    """

    def draw(rng, dtype):
        return {
            "y": rng.tensor(3, dtype=dtype),
            "factors": [rng.tensor(3, dtype=dtype, low=0.5) for _ in range(3)],
        }

    def probe(student, y, factors):
        y.requires_grad_()
        t = 1 * y
        fan = student.count_and_sum(t)
        first = plain(fan)
        (3 * t + t * t).sum().backward()
        leaf = y.detach().clone().requires_grad_()
        passes = student.count_and_sum(leaf)
        for factor in factors:
            (factor * leaf).sum().backward()
        unused = student.count_and_sum(y.detach().clone().requires_grad_())
        overwritten = y.detach().clone().requires_grad_()
        copied = student.count_and_sum(overwritten)
        overwritten.register_hook(zero_in_place)
        (factors[0] * overwritten).backward(gradient=factors[1])
        curved = y.detach().clone().requires_grad_()
        with_graph = student.count_and_sum(curved)
        for _ in range(2):
            (curved**3).sum().backward(create_graph=True)
        graph_flows, curved.grad = curved.grad.requires_grad, None  # together they would be a reference cycle
        return {"start": first, "fan": plain(fan), "y.grad": y.grad, "passes": plain(passes), "leaf.grad": leaf.grad,
                "unused": plain(unused), "copied": plain(copied), "with_graph": plain(with_graph),
                "graph_flows": graph_flows}  # fmt: skip

    mistakes = (
        Mistake(
            "only-last-pass",
            lambda seen, factors: (
                (seen["passes"]["n"].value in (1, 3) and close(seen["passes"]["sum"], factors[2]))
                or (seen["passes"]["n"].value == 1 and close(seen["passes"]["sum"], sum(factors)))
            ),
            "After three passes your dict knows only one of them. Add to what is there instead of replacing it.",
        ),
        Mistake(
            "reads-dot-grad",
            lambda seen, factors: (
                seen["passes"]["n"].value == 3
                and (
                    (
                        seen["fan"]["n"].value == 1
                        and seen["fan"]["sum"].value is None
                        and seen["passes"]["sum"].tensor is not None
                    )
                    or close(seen["passes"]["sum"], factors[0] + factors[1])
                    or close(seen["passes"]["sum"], 2 * factors[0] + factors[1])
                )
            ),
            raises=NONE_HAS_NO_GRADIENT,
        ),
    )

    def test_the_gradients_add_up_over_passes(seen, factors):
        expect(seen["passes"]).has_keys("n", "sum")
        expect(seen["passes"]["n"]).equals(3)
        expect(seen["passes"]["sum"]).close_to(sum(factors))

    def test_a_tensor_with_two_uses_counts_once(seen, y):
        expect(seen["fan"]["n"]).equals(1)
        expect(seen["fan"]["sum"]).close_to(3 + 2 * y)

    def test_an_unused_tensor_stays_at_the_start(seen):
        for name in ("start", "unused"):
            expect(seen[name]["n"]).equals(0)
            expect(seen[name]["sum"]).equals(None)

    def test_the_sum_is_a_copy_without_a_graph(seen, y, factors):
        expect(seen["copied"]["sum"]).close_to(factors[0] * factors[1])
        expect(seen["with_graph"]["sum"]).close_to(6 * y * y)

    def test_the_flow_is_unchanged(seen, y, factors):
        expect(seen["y.grad"]).close_to(3 + 2 * y)
        expect(seen["leaf.grad"]).close_to(sum(factors))
        expect(seen["graph_flows"]).is_true(
            "with create_graph=True the gradient that flowed on had lost its graph: the hook returned a detached one"
        )
