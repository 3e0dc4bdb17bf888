"""Exercise 06-normalize-input."""

from __future__ import annotations

from typing import Any

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
    laid_out,
    nothing_changed,
    paired,
    prepared,
    removed,
    snapshot,
)
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE, after_hooks, as_passed, times
from graders.lesson_06_changing_the_forward.shared import arrived, callers_hooks, differentiated, gradients_at, is_nan

TINY, INF = 2.0**-40, float("inf")


class Mix(nn.Module):
    """Computes `2 * first + 3 * second + 4 * third`, and so on, of all tensors among its arguments."""

    def __init__(self, fuse: Any = None) -> None:
        """`fuse` is called at the end of each forward pass."""
        super().__init__()
        self.fuse = fuse
        self.first: list[Any] = []  # a list: a parameter as an attribute would become one of the module
        self.received: Any = ()

    def forward(self, a: Tensor, *others: Any, **options: Any) -> Tensor:
        """Notes what it received."""
        self.first, self.received = [a], (others, options)
        out = torch.mul(a, 2)
        for index, other in enumerate((*others, *options.values())):
            if isinstance(other, Tensor):
                out = out + (3 + index) * other
        if self.fuse is not None:
            self.fuse()
        return out


@exercise(
    "06-normalize-input",
    points=2,
    minutes=15,
    difficulty=2,
    title="Normalise what goes in",
    hints=(
        "A forward pre-hook receives `(module, args)`, before `forward` runs. `args` is a tuple, even with one entry.",
        "Return a tuple: it becomes the new positional arguments, all of them.",
        "Put the other arguments back: `return ((args[0] - mean) / std, *args[1:])`.",
    ),
    why=(
        "A pre-hook returns all positional arguments anew, so those behind the first are put back with "
        "`*args[1:]`. One that is registered with `with_kwargs=True` would do as well: it returns the tuple and "
        "the keyword arguments."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "place": ALL, "grad": ALL, "values": ALL,
            "number": ("negative", "zero", "fraction", "large"), "mode": ("train", "eval"),
            "hooks": ALL, "call": ALL, "grad_mode": ALL, "backward": ALL, "failure": ALL,
        },
        excludes={
            "collection": "there is no collection",
            "model": "the module is called by itself, and the function does not look into it",
            "hooked": "there is one module to hook",
            "failing_run": "there is one run",
        },
        own={"others": ("both", "none", "positional", "keyword")},
    ),
)  # fmt: skip
class TestNormalizeInput:
    """Write `normalize_input(module, mean, std)` for two numbers; `std` is not 0. From now on, in every call of
    `module`, the first positional argument `a` (a floating tensor; there always is one) reaches `forward` as
    `(a - mean) / std`, up to rounding, in the dtype of `a`. All other arguments reach it as the caller passed them: the
    same objects. Return the handle; after `handle.remove()` the module gets its arguments unchanged again.

    Gradients flow through the normalisation to the caller's tensor. After two calls of your function on the same module
    both normalise, in either order. Other pre-hooks of the module may come before or after yours.

    **Example.** Let `module(a, b)` compute `a + 10 * b`. After `handle = normalize_input(module, 1.0, 2.0)`, the call
    `module(torch.tensor(5.), torch.tensor(3.))` gives `(5 - 1) / 2 + 30 = 32`, and the gradient at `a` is `0.5`.
    """

    def draw(rng, dtype, rank, layout, values, number):
        shape = rng.shape(rank)
        tensors = {name: rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for name in ("a", "b", "c")}
        return {
            **tensors,
            "up": rng.tensor(*shape, dtype=dtype, values=values, low=0.5),
            # Numbers that float32 does not hold, so that a detour through float32 shows.
            "mean": beyond_float32(rng.number(number) * 9 / 7),
            "std": beyond_float32(rng.choice((0.5, 1.5, 2.0, 3.0)) * 8 / 7) * (-1 if number == "negative" else 1),
        }

    def oracle(a, b, c, mean, std, others, hooks):
        return after_hooks(mixed((a - mean) / std, others, b, c), hooks)

    def probe(student, a, b, c, up, mean, std, others, layout, place, grad, mode, hooks, grad_mode, backward, failure):
        module, twin = Mix().train(mode == "train"), Mix()
        callers_hooks(module, hooks)
        mine = laid_out(a, layout)
        leaf = prepared(a, layout=layout, place="leaf" if place == "non-leaf" else place, grad=grad)
        passed = leaf.view_as(leaf) if place == "non-leaf" else leaf
        b, c = prepared(b, layout=layout), prepared(c, layout=layout)
        args, kwargs = (b,) * (others in ("positional", "both")), {"c": c} if others in ("keyword", "both") else {}
        things = {"module": module, "twin": twin, "a": mine, "passed": passed, "b": b, "c": c}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            handle = student.normalize_input(module, mean, std)
            seen = {"changed": witness.changes()}
        seen |= {"y": snapshot(module(mine, *args, **kwargs)), "arrived": arrived(module.received, args, kwargs)}
        seen["twin"] = snapshot(twin(mine, *args, **kwargs))
        leaves = [leaf, *args, *kwargs.values()]
        seen["gradients"] = gradients_at(leaves, lambda: module(passed, *args, **kwargs), up, backward)
        seen["gradient differentiated"] = differentiated(lambda: module(passed, *args, **kwargs), leaf, up)
        module.train(mode != "train")
        with torch.no_grad():
            seen["y under no_grad, in the other mode"] = module(passed, *args, **kwargs)
        module.train(mode == "train")
        more, options = (
            (None, c, "a text", mine, [c], {"key": c}, 3, (1, 2), torch.tensor([1]), b.detach().to(torch.bfloat16)),
            {"flag": False, "nothing": None, "rows": [1], "same": mine},
        )
        module(mine, *more, **options)
        seen["arrived with more"] = arrived(module.received, more, options)
        seen["the first of more"] = snapshot(module.first[0])
        moving = a.clone()
        witness = Witness(moving=moving)
        with torch.no_grad():
            module(moving)
        seen["changed by hooks"] = witness.changes()
        moving.mul_(-0.5)
        with torch.no_grad():
            seen["y of other values"] = snapshot(module(moving))
        seen |= {"y of half precision": module(a.to(torch.bfloat16))}
        second = student.normalize_input(module, std, 4.0)
        (seen["gradient with both hooks"],) = gradients_at([leaf], lambda: module(passed, *args, **kwargs), up)
        seen["has_remove"] = removed(handle)
        seen["y with the second hook alone"] = snapshot(module(mine, *args, **kwargs))
        removed(second)
        seen["y after `remove()`"] = snapshot(module(mine, *args, **kwargs))
        seen["changed in the end"] = before.changes()

        boom = Failure(failure)
        broken = Mix(boom.strike)
        witness = Witness(a=mine, passed=passed)
        _kept = student.normalize_input(broken, mean, std)
        seen["failure"] = boom.during(lambda: broken(mine, *args, **kwargs))
        seen |= {"changed by failure": witness.changes(), "after a failure": snapshot(broken(mine, *args, **kwargs))}
        small = nn.Identity()
        _kept = student.normalize_input(small, TINY, TINY)
        seen["has_remove of 0 and 1"] = removed(student.normalize_input(nn.Identity(), 0.0, 1.0))
        seen["tiny"] = small(torch.tensor([3 * TINY, -TINY], dtype=torch.float64))
        seen["infinite"] = small(torch.tensor([INF, -INF, 3 * TINY]))
        seen["nan"] = is_nan(small(torch.tensor([float("nan"), 1.0])))
        leaky, given = nn.LeakyReLU(0.5, inplace=True), torch.tensor([-7.0, 9.0])
        _kept = student.normalize_input(leaky, 1.0, 2.0)
        seen["y in place"] = [snapshot(leaky(given)) for _ in range(2)]
        container = nn.Sequential(nn.Identity().eval())
        witness = Witness(container=container)
        _kept = student.normalize_input(container, mean, std)
        seen["changed in a container"] = witness.changes()
        equal = nn.Identity()
        removed(student.normalize_input(equal, 1.0, 2.0))
        _kept = student.normalize_input(equal, 1.0, 2.0), student.normalize_input(equal, 1.0, 2.0)
        seen["normalised twice"] = equal(torch.tensor([5.0, 4001.0]))
        example = Example()
        student.normalize_input(example, 1.0, 2.0)  # nobody has to keep the handle
        five, three = torch.tensor(5.0, requires_grad=True), torch.tensor(3.0)
        gradient = gradients_at([five], lambda: example(five, three), torch.tensor(1.0))
        return {**seen, "example": snapshot(example(five, three)), "example.grad": gradient[0]}

    mistakes = (
        Mistake(
            "replaced-the-first",
            lambda seen, up, std, hooks: (
                SILENT
                if std == 1
                else close(seen["normalised twice"], torch.tensor([2.0, 2000.0]))
                and close(seen["gradient with both hooks"], 2 / 4 * times(hooks) * up)
            ),
            "After a second call of your function on one module, only the second mean and deviation count. Register a "
            "hook of its own in each call, and keep the numbers in that hook: then both normalise.",
        ),
        Mistake(
            "dropped-arguments",
            lambda seen: "positional lost" in (seen["arrived"].value, seen["arrived with more"].value),
            "Positional arguments of the caller are lost. What a pre-hook returns stands for all of them, and a bare "
            "tensor becomes the only one. Return `(new, *args[1:])`.",
            raises="missing 1 required positional argument: 'b'",
        ),
        Mistake(
            "dropped-keywords",
            lambda seen: (
                "keywords lost" in (seen["arrived"].value, seen["arrived with more"].value)
                and "positional lost" not in (seen["arrived"].value, seen["arrived with more"].value)
            ),
            "Keyword arguments of the caller are lost. A hook that is registered with `with_kwargs=True` returns both, "
            "`(new_args, kwargs)`; without that flag it leaves the keywords alone.",
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen: any(changes(seen[when], "values *") for when in ("changed by hooks", "changed in the end")),
            "The caller's own tensor has changed: `args[0]` *is* that tensor, and you edited it in place. Compute a "
            "new tensor.",
            raises=("a leaf Variable that requires grad", "refers to a single memory location"),
        ),
        Mistake(
            "wrong-return-shape",
            raises=("must return None or a tuple", "argument after ** must be a mapping"),
            message="A pre-hook with `with_kwargs=True` has to return both: a tuple of the positional arguments and "
            "the keyword arguments, `return new_args, kwargs`.",
        ),
        Mistake(
            "returned-a-list",
            raises="must be Tensor, not list",
            message="Your pre-hook returned a list. Only a tuple counts as the new arguments; a list is passed on as "
            "*one* argument. Return a tuple.",
        ),
        Mistake(
            "tuple-not-tensor",
            raises=(
                "for -: 'tuple'",
                "for /: 'tuple'",
                "can't multiply sequence by non-int",
                "must be Tensor, not tuple",
                "'tuple' object has no attribute",
                "does not support item assignment",
            ),
            message="`args` is the tuple of all positional arguments, not a tensor, and a tuple cannot be changed. "
            "Compute with `args[0]` and return a new tuple.",
        ),
        Mistake(
            "changed-the-output",
            lambda seen, a, b, c, mean, std, others, hooks: any(
                close(seen["y"], (value - mean) / std)
                for value in (after_hooks(mixed(a, others, b, c), hooks), mixed(a, others, b, c))
            ),
            "You normalised what comes out of the module. The task is about what goes in: register a forward "
            "*pre*-hook.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, a, b, c, mean, others, hooks: (
                SILENT
                if mean == 0
                else bool(changes(seen["changed"], "hook-left *"))
                and not changes(seen["changed in the end"], "values *")
                and close(seen["y"], after_hooks(mixed(a, others, b, c), hooks))
                and close(seen["y under no_grad, in the other mode"], after_hooks(mixed(a, others, b, c), hooks))
                and close(seen["y of other values"], after_hooks(-a, hooks))
            ),
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, a, b, c, mean, std, others, hooks: (
                close(seen["y"], after_hooks(mixed((a - mean) / std, others, b, c), hooks))
                and len(seen["gradients"]) > 0
                and seen["gradients"][0].value is None
            ),
            "The values are right, but no gradient comes to the caller's tensor any more. Leave out `detach()`, "
            "`.data` and `torch.no_grad()` in your hook.",
        ),
        Mistake(
            "no-handle",
            lambda seen: bool(changes(seen["changed"], "hook-left *")) and seen["has_remove"].value is False,
            NO_HANDLE,
        ),
    )

    def test_the_first_argument_is_normalised(seen, a, b, c, mean, std, others, hooks):
        expected = after_hooks(mixed((a - mean) / std, others, b, c), hooks)
        for call in ("y", "y under no_grad, in the other mode"):
            expect(Seen(seen[call].value, f"{call}, where y is the output of the module")).close_to(expected)
        expect(seen["y of other values"]).close_to(after_hooks(2 * (-a / 2 - mean) / std, hooks))
        expect(Seen(seen["tiny"].value, "3 * t and -t with mean and std t = 2 ** -40")).close_to(
            torch.tensor([2.0, -2.0], dtype=torch.float64)
        )
        beside = Seen(seen["the first of more"].value, "the first argument, beside more, some of which are `None`")
        expect(beside).close_to((a - mean) / std)
        infinite = Seen(seen["infinite"].value, f"what inf, -inf and {3 * TINY} become")
        expect(infinite).close_to(torch.tensor([INF, -INF, 2.0]))
        expect(Seen(seen["nan"].value, "where nan and 1 become nan")).close_to(torch.tensor([True, False]))
        for entry, call in paired(seen["y in place"], ("a first", "a second")):
            path = f"nn.LeakyReLU(0.5, inplace=True) of [-7, 9] with mean 1 and std 2, in {call} call"
            expect(Seen(entry.value, path)).close_to(torch.tensor([-2.0, 4.0]))
        half = after_hooks(2 * (a.to(torch.bfloat16) - mean) / std, hooks)
        expect(seen["y of half precision"]).close_to(half, rtol=0.1, atol=1.0)

    def test_gradients_flow_through_the_normalisation(seen, up, std, others, hooks):
        factors = [2 / std, *[3] * (others != "none"), *[4] * (others == "both")]
        for number, factor in enumerate(factors):
            at = "another argument" if number else "the first argument"
            expect(Seen(seen["gradients"][number].value, f"the gradient at {at}")).close_to(factor * times(hooks) * up)
        expect(seen["gradient differentiated"]).close_to(torch.full_like(up, 2 / std * times(hooks)))

    def test_the_other_arguments_arrive_as_they_were_passed(seen):
        as_passed(seen["arrived"], "in a call")
        as_passed(
            seen["arrived with more"], "in a call with more arguments, some of them `None`, and the first one once more"
        )

    def test_only_this_module_is_changed(seen, a, b, c, others):
        expect(seen["twin"]).close_to(mixed(a, others, b, c), detached=False)

    def test_each_handle_removes_its_own_hook(seen, a, b, c, up, std, others, hooks):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["has_remove of 0 and 1"]).is_true(
            "for mean 0 and std 1, the function returned nothing that has a remove() method"
        )
        equal = Seen(
            seen["normalised twice"].value, "5 and 4001 with mean 1 and std 2 twice, when a first hook is gone"
        )
        expect(equal).close_to(torch.tensor([0.5, 999.5]))
        expect(seen["gradient with both hooks"]).close_to(2 / std / 4 * times(hooks) * up)
        second = after_hooks(mixed((a - std) / 4, others, b, c), hooks)
        expect(seen["y with the second hook alone"]).close_to(second)
        expect(seen["y after `remove()`"]).close_to(after_hooks(mixed(a, others, b, c), hooks))

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["hook-left *"])
        nothing_changed(seen["changed by hooks"])
        nothing_changed(seen["changed in a container"], but=["hook-left container", "hook-left torch"])
        nothing_changed(seen["changed in the end"], when="after `remove()`", but=["grad-* *"])

    def test_an_exception_comes_through_and_changes_nothing(seen, a, b, c, mean, std, others):
        came_through(seen["failure"], "the module")
        after = Seen(seen["after a failure"].value, "the output in the call after one that raised")
        expect(after).close_to(mixed((a - mean) / std, others, b, c))
        nothing_changed(seen["changed by failure"], when="after an exception", but=["hook-left torch"])

    def test_the_example_of_the_contract_comes_out(seen):
        example = Seen(seen["example"].value, "the output of the example, where nobody keeps the handle")
        expect(example).close_to(torch.tensor(32.0))
        expect(seen["example.grad"]).close_to(torch.tensor(0.5))


class Example(nn.Module):
    """The module of the contract's example."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """One argument, and ten times the other."""
        return a + 10 * b


def mixed(a: Tensor, others: str, b: Tensor, c: Tensor) -> Tensor:
    """What `Mix` computes with these other arguments, in closed form."""
    return 2 * a + {"none": 0 * a, "positional": 3 * b, "keyword": 3 * c, "both": 3 * b + 4 * c}[others]
