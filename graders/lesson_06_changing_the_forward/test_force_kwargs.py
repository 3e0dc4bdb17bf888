"""Exercise 06-force-kwargs."""

from __future__ import annotations

import copy
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
    came_through,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
    paired,
    refuse,
    removed,
    snapshot,
)
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE, after_hooks, as_passed
from graders.lesson_06_changing_the_forward.shared import arrived, callers_hooks


class Listener(nn.Module):
    """Notes what each call of `forward` received, and returns a copy of a tensor."""

    def __init__(self, reply: Tensor, fuse: Any = None) -> None:
        """`reply` is what each forward pass returns; `fuse` is called at the end of each."""
        super().__init__()
        self.reply, self.fuse = reply, fuse
        self.received: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Takes any arguments."""
        self.received.append((args, dict(kwargs)))
        if self.fuse is not None:
            self.fuse()
        return self.reply.clone()


class Affine(nn.Module):
    """The module of the contract's example. Around another one, it calls that one first."""

    def __init__(self, inner: nn.Module | None = None) -> None:
        """`inner` is called without keywords."""
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, *, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        """A multiple of x, and a number more."""
        return (x if self.inner is None else self.inner(x)) * scale + shift


def told(module: Listener, kw: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Call the module and tell how often `forward` ran, and how `kw` and the caller's arguments arrived there."""
    del module.received[:]
    output = module(*args, **kwargs)
    positional, keywords = module.received[0]
    found = {name: keywords[name] for name in kw if name in keywords}
    if all(name in found and found[name] is kw[name] for name in kw):
        forced = "all"
    elif any(name in kwargs and name in found and found[name] is kwargs[name] for name in kw):
        forced = "the caller's"
    else:
        forced = "others" if len(found) == len(kw) else "missing"
    rest = {name: value for name, value in keywords.items() if name not in kw}
    own = {name: value for name, value in kwargs.items() if name not in kw}
    return {
        "forwards": len(module.received),
        "forced": forced,
        "rest": arrived((positional, rest), args, own),
        "output": snapshot(output),
    }


def equal(value: Any) -> Any:
    """Another object that is equal, if there is one: a copy of a tensor or a list, a float of a number."""
    return value * 1.0 if isinstance(value, int | float) else copy.copy(value)


CALLS = {
    "without": "in a call without keywords",
    "override": "in a call with keywords of the same names",
    "equal": "in a call with other objects for these keywords, equal to those in `kw`",
    "beside": "in a call with other keywords, one of them `None`",
    "positional": "in a call with five positional arguments, among them `None`, a list and a dict",
    "by keyword": "in a call with the input by keyword",
    "bare": "in a call without any argument",
    "no_grad": "in a call under `torch.no_grad()`, in the other mode",
    "later": "in a later call without keywords",
}
OVERRIDES = ("override", "equal")
"""Calls in which the caller passes keywords of the same names."""
NOT_FORCED = {
    "the caller's": "`forward` received the caller's value of a keyword that is in `kw`",
    "missing": "`forward` did not receive all keywords of `kw`",
    "others": "`forward` received other objects than those in `kw`",
}


@exercise(
    "06-force-kwargs",
    points=2,
    minutes=10,
    difficulty=2,
    title="Force keyword arguments",
    hints=(
        "A pre-hook sees keyword arguments only when it is registered with `with_kwargs=True`. Then it is called as "
        "`hook(module, args, kwargs)`.",
        "Such a hook returns a tuple of two: the new positional arguments and the new keyword arguments.",
        "In `{**kwargs, **kw}` the entries on the right win.",
    ),
    why=(
        "Only a pre-hook that is registered with `with_kwargs=True` sees the keyword arguments; it returns both, "
        "and in `{**kwargs, **kw}` the entries on the right win. `kwargs | kw` would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "collection": ("one", "empty", "many"), "mode": ("train", "eval"), "hooks": ALL, "call": ALL,
            "grad_mode": ALL, "failure": ALL,
        },
        excludes={
            "tensor": "the arguments may be anything, and arrive as they are",
            "number": "the arguments may be anything, and arrive as they are",
            "model": "the module is called by itself, and the function does not look into it",
            "hooked": "there is one module to hook",
            "backward": "tensors arrive as they are, so that gradients flow",
            "failing_run": "there is one run",
        },
        own={"value": ("tensor", "falsy", "list", "number")},
        impossible=[
            lambda collection, value: value == "falsy" and collection != "many",
            lambda collection, value: value == "list" and collection == "empty",
        ],
    ),
)  # fmt: skip
class TestForceKwargs:
    """Write `force_kwargs(module, **kw)`. From now on, every call of `module` receives the keyword arguments `kw`.
    Where the caller passes one of the same name, the value in `kw` wins. The other arguments of the caller reach the
    module as they were passed: the same objects, and only in the call to which they belong. Return the handle, also
    when `kw` is empty; after `handle.remove()` the module gets the caller's arguments alone.

    The values in `kw` may be of any kind, also tensors, `0`, and `None`, and the module receives these very objects.
    The caller may pass everything by keyword, the input too, and passes by position nothing that `kw` forces. If two
    calls of your function force the same keyword, either may win. In each call `forward` runs once. Pre-hooks of others
    only watch.

    **Example.** Let `module(x, *, scale=1.0, shift=0.0)` compute `x * scale + shift`. After
    `handle = force_kwargs(module, scale=10.0)`, the call `module(torch.tensor(2.), scale=3.0, shift=1.0)` gives
    `tensor(21.)`.
    """

    def draw(rng, collection):
        names = [*rng.names(3), "kwargs", "args"]
        return {
            "names": rng.shuffled(names)[: {"empty": 0, "one": 1, "many": 4}[collection]],
            "other": rng.names(1)[0] + "_",
            "x": rng.tensor(3),
            "y": rng.tensor(3),
            "reply": rng.tensor(6),
            "number": rng.uniform(2, 5),
        }

    def probe(student, names, other, x, y, reply, number, value, mode, hooks, grad_mode, failure):
        y.requires_grad_()
        given = {
            "tensor": [y, 0, x],
            "falsy": [0.0, None, False, ""],
            "list": [[1, x], {}, {1}],
            "number": [number, 0, -1],
        }
        kw = {name: given[value][index % len(given[value])] for index, name in enumerate(names)}
        module, twin = Listener(reply).train(mode == "train"), Listener(reply)
        callers_hooks(module, hooks)
        things = {"module": module, "twin": twin, "x": x, "y": y, "kw": dict(kw)}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            handle = student.force_kwargs(module, **kw)
            seen = {"changed": witness.changes()}
        beside = {other: x, "nothing": None, "flag": False}
        same = {name: object() for name in kw}
        calls = {
            "without": ((x,), {}),
            "override": ((x,), {**same, **beside}),
            "equal": ((x,), {name: equal(value) for name, value in kw.items()}),
            "beside": ((x,), beside),
            "positional": ((x, None, y, [x], {"key": y}), beside),
            "by keyword": ((), {"input": x, **beside}),
            "bare": ((), {}),
        }
        seen["calls"] = {call: told(module, kw, *given) for call, given in calls.items()}
        module.train(mode != "train")
        with torch.no_grad():
            seen["calls"]["no_grad"] = told(module, kw, (x,), beside)
        module.train(mode == "train")
        seen["calls"]["later"] = told(module, kw, (x,), {})
        seen["twin"] = told(twin, {}, (x,), same)
        second_kw = {"second": y}
        second = student.force_kwargs(module, **second_kw)
        seen["both"] = told(module, {**kw, **second_kw}, (x,), same)
        seen["has_remove"] = removed(handle)
        seen["second alone"] = told(module, second_kw, (x,), same)
        removed(second)
        seen |= {"after remove": told(module, {}, (x,), same), "changed in the end": before.changes()}

        alike = Listener(reply)
        older = student.force_kwargs(alike, second=x)
        _kept = student.force_kwargs(alike, second=y)
        removed(older)
        seen["younger alone"] = told(alike, second_kw, (x,), same)

        kinds = {"call": torch.relu, "table": {"a": x}}
        of_kinds = Listener(reply)
        _kept = student.force_kwargs(of_kinds, **kinds)
        seen["kinds"] = [told(of_kinds, kinds, (x,), caller) for caller in ({}, {"table": {"b": x}, "call": len})]

        boom = Failure(failure)
        broken = Listener(reply, boom.strike)
        _kept = student.force_kwargs(broken, **kw)
        seen["failure"] = boom.during(lambda: broken(x, **beside))
        seen["after a failure"] = told(broken, kw, (x,), {})
        container, affine, two = Affine(Affine().eval()), Affine(), torch.tensor(2.0)
        witness = Witness(container=container)
        student.force_kwargs(container, scale=5.0)
        student.force_kwargs(affine, scale=10.0)  # nobody has to keep the handles
        seen |= {"changed in a container": witness.changes(), "of a container": container(two)}
        return {**seen, "example": affine(two, scale=3.0, shift=1.0)}

    mistakes = (
        Mistake(
            "wrong-return-shape",
            raises=("must return None or a tuple", "argument after ** must be a mapping"),
            message="A pre-hook with `with_kwargs=True` has to return both: a tuple of the positional arguments and "
            "the keyword arguments, `return args, new_kwargs`.",
        ),
        Mistake(
            "dropped-arguments",
            lambda seen: (
                any(seen["calls"][call]["rest"].value in ("positional lost", "keywords lost") for call in CALLS)
                and all(seen["calls"][call]["forced"].value == "all" for call in CALLS)
            ),
            "Your keywords arrive, but arguments of the caller are lost. What you return is the whole new set of "
            "arguments: return `args` as they came, and merge your keywords with the caller's, `{**kwargs, **kw}`.",
            raises="missing 1 required positional argument: 'x'",
        ),
        Mistake(
            "caller-wins",
            lambda seen, names: (
                len(names) > 0
                and seen["calls"]["override"]["forced"].value == "the caller's"
                and all(seen["calls"][call]["forced"].value == "all" for call in ("without", "beside", "later"))
            ),
            "Where the caller passes the same keyword, the caller's value wins. In `{**first, **second}` the second "
            "wins: put `kw` last.",
        ),
        Mistake(
            "no-with-kwargs",
            raises="missing 1 required positional argument: 'k",
            message="Without `with_kwargs=True` a pre-hook is called as `hook(module, args)`: it sees no keywords and "
            "cannot add any. Register it with the flag.",
        ),
        Mistake(
            "needs-an-argument",
            raises="tuple index out of range",
            message="A caller may pass everything by keyword, and then `args` is empty. Hand `args` on as it is.",
        ),
        Mistake(
            "hook-without-kwargs",
            raises="takes 2 positional arguments but 3 were given",
            message="With `with_kwargs=True` the hook is called with three arguments: `hook(module, args, kwargs)`. "
            "Yours takes two.",
        ),
        Mistake(
            "never-arrive",
            lambda seen, names, value: (
                SILENT
                if value == "falsy"
                else len(names) > 0
                and all(seen["calls"][call]["forwards"].value == 1 for call in CALLS)
                and bool(changes(seen["changed"], "hook-left *"))
                and all(seen["calls"][call]["forced"].value in ("missing", "the caller's") for call in CALLS)
                and not close(seen["example"], 21.0)  # else those that `forward` names arrive
            ),
            "Your keywords never arrive. A pre-hook adds some only when it is registered with `with_kwargs=True` and "
            'returns `args, new_kwargs`; `None` means "keep the old ones".',
        ),
        Mistake(
            "nothing-values-left-out",
            lambda seen, names, value: (
                len(names) > (value != "falsy")  # the second value is always 0, None or empty
                and seen["calls"]["without"]["forced"].value == "missing"
                and all(told["forced"].value == "all" for told in seen["kinds"])
                and close(seen["example"], 21.0)
            ),
            "Keywords whose value is `None`, 0 or empty do not arrive, and others do. They are values like others: "
            "leave none out.",
        ),
        Mistake(
            "wrong-hook-kind",
            lambda seen: any((seen["calls"][call]["forwards"].value or 0) > 1 for call in CALLS),
            "`forward` ran twice, at first without your keywords. A forward hook comes after `forward`, and calling "
            "the module a second time repeats all its work. Register a forward *pre*-hook.",
        ),
        Mistake(
            "remembered-keywords",
            lambda seen: any(seen["calls"][call]["rest"].value == "more" for call in ("no_grad", "later")),
            "Keywords of one call reach a later call. You put the caller's keywords into `kw`, and `kw` lives as long "
            "as the hook. Build a new dict in each call.",
            rather_than=("caller-wins",),
        ),
        Mistake(
            "no-handle",
            lambda seen: bool(changes(seen["changed"], "hook-left *")) and seen["has_remove"].value is False,
            NO_HANDLE,
        ),
    )

    def test_the_keywords_reach_the_module(seen):
        for call in CALLS:
            if call not in OVERRIDES:
                kw_arrived(seen["calls"][call], CALLS[call])

    def test_they_win_over_those_of_the_caller(seen):
        for call in OVERRIDES:
            kw_arrived(seen["calls"][call], CALLS[call])

    def test_values_of_any_kind_arrive(seen):
        for call, caller in paired(seen["kinds"], ("no keywords", "a function and a dict as well")):
            when = f"with a function and a dict in `kw`, when the caller passes {caller}"
            kw_arrived(call, when)
            as_passed(call["rest"], when)

    def test_forward_runs_once_in_each_call(seen):
        for call, where in CALLS.items():
            expect(Seen(seen["calls"][call]["forwards"].value, f"runs of `forward` {where}")).equals(1)

    def test_everything_else_arrives_as_it_was_passed(seen, hooks, reply):
        for call, where in CALLS.items():
            as_passed(seen["calls"][call]["rest"], where)
            expect(Seen(seen["calls"][call]["output"].value, f"the output {where}")).close_to(after_hooks(reply, hooks))
        as_passed(seen["twin"]["rest"], "in a call of another module of this class")
        path = "the output for 2 of the module of the example with scale=5, which calls another one of its class first"
        expect(Seen(seen["of a container"].value, path)).close_to(torch.tensor(10.0))

    def test_each_handle_removes_its_own_hook(seen):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        for call, when in (
            ("both", "after two calls of `force_kwargs`"),
            ("second alone", "when the first handle was removed"),
            ("younger alone", "when the first of two handles that force one keyword was removed"),
            ("after remove", "after `remove()`"),
        ):
            kw_arrived(seen[call], when)
            as_passed(seen[call]["rest"], when)

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["hook-left *"])
        nothing_changed(seen["changed in a container"], but=["hook-left container", "hook-left torch"])
        nothing_changed(seen["changed in the end"], when="after `remove()`")

    def test_an_exception_comes_through_and_is_forgotten(seen):
        came_through(seen["failure"], "the module")
        kw_arrived(seen["after a failure"], "after a call that raised")
        as_passed(seen["after a failure"]["rest"], "after a call that raised")

    def test_the_example_of_the_contract_comes_out(seen):
        expect(seen["example"]).close_to(torch.tensor(21.0))


def kw_arrived(call: Seen, where: str) -> None:
    """All keywords of `kw` arrived. `where` begins the sentence, as in "in a later call"."""
    if call["forced"].value != "all":
        refuse(f"{where}, {NOT_FORCED.get(str(call['forced'].value), 'nobody knows what arrived')}")
