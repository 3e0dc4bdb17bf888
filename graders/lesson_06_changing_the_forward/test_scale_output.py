"""Exercise 06-scale-output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    beyond_float32,
    came_through,
    changes,
    close,
    exercise,
    expect,
    fill_grads,
    in_mode,
    nothing_changed,
    prepared,
    removed,
    snapshot,
)
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE, after_hooks, plain, pulls, times
from graders.lesson_06_changing_the_forward.shared import (
    callers_hooks,
    differentiated,
    gradients_at,
    is_nan,
    layer_of,
)

BIG = 2**24 + 1
"""A whole number that float32 does not hold."""
INFINITE = [float("inf"), -float("inf"), 3.0]
"""An output that only a multiplication scales: a sum of multiples is nan."""
CALLS = ("y", "under no_grad", "y in the other mode", "y again")
"""Calls of the module with one hook of the learner's."""


@exercise(
    "06-scale-output",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="Scale what a module says",
    hints=(
        "A forward hook that returns something replaces the module's output by it.",
        "Compute a new tensor. An in-place change of `output` overwrites numbers that the backward pass needs.",
        "No `detach()`, no `.data`, no `torch.no_grad()`: autograd has to see the multiplication. "
        "And return the handle.",
    ),
    why=(
        "What a forward hook returns takes the place of the output, and `output * s` is a new tensor that autograd "
        "knows about, so gradients are scaled, too. Any function that computes a new tensor would do, such as "
        "`torch.mul`; writing into `output` would not."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL,
            "number": ("negative", "zero", "fraction", "large"),
            "mode": ("train", "eval"), "layers": ("linear", "convolution", "activation"),
            "hooks": ALL, "call": ALL, "grad_mode": ALL, "backward": ALL, "failure": ALL,
        },
        excludes={
            "place": "the function gets no tensor",
            "grad": "the function gets no tensor",
            "collection": "there is no collection",
            "model": "the module is called by itself, and returns a tensor",
            "hooked": "there is one module to hook",
            "failing_run": "there is one run",
        },
        impossible=[lambda rank, layers: rank < {"linear": 1, "convolution": 3, "activation": 0}[layers]],
    ),
)  # fmt: skip
class TestScaleOutput:
    """Write `scale_output(module, s)`. From now on, every call of `module` gives `s` times what it gave before: the
    forward hooks that `module` has at this moment come first, then the multiplication. Return the handle; after
    `handle.remove()` the module gives its own output again.

    - `s` is a number. The output of `module` is a tensor of any dtype, and becomes what `output * s` is, also one of
      whole numbers.
    - The gradients before the module are those of the multiplied output.
    - Two calls of `scale_output` on the same module multiply by both numbers.

    **Example.** With `act = nn.Sigmoid()` and `handle = scale_output(act, 3.0)`, the call
    `act(torch.tensor([0.]))` gives `tensor([1.5000])`, and the gradient at this input is `3 * 0.5 * (1 - 0.5) = 0.75`.
    """

    def draw(rng, dtype, rank, layout, values, number, layers):
        shape = rng.shape(rank)
        size = {"linear": shape[-1:], "convolution": shape[1:2], "activation": (1,)}[layers]
        return {
            "x": rng.tensor(*shape, dtype=dtype, values=values, layout=layout, low=-2, high=2),
            "weight": rng.tensor(*size, *size, dtype=dtype, values=values),
            "up": rng.tensor(*shape, dtype=dtype, values=values, low=0.5),
            # A number that float32 does not hold, so that a detour through float32 shows; never 1.
            "s": beyond_float32(rng.number(number) * 9 / 7),
            "t": rng.choice((-3.0, -2.5, 1.5, 2.5)),
        }

    def oracle(x, weight, up, s, t, layers, hooks):
        own, gradients = plain(layers, weight, x), pulls(layers, weight, x, times(hooks) * up)
        factors = [factor for factor in (1.0, s, t, s * t) if factor]
        return [[f * value for f in factors] for value in (own, after_hooks(own, hooks), *gradients)]

    def probe(student, x, weight, up, s, t, layers, layout, mode, hooks, grad_mode, backward, failure):
        x = prepared(x, layout=layout)
        module, twin = (fill_grads(in_mode(layer_of(layers, weight, x.dim()), mode)) for _ in range(2))
        callers_hooks(module, hooks)
        leaves = [x, *module.parameters()]
        before = Witness(module=module, twin=twin, x=x)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(module=module, twin=twin, x=x)
            first = student.scale_output(module, s)
            seen = {"changed": witness.changes()}
        seen |= {"y": snapshot(module(x)), "twin": snapshot(twin(x))}
        seen["gradients"] = gradients_at(leaves, lambda: module(x), up, backward)
        seen["gradient differentiated"] = differentiated(lambda: module(x), x, up)
        with torch.no_grad():
            seen["under no_grad"] = module(x)
        module.train(mode != "train")
        seen["y in the other mode"] = snapshot(module(x))
        module.train(mode == "train")
        beside = student.scale_output(twin, t)
        seen |= {"twin scaled": snapshot(twin(x)), "y again": snapshot(module(x))}
        removed(beside)

        second = student.scale_output(module, t)
        seen["y with both hooks"] = snapshot(module(x))
        seen["gradients of both"] = gradients_at(leaves, lambda: module(x), up)
        seen["has_remove"] = removed(first)
        seen["y with the second hook alone"] = snapshot(module(x))
        removed(second)
        seen |= {"y after `remove()`": snapshot(module(x)), "changed in the end": before.changes()}

        container = nn.Sequential(nn.Identity(), nn.Identity())  # hands its input on
        mine = {"t": snapshot(x.contiguous()), "halves": up.to(torch.bfloat16), "whole": torch.tensor([3, -2])}
        whole = mine["whole"]
        container[1].eval()
        witness = Witness(container=container, **mine)
        _kept = student.scale_output(container, s)
        seen["handed on"] = {name: container(t) for name, t in mine.items() if t is not whole}
        flat, half = nn.Flatten(0), nn.Identity()
        _kept = student.scale_output(flat, s)
        with torch.no_grad():
            seen["flattened"] = flat(mine["t"])
        _kept = student.scale_output(half, 0.5)
        seen["infinite"] = half(torch.tensor(INFINITE))
        seen["nan"] = is_nan(half(torch.tensor([float("nan"), 1.0, 2.0])))
        silent, unit = nn.Identity(), nn.Identity()
        _kept = student.scale_output(silent, 0.0)
        seen["nothing of infinity"] = is_nan(silent(torch.tensor([float("inf"), float("nan"), 1.0])))
        _kept = student.scale_output(unit, 1.0)
        for name, module in (("whole", container), ("whole times 1.0", unit)):
            try:
                seen["handed on"][name] = module(whole)
            except RuntimeError as error:
                seen["handed on"][name] = f"{error}"[:100]
        seen["changed by hooks"] = witness.changes()
        boom, broken = Failure(failure), nn.Identity()
        broken.forward = lambda t: boom.strike() or t  # raises in the first call only
        _kept = student.scale_output(broken, s)
        seen["failure"] = boom.during(lambda: broken(torch.tensor([5.0])))
        seen["after a failure"] = broken(torch.tensor([5.0]))
        identity, act = nn.Identity(), nn.Sigmoid()
        _kept = student.scale_output(identity, BIG), student.scale_output(act, 3.0)
        seen["big"] = identity(torch.ones(2, dtype=torch.float64))
        seen["small"] = identity(torch.full((2,), 2.0**-100, dtype=torch.float64))
        seen["whole times whole"] = identity(whole)
        row, round_trip, five = nn.Identity(), nn.Identity(), torch.tensor([5.0])
        _kept = student.scale_output(row, 2.0), row.register_forward_hook(lambda module, args, output: output + 1)
        _kept = student.scale_output(row, 3.0), student.scale_output(round_trip, 3.0)
        equal = nn.Identity()
        removed(student.scale_output(equal, 3.0))
        _kept = student.scale_output(equal, 3.0), student.scale_output(equal, 3.0)
        seen["3 times 3"] = equal(five)
        seen |= {"a hook in between": row(five), "through it twice": round_trip(round_trip(five))}
        zero = torch.zeros(1, requires_grad=True)
        example = gradients_at([zero], lambda: act(zero), torch.ones(1))
        return {**seen, "example": snapshot(act(zero)), "example.grad": example}

    mistakes = (
        Mistake(
            "forgot-return",
            lambda seen, x, weight, layers, hooks: (
                bool(changes(seen["changed"], "hook-left *"))
                and all(close(seen[call], after_hooks(plain(layers, weight, x), hooks)) for call in CALLS)
                and close(seen["3 times 3"], torch.tensor([5.0]))  # else it is `s` that makes the difference
            ),
        ),
        Mistake(
            "edited-weights",
            lambda seen, layers: (
                SILENT if layers == "activation" else bool(changes(seen["changed"], "values module.*"))
            ),
            "You changed the weights. They belong to the caller, and `s` times the weight is not `s` times the output: "
            "a bias, or a hook of the caller, comes after them. Return `output * s` from a forward hook.",
            rather_than=("before-other-hooks", "data-edit", "no-handle"),
        ),
        Mistake(
            "in-place-output",
            raises="modified by an inplace operation",
            message="Your hook changed `output` in place. The backward of Sigmoid and Tanh needs the old output, and "
            "it is overwritten. Compute a new tensor, `output * s`, and return it.",
        ),
        Mistake(
            "whole-numbers",
            lambda seen: "can't be cast" in str(seen["handed on"]["whole"].value),
            "An output of whole numbers cannot become fractional in place. Compute a new tensor, `output * s`.",
        ),
        Mistake(
            "data-edit",
            lambda seen, x, weight, up, s, layers, hooks: (
                all(close(seen[call], s * after_hooks(plain(layers, weight, x), hooks)) for call in CALLS)
                and any(
                    close(seen["gradients"][0], gradient)
                    for gradient in hidden_from_autograd(x, weight, up, s, layers, hooks)
                )
            ),
            "The output is right, but the gradient does not know of `s`: you changed the numbers behind autograd's "
            "back (`.data`, or the weights). Return `output * s`, computed by an ordinary operation.",
            rather_than=("whole-numbers",),
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, x, weight, s, layers, hooks: (
                all(close(seen[call], s * after_hooks(plain(layers, weight, x), hooks)) for call in CALLS)
                and len(seen["gradients"]) > 0
                and seen["gradients"][0].value is None
            ),
            "The output is right, but no gradient comes through any more. Your hook returned a tensor without a "
            "graph: leave out `detach()`, `.data` and `torch.no_grad()`.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, x, weight, s, layers, hooks: (
                SILENT if layers != "activation" else close(seen["y"], after_hooks(plain(layers, weight, s * x), hooks))
            ),
        ),
        Mistake(
            "before-other-hooks",
            lambda seen, x, weight, s, layers, hooks: (
                hooks == "replacing" and close(seen["y"], after_hooks(s * plain(layers, weight, x), hooks))
            ),
            "Your multiplication comes first, and then a hook of the caller changes the output. It has to come after "
            "the hooks that are there: register a forward hook on `module`, without `prepend=True`.",
        ),
        Mistake(
            "zero-means-nothing",
            lambda seen, x, weight, s, layers, hooks: (
                s == 0
                and all(close(seen[call], after_hooks(plain(layers, weight, x), hooks)) for call in CALLS)
                and close(seen["3 times 3"], torch.tensor([45.0]))
            ),
            "With `s = 0` the module gives its own output. 0 is a number like others: `s or 1` and `if s:` take it for "
            "nothing.",
        ),
        Mistake(
            "no-second-derivative",
            lambda seen, x, weight, up, s, layers, hooks: (
                seen["gradient differentiated"].value is None
                and close(seen["gradients"][0], s * pulls(layers, weight, x, times(hooks) * up)[0])
            ),
            "The gradient is right, and it cannot be differentiated again (`create_graph=True`): you computed it "
            "outside autograd. Return `output * s`, computed by an ordinary operation.",
        ),
        Mistake(
            "replaced-the-first",
            lambda seen, x, weight, s, t, layers, hooks: (
                close(seen["y"], s * after_hooks(plain(layers, weight, x), hooks))
                and close(seen["y with both hooks"], t * after_hooks(plain(layers, weight, x), hooks))
            ),
            "After a second call of your function on one module, only the second number counts. Register a hook of its "
            "own in each call, and keep the number in that hook: then both multiply.",
        ),
        Mistake(
            "removed-another",
            lambda seen, x, weight, s, t, layers, hooks: (
                seen["has_remove"].value is True
                and close(seen["y with both hooks"], s * t * after_hooks(plain(layers, weight, x), hooks))
                and any(
                    close(seen["y with the second hook alone"], value)
                    for value in (plain(layers, weight, x), s * after_hooks(plain(layers, weight, x), hooks))
                )
            ),
            "`remove()` of the first handle took another hook away than its own: the last one, or all of them. Return "
            "the handle that `register_forward_hook` gives; it stands for one hook.",
        ),
        Mistake(
            "no-handle",
            lambda seen: bool(changes(seen["changed"], "hook-left *")) and seen["has_remove"].value is False,
            NO_HANDLE,
        ),
    )

    def test_every_output_is_multiplied(seen, x, weight, s, layers, hooks):
        expected = s * after_hooks(plain(layers, weight, x), hooks)
        for call in CALLS:
            expect(Seen(seen[call].value, f"{call}, where y is the output of the module")).close_to(expected)

    def test_the_gradient_is_multiplied_too(seen, x, weight, up, s, layers, hooks):
        for number, gradient in enumerate(pulls(layers, weight, x, times(hooks) * up)):
            at = "the weight" if number else "the input"
            expect(Seen(seen["gradients"][number].value, f"the gradient at {at}")).close_to(s * gradient)

    def test_the_gradient_can_be_differentiated_again(seen, x, weight, up, s, layers, hooks):
        up = up.clone().requires_grad_()
        (again,) = torch.autograd.grad(s * times(hooks) * pulls(layers, weight, x, up)[0].sum(), up)
        expect(seen["gradient differentiated"]).close_to(again)

    def test_two_hooks_multiply_by_both_numbers(seen, x, weight, up, s, t, layers, hooks):
        expect(seen["y with both hooks"]).close_to(s * t * after_hooks(plain(layers, weight, x), hooks))
        expect(seen["gradients of both"][0]).close_to(s * t * pulls(layers, weight, x, times(hooks) * up)[0])

        equal = Seen(seen["3 times 3"].value, "5 times 3 times 3, after a first hook with s = 3 was removed")
        expect(equal).close_to(torch.tensor([45.0]))
        between = Seen(seen["a hook in between"].value, "5 times 2, plus 1 by a hook of the caller, times 3")
        expect(between).close_to(torch.tensor([33.0]))

    def test_a_module_that_gets_its_own_output_multiplies_again(seen):
        again = Seen(seen["through it twice"].value, "5 sent twice through one nn.Identity with s = 3")
        expect(again).close_to(torch.tensor([45.0]))

    def test_each_handle_removes_its_own_hook(seen, x, weight, t, layers, hooks):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["y with the second hook alone"]).close_to(t * after_hooks(plain(layers, weight, x), hooks))
        expect(seen["y after `remove()`"]).close_to(after_hooks(plain(layers, weight, x), hooks))
        nothing_changed(seen["changed in the end"], when="after `remove()`")

    def test_only_this_module_is_changed(seen, x, weight, t, layers):
        expect(Seen(seen["twin"].value, "the output of another module of this class")).close_to(
            plain(layers, weight, x)
        )
        expect(seen["twin scaled"]).close_to(t * plain(layers, weight, x))

    def test_any_tensor_will_do(seen, x, up, s):
        mine = {"t": x, "halves": up.to(torch.bfloat16), "whole": torch.tensor([3, -2])}
        for name, given in mine.items():
            limit = {"rtol": 1e-2, "atol": 1e-2} if name == "halves" else {}
            expect(seen["handed on"][name]).close_to(given * s, **limit)
        flat = Seen(seen["flattened"].value, "the output of nn.Flatten(0), under no_grad")
        expect(flat).close_to(x.reshape(-1) * s)
        expect(Seen(seen["handed on"]["whole times 1.0"].value, "the output [3, -2] times 1.0")).close_to(
            torch.tensor([3.0, -2.0])
        )
        half = Seen(seen["infinite"].value, "the output inf, -inf, 3 times 0.5")
        expect(half).close_to(0.5 * torch.tensor(INFINITE))
        nan = Seen(seen["nan"].value, "where the output nan, 1, 2 is nan after the multiplication")
        expect(nan).close_to(torch.tensor([True, False, False]))
        nothing = Seen(seen["nothing of infinity"].value, "where the output inf, nan, 1 is nan after times 0.0")
        expect(nothing).close_to(torch.tensor([True, True, False]))
        expect(seen["big"]).close_to(BIG * torch.ones(2, dtype=torch.float64), rtol=0, atol=0)
        small = Seen(seen["small"].value, f"an output of 2 ** -100, scaled by {BIG:g}")
        expect(small).close_to(torch.full((2,), BIG * 2.0**-100, dtype=torch.float64), rtol=0, atol=0)
        expect(seen["whole times whole"]).close_to(BIG * torch.tensor([3, -2]), rtol=0, atol=0)

    def test_a_call_that_raises_changes_nothing(seen, s):
        came_through(seen["failure"], "the module")
        after = Seen(seen["after a failure"].value, "the output of Identity for 5, in the call after one that raised")
        expect(after).close_to(s * torch.tensor([5.0]))

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["hook-left *"])
        nothing_changed(seen["changed by hooks"], but=["hook-left container"])

    def test_the_example_of_the_contract_comes_out(seen):
        expect(seen["example"]).close_to(torch.tensor([1.5]))
        expect(seen["example.grad"][0]).close_to(torch.tensor([0.75]))


def hidden_from_autograd(x: Tensor, weight: Tensor, up: Tensor, s: float, layers: str, hooks: str) -> list[Tensor]:
    """The gradients that come out at the input when autograd has not seen the multiplication."""
    found, v = [pulls(layers, weight, x, times(hooks) * up)[0]], s * plain(layers, weight, x)
    return [*found, up * v * (1 - v)] if layers == "activation" else found  # backward reads the edited output
