"""Scenes for functions that change the gradient of one tensor with hooks."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy, remove_all_handles, remove_handle, shares_storage
from graders.scenes.around import AXES, NUMBERS, PASSES, TensorSurroundings
from graders.scenes.given import Arguments
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value
from graders.scenes.scene import Call, Sections, family
from graders.scenes.worlds import register_hooks
from graders.wire.draws import Rng


@family(
    sections=(
        "{task}",
        "{log}",
        "{passes}",
        "the gradient can be differentiated again",
        "any tensor and several at a time",
        "{copies}",
        "nothing else changes",
        "{handles}",
    ),
    axes={**AXES, "number": NUMBERS, "backward": PASSES},
)
def changes_gradient(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    arguments: Arguments,
    special: Sequence[tuple[Any, ...]] = (),
    shape: Callable[[Rng, Any], Sequence[int]] = lambda rng, case: rng.shape(case.rank),
    returns: str = "a handle",
) -> None:
    """For a function that changes the gradient that arrives at `t` before it flows on.

    `returns` is what the function returns: "a handle", "a list of handles", or "a log", a dict with the gradient before
    and after. Each of the arguments in `special` is tried on a leaf of its own.
    """
    changed, logged, passes, graph, several, copies, same, handles = seen.values()
    around, calls = TensorSurroundings(rng, case, shape(rng, case)), list[str]()
    x, t, (first, second) = around.x, around.t, around.factors
    args, others = (arguments(rng, case, x, calls) for _ in range(2))
    alone = nn.Parameter(torch.ones_like(x))
    before = around.witness(*args)
    handle = call(t, *args)
    same["changed"], logged["at first"] = before.changes(), copy_value(handle)
    call(alone, *others)  # the result is not kept
    went_on, elsewhere, entries = list[Tensor](), list[Tensor](), dict[str, Any]()
    if returns == "a log":
        register_hooks(t, went_on.append)
        register_hooks(around.neighbour, elsewhere.append)  # the same tensor arrives there

    def after(name: str) -> None:
        if isinstance(handle, dict):
            logged[name] = copy_value(handle)
            held = {f"an entry of the pass before ({index})": entry for index, entry in enumerate(entries.values())}
            held |= {"the gradient that went on": went_on[-1], "that of another tensor": elsewhere[-1]}
            copies[f"shared memory {name}"] = _shared_memory(handle, held)
            entries.update(handle)

    around.passes(changed, passes, graph, same, after=after)
    passes["calls of the functions"], copies["the entries of create_graph=True"] = calls[:50], entries

    torch.autograd.backward((alone * first).sum(), inputs=[alone])
    several["the gradient of a second tensor"] = alone.grad
    for which in special:
        leaf = nn.Parameter(torch.ones(5))
        its_handle = call(leaf, *copy.deepcopy(which))
        torch.autograd.backward((torch.tensor([3.0, 0.7, -0.7, 1e4, -1e4]) * leaf).sum())
        given = ", ".join(map(str, which))
        several[f"the gradient of a parameter, with {given}"] = leaf.grad
        several[f"what a call with {given} returned has remove()"] = hasattr(its_handle, "remove")

    with torch.no_grad():
        surroundings = Witness()
        again = call(t, *others)
        same["changed under no_grad"] = surroundings.changes()
    around.note_gradients("with two hooks", lambda: (t * second).sum(), several, same)
    logged["of two calls for one tensor"] = [copy_value(handle), copy_value(again)]
    for name, one in (("the first", handle), ("the second", again)):
        is_right = (
            isinstance(one, list) and remove_all_handles(one) if returns == "a list of handles" else remove_handle(one)
        )
        handles[f"what {name} call returned is {returns}"] = is_right
        around.note_gradients(f"after remove() of {name}", lambda: (t * first).sum(), handles, same)
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
    axes={**AXES, "number": ("fraction", "large"), "backward": PASSES},
)
def reverses_gradient(call: Call, rng: Rng, case: Any, seen: Sections, arguments: Arguments) -> None:
    """For a function that returns the values of `x`, and changes the gradient on its way from there to `x`."""
    changed, ways, passes, graph, others, same, without = seen.values()
    around = TensorSurroundings(rng, case, rng.shape(case.rank))
    x, t, (k, m) = around.x, around.t, around.factors
    args, more = (arguments(rng, case, x, []) for _ in range(2))
    before = around.witness()
    y = call(t, *args)
    same["changed"] = before.changes()
    _kept = call(-t, *more)
    changed["y"], changed["y is x itself"] = detached_copy(y), y is t
    (changed["x.grad of the first pass"],) = torch.autograd.grad(y, [x], k, retain_graph=True, allow_unused=True)
    both = (y * k).sum() + (t * m).sum()
    for name, where in (("of two ways", ways), ("of another pass through the same y", passes)):
        (where[f"x.grad {name}"],) = torch.autograd.grad(both, [x], retain_graph=True, allow_unused=True)
    around.passes(changed, passes, graph, others, lambda: call(t, *args))
    changed["y of small values"] = detached_copy(call(torch.tensor([1e-6, -3e-7], requires_grad=True), *args))

    plain = x.detach().clone()
    with torch.no_grad():
        inside = around.witness()
        y, without["an error under no_grad"] = _result_and_error(call, t, *args)
        without["y under no_grad"], without["changed under no_grad"] = detached_copy(y), inside.changes()
        without["y under no_grad has a graph"] = y is not t and getattr(y, "grad_fn", None) is not None
    y, without["an error where x requires no grad"] = _result_and_error(call, plain, *args)
    without["y of a tensor that requires no grad"] = detached_copy(y)
    without["it requires grad"] = getattr(y, "requires_grad", None)


def _result_and_error(call: Call, *args: Any) -> tuple[Any, str]:
    """The result of a call, and its exception as text, so that earlier observations are kept if it raises."""
    try:
        return call(*args), "none"
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:200]


def _shared_memory(log: dict[str, Any], others: dict[str, Any]) -> list[str]:
    """Sentences that say which entries of a log share memory with another tensor or with each other."""
    others = others | {f'the entry "{key}"': entry for key, entry in list(log.items())[1:]}
    pairs = [(key, name, t) for key in log for name, t in others.items() if key not in name]
    return [f'"{key}" shares its memory with {name}' for key, name, t in pairs if shares_storage(log[key], t)]
