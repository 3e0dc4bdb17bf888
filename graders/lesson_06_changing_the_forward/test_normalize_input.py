"""Exercise 06-normalize-input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, close, exercise, expect, module_hooks, no_hook_left, removed, snapshot
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE
from graders.lesson_06_changing_the_forward.shared import pulled_back


class Mix(nn.Module):
    """Adds up to four arguments, the first through a linear layer."""

    def __init__(self, weight: Tensor) -> None:
        """A mix whose linear layer has this weight."""
        super().__init__()
        self.inner = nn.Linear(3, 3, bias=False)
        self.inner.load_state_dict({"weight": weight})

    def forward(
        self, a: Tensor, b: Tensor | None = None, third: Tensor | None = None, *, c: Tensor | None = None
    ) -> Tensor:
        """Weight times a, plus 10 b, plus 100 c, plus 25 times the third."""
        out = self.inner(a)
        if b is not None:
            out = out + 10 * b
        if third is not None:
            out = out + 25 * third
        return out if c is None else out + 100 * c


@exercise(
    "06-normalize-input",
    points=2,
    title="Normalise what goes in",
    hints=(
        "A forward pre-hook receives `(module, args)`, before `forward` runs. `args` is a tuple, even with one entry.",
        "Return a tuple: it becomes the new positional arguments, all of them.",
        "Put the other arguments back: `return ((args[0] - mean) / std, *args[1:])`.",
    ),
    cases=({"given": "ab"}, {"given": "abc"}, {"given": "a"}),
)
class TestNormalizeInput:
    """Write `normalize_input(module, mean, std)`. `mean` and `std` are numbers, and `std` is not 0. From now on, in
    every call of `module`, the first positional argument `a` (a tensor; there always is one) reaches the module's
    `forward` as `(a - mean) / std`. All other arguments, positional and keyword, reach it as the caller passed them.
    Return the handle; after `handle.remove()` the module gets its arguments unchanged again.

    Gradients flow through the normalisation to the caller's tensor. The values of the caller's tensor stay as they
    are.

    **Example.** Let `module(a, b)` compute `a + 10 * b`. After `handle = normalize_input(module, 1.0, 2.0)`, the call
    `module(torch.tensor(5.), torch.tensor(3.))` gives `(5 - 1) / 2 + 30 = 32`, and the gradient at `a` is `0.5`.
    """

    def draw(rng, given):
        return {
            "weight": rng.tensor(3, 3),
            "a": rng.tensor(2, 3),
            "b": rng.tensor(2, 3) if "b" in given else None,
            "c": rng.tensor(2, 3) if "c" in given else None,
            "up": rng.tensor(2, 3),
            "mean": rng.choice((-2.0, -1.5, -0.5, 0.75, 1.25, 2.0)),
            "std": rng.choice((0.25, 0.5, 2.0, 4.0)),
        }

    def probe(student, weight, a, b, c, up, mean, std):
        module = Mix(weight)
        module.register_forward_pre_hook(lambda *_: None)  # one of the caller's
        hooks = module_hooks(module)

        def call(first, others=(b, c)):
            rest = [] if b is None else [others[0]]
            return module(first, *rest, **({} if c is None else {"c": others[1]}))

        handle = student.normalize_input(module, mean, std)
        seen = {"hooks": module_hooks(module) - hooks}
        mine = a.clone()
        seen["y"] = snapshot(call(mine))
        seen["callers"] = snapshot(mine)
        leaf = a.clone().requires_grad_()
        passed = 1 * leaf
        others = [None if one is None else one.clone().requires_grad_() for one in (b, c)]
        module.eval()
        y = call(passed, others)
        seen["again"] = snapshot(y)
        seen["a.grad"] = snapshot(pulled_back(y, up, leaf))
        seen["b.grad"], seen["c.grad"] = (None if one is None else snapshot(one.grad) for one in others)
        with torch.no_grad():
            seen["without_gradients"] = snapshot(call(a.clone()))
        seen["with_a_third"] = snapshot(module(a.clone(), None, up))
        seen["has_remove"] = removed(handle)
        seen["after_remove"] = snapshot(call(a.clone()))
        seen["hooks_left"] = module_hooks(module) - hooks
        return seen

    mistakes = (
        Mistake(
            "dropped-arguments",
            lambda seen, weight, a, b, c, mean, std: (
                any(
                    close(seen["y"], mixed(weight, (a - mean) / std, *kept))
                    for kept in ((None, c), (b, None), (None, None))
                    if kept != (b, c)
                )
                or (
                    close(seen["y"], mixed(weight, (a - mean) / std, b, c))
                    and close(seen["with_a_third"], mixed(weight, (a - mean) / std, None, None))
                )
            ),
            "The first argument is normalised, but others are lost. What a pre-hook returns stands for all "
            "arguments, and a bare tensor becomes the only one. Return `(new, *args[1:])`.",
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen, weight, a, b, c, mean, std: (
                close(seen["y"], mixed(weight, (a - mean) / std, b, c)) and not close(seen["callers"], a)
            ),
            "The result is right, but the caller's own tensor has changed with it: `args[0]` *is* that tensor, and "
            "you edited it in place. Compute a new tensor.",
        ),
        Mistake(
            "returned-a-list",
            raises="not list",
            message="Your pre-hook returned a list. Only a tuple counts as the new arguments; a list is passed on as "
            "*one* argument. Return a tuple.",
        ),
        Mistake(
            "tuple-not-tensor",
            raises=(
                "for -: 'tuple'",
                "for /: 'tuple'",
                "can't multiply sequence by non-int",
                "sub(): argument 'input' (position 1) must be Tensor, not tuple",
                "'tuple' object has no attribute",
                "does not support item assignment",
            ),
            message="`args` is the tuple of all positional arguments, not a tensor, and a tuple cannot be changed. "
            "Compute with `args[0]` and return a new tuple.",
        ),
        Mistake(
            "changed-the-output",
            lambda seen, weight, a, b, c, mean, std: close(seen["y"], (mixed(weight, a, b, c) - mean) / std),
            "You normalised what comes out of the module. The task is about what goes in: register a forward "
            "*pre*-hook.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, weight, a, b, c: seen["hooks"].value != 0 and close(seen["y"], mixed(weight, a, b, c)),
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, weight, a, b, c, mean, std: (
                close(seen["y"], mixed(weight, (a - mean) / std, b, c))
                and close(seen["callers"], a)
                and seen["a.grad"].value is None
            ),
            "The values are right, but no gradient comes to the caller's tensor any more. Leave out `detach()`, "
            "`.data` and `torch.no_grad()` in your hook.",
        ),
        Mistake("no-handle", lambda seen: seen["hooks"].value != 0 and seen["has_remove"].value is False, NO_HANDLE),
    )

    def test_the_first_argument_is_normalised(seen, weight, a, b, c, mean, std):
        expect(seen["y"]).close_to(mixed(weight, (a - mean) / std, b, c))
        expect(seen["again"]).close_to(mixed(weight, (a - mean) / std, b, c))
        expect(seen["without_gradients"]).close_to(mixed(weight, (a - mean) / std, b, c))

    def test_gradients_flow_through_the_normalisation(seen, weight, up, std):
        expect(seen["a.grad"]).close_to(up @ weight / std)

    def test_the_other_arguments_arrive_as_they_were_passed(seen, weight, a, b, c, up, mean, std):
        expect(seen["with_a_third"]).close_to(mixed(weight, (a - mean) / std, None, None) + 25 * up)
        for key, given, factor in (("b.grad", b, 10), ("c.grad", c, 100)):
            if given is not None:
                expect(seen[key]).close_to(factor * up)

    def test_the_tensor_of_the_caller_is_untouched(seen, a):
        expect(seen["callers"]).close_to(a)

    def test_the_handle_removes_the_hook(seen, weight, a, b, c):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["after_remove"]).close_to(mixed(weight, a, b, c))
        no_hook_left(seen["hooks_left"])


def mixed(weight: Tensor, a: Tensor, b: Tensor | None, c: Tensor | None) -> Tensor:
    """What `Mix` computes, in closed form."""
    return a @ weight.T + (0 if b is None else 10 * b) + (0 if c is None else 100 * c)
