"""Scenes for functions that change the gradient of one tensor by hooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.probing import all_removed, removed, shares_storage, snapshot
from graders.box.witness import Witness
from graders.scenes.around import AXES, Around, on_a_leaf, two_outputs
from graders.scenes.given import Arguments
from graders.scenes.scene import Sections, family
from graders.scenes.worlds import put_on
from graders.wire.draws import Rng


@family(
    sections=(
        "{task}",
        "{passes}",
        "the gradient can be differentiated again",
        "any tensor and several at a time",
        "nothing else changes",
        "the handle removes the hook and no other",
    ),
    axes=AXES,
)
def changes_gradient(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    arguments: Arguments,
    special: Sequence[tuple[Any, ...]] = (),
    shape: Callable[[Rng, Any], Sequence[int]] = lambda rng, case: rng.shape(case.rank),
    handles_in_a_list: bool = False,
) -> None:
    """For a function that changes the gradient which arrives at `t`, before it goes on, and returns a handle.

    Each of `special` is tried on a leaf of its own.
    """
    changed, passes, graph, several, same, handles = seen.values()
    around, calls = Around(rng, case, shape(rng, case)), list[str]()
    x, t, (first, second) = around.x, around.t, around.factors
    args, others = (arguments(rng, case, x, calls) for _ in range(2))
    alone = nn.Parameter(torch.ones_like(x))
    before = around.witness(*args)
    handle = call(t, *args)
    same["changed"] = before.changes()
    with torch.no_grad():
        surroundings = Witness()
        its_own = call(alone, *others)
        same["changed under no_grad"] = surroundings.changes()
    around.passes(changed, passes, graph, same)
    passes["calls of the functions"] = calls[:50]

    torch.autograd.backward((alone * first).sum(), inputs=[alone])
    several["the gradient of a second tensor"] = alone.grad
    if case.place != "parameter":
        of_two = two_outputs(lambda last: call(last, *args), rng)
        several["the gradient of one of two outputs"], several["the gradient of the other"] = of_two
    for which in special:
        several[f"a parameter, with {', '.join(map(str, which))}"] = on_a_leaf(call, which)

    again = call(t, *others)
    around.note("with two hooks", lambda: (t * second).sum(), several, same)
    remove, what = (_all_removed, "is a list of handles") if handles_in_a_list else (removed, "has remove()")
    for name, one in (("the first", handle), ("the second", again), ("the one under no_grad", its_own)):
        handles[f"what {name} call returned {what}"] = remove(one)
        around.note(f"after remove() of {name}", lambda: (t * first).sum(), handles, same)
    handles["changed after remove()"] = [change for change in before.changes() if not change[0].startswith("grad-")]


@family(
    sections=(
        "the values stay and the gradient is reversed",
        "only what passes through y is reversed",
        "every call and every pass reverses",
        "the gradient can be differentiated again",
        "other tensors have their usual gradient",
        "x is left as it was",
        "without gradients the values come back",
    ),
    axes=AXES | {"number": ("fraction", "large"), "collection": (), "hooks": ("none", "watching", "replacing")},
)
def passes_on(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections, arguments: Arguments) -> None:
    """For a function that returns the values of `x`, and changes the gradient on its way from there to `x`."""
    changed, ways, passes, graph, others, same, without = seen.values()
    around = Around(rng, case, rng.shape(case.rank))
    x, t, (k, m) = around.x, around.t, around.factors
    args, more = (arguments(rng, case, x, []) for _ in range(2))
    before = around.witness()
    y = call(t, *args)
    same["changed"] = before.changes()
    changed["y"], changed["y is x itself"] = snapshot(y), y is t
    (changed["x.grad of the first pass"],) = torch.autograd.grad(y, [x], k, retain_graph=True, allow_unused=True)
    kept = call(-t, *more)
    w = torch.ones_like(x).requires_grad_()
    torch.autograd.backward((y * w).sum(), inputs=[w], retain_graph=True)
    others["the gradient of a tensor that is multiplied by y"] = w.grad
    both = (y * k).sum() + (t * m).sum()
    for name, where in (("of two ways", ways), ("of another pass through the same y", passes)):
        (where[f"x.grad {name}"],) = torch.autograd.grad(both, [x], retain_graph=True, allow_unused=True)
    ways["the gradient of one of two outputs"], others["the gradient of the other"] = two_outputs(
        lambda last: call(last, *args), rng
    )
    around.passes(changed, passes, graph, others, lambda: call(t, *args))
    del kept
    small = torch.tensor([1e-6, -3e-7], requires_grad=True)
    changed["y of small values"] = snapshot(call(small, *args))

    plain = x.detach().clone()
    with torch.no_grad():
        inside = around.witness()
        y, without["an error under no_grad"] = _result(call, t, *args)
        without["y under no_grad"], without["changed under no_grad"] = snapshot(y), inside.changes()
        without["y under no_grad has a graph"] = y is not t and getattr(y, "grad_fn", None) is not None
    y, without["an error where x requires no grad"] = _result(call, plain, *args)
    without["y of a tensor that requires no grad"] = snapshot(y)
    without["it requires grad"] = getattr(y, "requires_grad", None)


@family(
    sections=(
        "the log holds both gradients",
        "the clipped gradient goes on",
        "the gradient that goes on keeps its graph",
        "the dict is new and empty",
        "the entries are copies without a graph",
        "any tensor is clipped before the hooks that came later",
        "each call has a log of its own",
        "nothing else changes",
    ),
    axes=AXES | {"collection": ()},
)
def logs_gradients(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    arguments: Arguments,
    special: Sequence[tuple[Any, ...]] = (),
) -> None:
    """For a function that changes a gradient, and returns a dict which holds it before and after."""
    logged, changed, graph, empty, copies, tensors, several, same = seen.values()
    around = Around(rng, case, rng.shape(case.rank))
    t, (first, second) = around.t, around.factors
    args, others = (arguments(rng, case, t, []) for _ in range(2))
    alone, before = nn.Parameter(torch.ones_like(t)), around.witness()
    log = call(t, *args)
    empty["the dict at first"], same["changed"] = _copied(log), before.changes()
    with torch.no_grad():
        surroundings = Witness()
        its_log = call(alone, *others)
        empty["the dict of a second tensor, at first"] = _copied(its_log)
        same["changed under no_grad"] = surroundings.changes()
    went_on, entries = list[Tensor](), list[Any]()
    put_on(t, went_on.append)

    def after(name: str) -> None:
        logged[f"the dict {name}"] = _copied(log)
        held = {f"an entry of the pass before ({index})": entry for index, entry in enumerate(entries)}
        copies[f"shared memory {name}"] = _shared(log, {"the gradient that went on": went_on[-1], **held})
        entries[:] = log.values() if isinstance(log, dict) else []

    around.passes(changed, changed, graph, same, after=after)
    copies["the entries of create_graph=True"] = entries
    tensors["the gradient of one of two outputs"], same["the gradient of the other"] = two_outputs(
        lambda last: call(last, *args), rng
    )
    for which in special:
        tensors[f"a parameter, with {', '.join(map(str, which))}"] = on_a_leaf(call, which)
    torch.autograd.backward((alone * first).sum(), inputs=[alone])
    several["the dict of a second tensor"], several["its gradient"] = _copied(its_log), alone.grad
    inner = call(t, *others)
    empty["the dict of a second call for the same tensor, at first"] = _copied(inner)
    around.note("of two calls", lambda: (t * second).sum(), several, same)
    several["the dict of the second call"], several["the dict of the first"] = _copied(inner), _copied(log)
    same["changed in the end"] = [change for change in before.changes() if not change[0].startswith("grad-")]


def _result(call: Callable[..., Any], *args: Any) -> tuple[Any, str]:
    """What a call returns, and what it raises: all that showed before it is shown, too."""
    try:
        return call(*args), "none"
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:200]


def _all_removed(handles: Any) -> bool:
    """Call `remove()` of every handle in a list; False when it is no list of handles."""
    return isinstance(handles, list) and all_removed(handles)


def _copied(log: Any) -> Any:
    """Copies of what a dict holds now; any other value as it is."""
    return {key: snapshot(value) for key, value in log.items()} if isinstance(log, dict) else log


def _shared(log: Any, others: dict[str, Tensor | None]) -> list[str]:
    """In sentences, which entries of a log look at the memory of another tensor, or of each other."""
    entries = log if isinstance(log, dict) else {}
    others = others | {f'the entry "{key}"': entry for key, entry in list(entries.items())[1:]}
    pairs = [(key, name, t) for key in entries for name, t in others.items() if key not in name]
    return [f'"{key}" shares its memory with {name}' for key, name, t in pairs if shares_storage(entries[key], t)]
