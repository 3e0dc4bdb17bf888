"""Exercise 01-chain-grads."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    close,
    exercise,
    expect,
    nothing_changed,
    prepared,
    snapshot,
)

STEPS = {
    "scale": lambda t, k: k * t,
    "square": lambda t, k: t * t + k,
    "tanh": lambda t, k: torch.tanh(t * k / 4),
    "mixing": lambda t, k: k * t * t.mean(),
    "in place": lambda t, k: t.mul_(k),
    "identity": lambda t, k: t,
    "stretch": lambda t, k: torch.stack([t, k * t]),
    "flatten": lambda t, k: (k * t).flatten(),
}
"""Functions of a tensor and a number, as a chain may have them; "mixing" lets every element touch every other."""

BACK = {
    "scale": lambda t, k, g: k * g,
    "square": lambda t, k, g: 2 * t * g,
    "tanh": lambda t, k, g: k / 4 * (1 - torch.tanh(t * k / 4) ** 2) * g,
    "mixing": lambda t, k, g: k * (t.mean() * g + (g * t).mean()),
    "in place": lambda t, k, g: k * g,
    "identity": lambda t, k, g: g,
    "stretch": lambda t, k, g: g[0] + k * g[1],
    "flatten": lambda t, k, g: (k * g).reshape(t.shape),
}
"""For each function, what a gradient `g` of its result becomes for its argument `t`, by hand."""

TAIL = [["flatten", -1.0], *(["scale", k] for k in (2.0, 0.5, -2.0, -0.5, 2.0, 0.5, -1.0))]
"""The end of a long chain: another shape with as many elements, and what is before it keeps its gradients."""

ENDLESS = [torch.inf, -torch.inf, torch.nan, 0.5]
"""Factors that are not finite, and one that is."""

Chain = list[list[str | float]]


@exercise(
    "01-chain-grads",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="The gradient at every step of a chain",
    hints=(
        "Run the functions one after the other and keep every intermediate result in a list. Call `retain_grad()` on "
        "each as soon as it exists.",
        "A function that works in place overwrites what you give it: then two steps are one tensor. What could you "
        "give it instead of `h` itself?",
        "`fn(h.clone())`: the copy may be overwritten, and gradients pass through `clone()` unchanged. One "
        "`backward()` on the sum of the last result fills every `.grad`, also that of `x`.",
    ),
    why=(
        "Each function gets a copy, so one that works in place overwrites the copy and not the step before; "
        "`clone()` passes gradients on as they are. `torch.autograd.grad` with the whole list of steps would do as "
        "well, if you put the gradient of `x` into `x.grad` yourself."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
            "values": ALL,
            "place": ("leaf", "parameter"),
            "collection": ALL,
            "hooks": ("none", "watching"),
            "call": ALL,
            "failure": ALL,
        },
        excludes={
            "grad": "whether the gradient is added or replaces the old one would be another question",
            "number": "there is no number among the arguments",
            "model": "there is no model",
            "hooked": "there is no model; the hooks sit on `x`",
            "grad_mode": "`backward()` needs it switched on, and lesson 1 does not know how to do that",
            "backward": "the function runs the pass itself",
            "failing_run": "each function is called once",
        },
        own={"special": ("mixing", "in place", "identity", "stretch")},
        pairs=[("collection", "special")],
        impossible=[
            lambda collection, special: collection == "empty" and special != "identity",
            lambda collection, special: collection != "many" and special == "mixing",
            lambda collection, special: collection == "one" and special != "in place",
            lambda rank, special: rank == 0 and special == "mixing",
        ],
    ),
)
class TestChainGrads:
    """Write `chain_grads(fns, x)`. `fns` is a list of functions, each from a tensor to a tensor. `x` is a leaf that
    requires grad. Its `.grad` is `None`, and hooks on it only watch. The chain is `h_0 = x`, `h_1 = fns[0](h_0)`,
    `h_2 = fns[1](h_1)`, and so on to the last, `h_n`.

    Call each function exactly once. Return a list with the gradients of `h_n.sum()` with respect to `h_1`, …, `h_n`, in
    this order, and leave the gradient with respect to `x` in `x.grad`. Equal gradients may be one tensor.

    A function may mix the elements of its argument, change its shape or dtype, return it as it is, or overwrite it in
    place, also the first one: give it a copy of `x`. Hooks on an `h` may stay.

    **Example.** For `fns = [lambda t: 3 * t, lambda t: t * t]` and `x = tensor([2.])` the result is
    `[tensor([12.]), tensor([1.])]`, and `x.grad` is `tensor([36.])`.
    """

    def draw(rng, dtype, rank, layout, values, collection, special):
        # the result of tanh must not be overwritten: then an exception tells, and not the gradients
        plain, other = rng.shuffled(["scale", "square"])
        ordinary = [plain, rng.choice([other, "tanh"])]
        numbers = rng.shuffled([-2.0, -1.5, 1.5, 2.0, 2.5])
        first, second = (list(pair) for pair in zip(ordinary, numbers))
        both = [special, numbers[2]], [special, numbers[3]]
        return {
            "chain": {
                "empty": [],
                "one": [both[0]],
                "many": [both[0], first, both[1], second, *TAIL],
                "repeated": [both[0], first, both[0], first],
            }[collection],
            "x": rng.tensor(*rng.shape(rank), low=-1.5, high=1.5, dtype=dtype, values=values, layout=layout),
            "matrix": rng.tensor(2, 2, dtype=dtype, values=values),
            "point": rng.tensor(2, dtype=dtype, values=values),
        }

    def alive(chain, x, special):
        grads = gradients(chain, x)
        sizes = [float(gradient.abs().max()) for gradient in grads]
        steps = zip(local_gradients(chain, x)[1:], grads[1:])
        mixed = special != "mixing" or any((local - other).abs().max() > 0.1 for local, other in steps)
        return min(sizes) > 0.05 and max(sizes) < 1000 and bool(mixed)

    def oracle(chain, x):
        return gradients(chain, x), gradients(chain, x / 2)

    def probe(student, chain, x, matrix, point, layout, place, collection, hooks, call, failure):
        calls = []

        def function(kind, k):
            def step(t):
                calls.append([kind, k])
                return STEPS[kind](t, k)

            return step

        def functions():
            made = [function(kind, k) for kind, k in chain]
            return made[:2] * 2 if collection == "repeated" else made

        def leaf(values=x):
            return prepared(values, layout=layout, place=place)

        t, fns = leaf(), functions()
        CallersHooks(hooks).on_tensor(t, "x")
        t.register_post_accumulate_grad_hook(lambda leaf: None)
        witness = Witness(x=t, fns=fns)
        grads = student.chain_grads(fns, t)
        seen = {"grads": grads, "x.grad": t.grad, "calls": calls[:50], "changed": witness.changes()}
        if call != "once":
            other = t if call == "again" else leaf(x / 2)
            other.data, other.grad = x / 2, None
            seen["another call"] = student.chain_grads(functions(), other)

        def failed(last):
            t, fails = leaf(), Failure(failure)
            CallersHooks("watching").on_tensor(t, "x")
            fns = [*functions(), last(fails)]
            witness = Witness(x=t, fns=fns)
            outcome = fails.during(lambda: student.chain_grads(fns, t))
            return {"outcome": outcome, "changed": witness.changes()}

        def raising_in_backward(fails):
            def step(t):
                result = 2 * t
                result.register_hook(fails.strike)
                return result

            return step

        seen["failure"] = failed(lambda fails: fails.strike)
        seen["failure in backward"] = failed(raising_in_backward)

        def calling(t):
            student.chain_grads([lambda t: 3 * t, lambda t: t * t], inner)
            return 2 * t

        number, inner = prepared(x.reshape(-1)[0]), prepared(torch.tensor(2.0))
        seen["around a call"] = student.chain_grads([lambda t: 3 * t, calling, lambda t: 5 * t], number)
        flat = prepared(point)
        seen["a view overwritten"] = student.chain_grads(
            [lambda t: 2 * t, lambda t: t.reshape(-1, 1), lambda t: t.mul_(5)], flat
        )
        seen["a view overwritten, x.grad"] = flat.grad
        nothing = prepared(point[:0])
        seen["no entries"] = student.chain_grads([lambda t: 2 * t, lambda t: t.sum()], nothing)
        seen["no entries, x.grad"] = nothing.grad
        of_matrix = prepared(point)
        widened = [lambda t: matrix @ t, lambda t: t.double(), lambda t: t * t]
        seen["another dtype"] = student.chain_grads(widened, of_matrix)
        seen["another dtype, x.grad"] = of_matrix.grad

        t = prepared(torch.tensor([2.0]))
        seen["example"] = student.chain_grads([lambda t: 3 * t, lambda t: t * t], t)
        unbounded = prepared(torch.ones(len(ENDLESS)))
        endless = [lambda t: 3 * t, lambda t: t * torch.tensor(ENDLESS)]
        seen["a chain times infinity"] = student.chain_grads(endless, unbounded)
        seen["a chain times infinity, x.grad"] = unbounded.grad
        grads = student.chain_grads([lambda t: t + 1, lambda t: 0 * t], prepared(torch.tensor([2.0])))
        seen["a chain times 0"] = [snapshot(entry) for entry in grads] if isinstance(grads, list) else grads
        for entry in grads if isinstance(grads, list) else ():
            if isinstance(entry, Tensor):
                entry.data.fill_(9)  # what an earlier call returned has memory of its own
        return {**seen, "example, x.grad": t.grad}

    mistakes = (
        Mistake(
            "overwritten-in-place",
            lambda seen, chain, x, special: (
                special == "in place"
                and not close_chain(seen["grads"], gradients(chain, x)[1:])
                and close_chain(seen["grads"], after_the_last_write(chain, x))
            ),
            "A function worked in place: it overwrote the tensor that you gave it, so two steps of your chain are one "
            "tensor, with one `.grad`. Give it a copy: `fn(h.clone())`.",
            raises=(
                "a leaf Variable that requires grad is being used in an in-place operation",
                "modified by an inplace operation",
                "is being used in an in-place operation",
                "is a view and is being modified inplace",
            ),
        ),
        Mistake(
            "local-derivatives",
            lambda seen, chain, x: (
                not close_from(seen, gradients(chain, x)) and close_from(seen, local_gradients(chain, x))
            ),
            "You multiplied the derivatives of the single functions. That is right only where each element of a result "
            "depends on one element of the argument. `backward()` knows all paths.",
        ),
        Mistake(
            "cut-between-steps",
            lambda seen, chain, x: (
                len(chain) > 1
                and close(seen["grads"][len(chain) - 1], 1)
                and not close_chain(seen["grads"], gradients(chain, x)[1:])
                and seen["x.grad"].value is None
            ),
            "A `detach()` (or `.data`, or a new leaf) between the steps cut the chain, and no gradient came further "
            "back than that. Pass each result on as it is, or a `clone()` of it.",
            raises=("can't retain_grad on Tensor that has requires_grad=False", "does not have a grad_fn"),
        ),
        Mistake(
            "retained-only-last",
            lambda seen, chain, x: (
                len(list(seen["grads"])) == len(chain) > 1
                and all(entry.value is None for entry in list(seen["grads"])[:-1])
                and close(seen["x.grad"], gradients(chain, x)[0], 1e-4, 1e-4)
            ),
            "Only the last result kept its gradient. Every step must call `retain_grad()` on its own result.",
        ),
        Mistake(
            "zeros-left-out",
            lambda seen, chain: len(seen["grads"]) == len(chain) and close(seen["a chain times 0"], [torch.ones(1)]),
        ),
        Mistake(
            "reversed-list",
            lambda seen, chain, x: (
                len(chain) > 1
                and close_chain(seen["grads"], gradients(chain, x)[:0:-1])
                and not close_chain(seen["grads"], gradients(chain, x)[1:])
            ),
            "All gradients are there, but from the last step to the first. The order asked for is `h_1` first.",
        ),
    )

    def test_every_step_has_its_gradient(seen, chain, x):
        expect_chain(seen["grads"], gradients(chain, x)[1:])

    def test_x_has_its_gradient_and_stays_as_it_was(seen, chain, x):
        expect(seen["x.grad"]).close_to(gradients(chain, x)[0])
        nothing_changed(seen["changed"], but=["grad-filled x"])

    def test_each_function_is_called_once_in_order(seen, chain, call):
        expect(seen["calls"]).equals([list(step) for step in chain])

    def test_another_call_has_its_own_gradients(seen, chain, x, call):
        if call != "once":
            expect_chain(seen["another call"], gradients(chain, x / 2)[1:])
        expect_chain(seen["a chain times infinity"], [torch.tensor(ENDLESS), torch.ones(len(ENDLESS))])
        expect(seen["a chain times infinity, x.grad"]).close_to(3 * torch.tensor(ENDLESS))
        expect_chain(seen["a chain times 0"], [torch.zeros(1), torch.ones(1)])

    def test_a_call_inside_a_call_changes_nothing(seen, x):
        of = torch.ones_like(x.reshape(-1)[0])
        expect_chain(seen["around a call"], [10 * of, 5 * of, of])

    def test_a_view_may_be_overwritten(seen, point):
        of = torch.ones_like(point)
        expect_chain(seen["a view overwritten"], [5 * of, 5 * of.reshape(-1, 1), of.reshape(-1, 1)])
        expect(seen["a view overwritten, x.grad"]).close_to(10 * of)

    def test_x_may_have_no_entries(seen, point):
        expect_chain(seen["no entries"], [point[:0], torch.ones_like(point[0])])
        expect(seen["no entries, x.grad"]).close_to(point[:0])

    def test_a_function_may_change_the_dtype(seen, matrix, point):
        last = matrix @ point
        expect_chain(seen["another dtype"], [2 * last, 2 * last.double(), torch.ones_like(last).double()])
        expect(seen["another dtype, x.grad"]).close_to(matrix.T @ (2 * last))

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen):
        came_through(seen["failure"]["outcome"], "a function")
        nothing_changed(seen["failure"]["changed"], when="after an exception")
        came_through(seen["failure in backward"]["outcome"], "`backward()`")
        nothing_changed(seen["failure in backward"]["changed"], but=["grad-filled x"], when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        expect_chain(seen["example"], [torch.tensor([12.0]), torch.tensor([1.0])])
        expect(seen["example, x.grad"]).close_to(torch.tensor([36.0]))


def expect_chain(grads: Seen, expected: list[Tensor]) -> None:
    """A list with these gradients."""
    expect(grads).has_length(len(expected), "gradients")
    for entry, gradient in zip(grads, expected):
        expect(entry).close_to(gradient)


def close_chain(seen: Seen, expected: list[Tensor]) -> bool:
    """Whether these are gradients, and the expected ones."""
    return bool(expected) and close(seen, expected, rtol=1e-4, atol=1e-4)


def close_from(seen: Seen, expected: list[Tensor]) -> bool:
    """Whether these are the gradients from `x` on."""
    steps = len(expected) == 1 or close_chain(seen["grads"], expected[1:])
    return steps and close(seen["x.grad"], expected[0], rtol=1e-4, atol=1e-4)


def gradients(chain: Chain, x: Tensor) -> list[Tensor]:
    """D h_n.sum() / d h_i for i = 0..n, from the last to the first by `BACK`."""
    steps = [x.clone()]
    for kind, k in chain:
        steps.append(STEPS[kind](steps[-1].clone(), k))
    found = [torch.ones_like(steps[-1])]
    for (kind, k), t in zip(reversed(chain), reversed(steps[:-1])):
        found.insert(0, BACK[kind](t, k, found[0]))
    return found


def local_gradients(chain: Chain, x: Tensor) -> list[Tensor]:
    """What comes out when the derivatives of the sums of the single functions are multiplied."""
    steps = [x.clone()]
    for kind, k in chain:
        steps.append(STEPS[kind](steps[-1].clone(), k))
    found = [torch.ones_like(steps[-1])]
    for (kind, k), t, result in zip(reversed(chain), reversed(steps[:-1]), reversed(steps[1:])):
        local = BACK[kind](t, k, torch.ones_like(result))
        found.insert(0, local * found[0] if local.shape == found[0].shape else BACK[kind](t, k, found[0]))
    return found


def after_the_last_write(chain: Chain, x: Tensor) -> list[Tensor]:
    """The gradients where each step before one in place has that of the step in place: they are one tensor."""
    found = gradients(chain, x)[1:]
    for place in range(len(chain) - 1, 0, -1):
        if chain[place][0] == "in place":
            found[place - 1] = found[place]
    return found
