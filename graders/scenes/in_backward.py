"""Scenes for functions that act, or record, while `backward()` runs: on each leaf at once, or on all together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.box.passes import abort
from graders.box.probing import all_removed, removed, snapshot
from graders.box.tensors import laid_out, prepared
from graders.box.witness import Witness
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng

RETURNED = ("hooks should return None", "but hook returned", "has changed the size of", "has changed the type of")
"""What torch says of a hook that returns something, by what it returns."""
ALIKE = {
    "dtype": ("float32", "float64"),
    "layout": ("contiguous", "transposed"),
    "hooks": ("none", "watching", "replacing"),
    "backward": ("plain", "create_graph"),
}
"""Axes of all scenes."""
State = dict[str, Any]
Params = Sequence[Tensor]


class _Net(nn.Module):
    """Parameters of its own, of a layer, and of a layer five levels deep."""

    def __init__(self, rng: Rng, case: Any) -> None:
        super().__init__()
        self.scale = _parameter(rng, case, *rng.shape(case.rank))
        self.layer = nn.Linear(3, 2)
        self.deep: nn.Module = nn.Linear(2, 3, bias=False)
        for module in (self.layer, self.deep):
            for name, p in list(module.named_parameters()):
                setattr(module, name, _parameter(rng, case, *p.shape))
        for _ in range(4):
            self.deep = nn.Sequential(self.deep)


def _parameter(rng: Rng, case: Any, *shape: int, grad: str = "empty") -> Tensor:
    t = rng.tensor(*shape, dtype=case.dtype, low=0.25, high=2, values="full")
    return prepared(t, layout=case.layout if len(shape) > 1 else "contiguous", place="parameter", grad=grad)


def _loss(params: Params, factors: Params) -> Tensor:
    """Each parameter is used twice, and the gradient of the last one is complete first."""
    total = torch.zeros((), dtype=params[0].dtype)
    for p, factor in zip(params, factors):
        total = total + (factor * p).sum() + (factor * p * p).sum() / 64
    return total


def _factors(rng: Rng, params: Params) -> list[Tensor]:
    return [rng.tensor(*p.shape, dtype=p.dtype, values="full") for p in params]


def _run(rng: Rng, params: Params, way: str = "plain", size: float = 1.0) -> str:
    """A pass, and whether it ended well."""
    loss = _loss(params, [size * factor for factor in _factors(rng, params)])
    return _ended(partial(torch.autograd.backward, loss, create_graph=way == "create_graph"))


def _ended(run: Callable[[], Any]) -> str:
    """What a hook ran into: a `.grad` of None. Several mistakes lead there, and what shows besides tells them apart.

    That a hook returned something is one error, however torch says it.
    """
    try:
        run()
    except (TypeError, AttributeError, RuntimeError) as error:
        if any(words in str(error) for words in RETURNED):
            raise RuntimeError(f"Tensor post accumulate grad {RETURNED[0]}") from error
        if "NoneType" not in str(error):
            raise
        return "a hook used a `.grad` that was `None`"
    return "no error"


def _settings_behind(p: Tensor) -> list[Any]:
    """How torch's settings are not those of now in a hook of the caller behind all others."""
    now, found, register = Witness(), list[Any](), cast(Any, p.register_post_accumulate_grad_hook)
    register(lambda _: found.extend(now.changes()))
    return found


def _grads(net: nn.Module) -> State:
    return {name: snapshot(p.grad) for name, p in net.named_parameters()}


def a_model_and_a_rate(net: nn.Module, rng: Rng) -> tuple[Any, ...]:
    """A learning rate that float32 does not hold, or one above 1."""
    return net, rng.choice((0.07, 0.15, 0.3, 1.1))


def values_and_handles(result: Any, net: nn.Module) -> tuple[State, Any]:
    """For a function that moves parameters: their values; and what it returned."""
    return {name: snapshot(p) for name, p in net.named_parameters()}, result


def most_parameters(net: nn.Module, rng: Rng) -> tuple[Any, ...]:
    """A list of all but one, in any order."""
    params = rng.shuffled(list(net.parameters()))
    return ([p for p in params if p.dim() != 1],)


def sums_and_handles(result: Any, net: nn.Module) -> tuple[State, Any]:
    """For a function that returns a dict by parameter and handles. A sum of zeros may as well be missing."""
    sums, handles = result if isinstance(result, tuple | list) and len(result) == 2 else (result, None)
    if not isinstance(sums, dict):
        return {"the dict": sums}, handles
    by_id = {id(key): total for key, total in sums.items()}
    found = {name: _as_exact_as(p, by_id.get(id(p))) for name, p in net.named_parameters()}
    state = {name: total for name, total in found.items() if total is not None}
    return {**state, "all keys are tensors": all(isinstance(key, Tensor) for key in sums)}, handles


def _as_exact_as(p: Tensor, total: Any) -> Any:
    """The dtype of a sum, and the sum as far as the dtype of the parameter goes; None for zeros."""
    if not isinstance(total, Tensor):
        return total
    return [str(total.dtype), total.detach().to(p.dtype, copy=True)] if total.any() else None


@family(
    sections=(
        "{every pass}",
        "no gradient is left",
        "{special}",
        "{a part}",
        "{a second}",
        "autograd grad {is nothing}",
        "nothing else changes",
        "the handles remove the hooks",
    ),
    axes={**ALIKE, "rank": (0, 3)},
)
def acts_on_each(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    give: Callable[[nn.Module, Rng], tuple[Any, ...]],
    read: Callable[[Any, nn.Module], tuple[State, Any]],
    special: Callable[..., None],
) -> None:
    """For a function that uses the gradient of each parameter as soon as it is complete, and frees it.

    It is called with `give(net, rng)`; `read(result, net)` is the state that it keeps, and its handles. What
    `special(call, rng, case, section)` notes is a section by itself.
    """
    every, left, own, part, several, asked, same, handles = seen.values()
    net, other = _Net(rng, case), _Net(rng, case).eval()
    params, others = list(net.parameters()), list(other.parameters())
    CallersHooks(case.hooks).on_parameter(params[0], "scale")
    memory = {name: p.detach() for name, p in net.named_parameters()}
    given, given_too = give(net, rng), give(other, rng)
    before = Witness(model=net, params=given[0], other=other)
    result, result_too = call(*given), call(*given_too)
    same["changed"], in_a_later_hook = before.changes(), _settings_behind(params[0])
    for number in (1, 2, 3):
        every[f"pass {number}"] = _run(rng, params, case.backward)
        every[f"after pass {number}"], left[f".grad after pass {number}"] = read(result, net)[0], _grads(net)
    same["changed in a later hook"] = list(in_a_later_hook)
    _run(rng, params, size=100.0)
    every["after a large gradient"] = read(result, net)[0]
    every["the parameters, in their old memory"] = {name: snapshot(t) for name, t in memory.items()}
    asked["error"] = _ended(lambda: torch.autograd.grad(_loss(params, _factors(rng, params)), params))
    asked["afterwards"], asked[".grad"] = read(result, net)[0], _grads(net)
    special(call, rng, case, own)
    for which in (slice(1, 3), slice(2, 4)):
        *factors, last = _factors(rng, params[which])
        _ended(_loss(params[which], [*factors, 0 * last]).backward)
        part[f"after a pass through {which.start} and the next"] = read(result, net)[0]
        left[f".grad after a pass through {which.start} and the next"] = _grads(net)

    _run(rng, [*params, *others])
    with _inside(params[1], rng, others, 0.5):
        _run(rng, params)
    several["the first"], several["the second"] = read(result, net)[0], read(result_too, other)[0]
    several["the second in what the first returned"] = read(result, other)[0]
    same["changed in the end"] = before.changes()
    if _handles_of_one(rng, other, read, result_too, handles):
        another = call(*give(other, rng))
        _run(rng, others)
        handles["after another call"], handles["what it left"] = read(another, other)[0], read(result_too, other)[0]
    _run(rng, params)
    handles["the first, which goes on"] = read(result, net)[0]

    _ended(lambda: abort(lambda: _loss(params, _factors(rng, params)), params[0]))  # the others have arrived
    net.zero_grad()
    _run(rng, params)
    part["after a stopped pass"], left[".grad after a stopped pass"] = read(result, net)[0].get("scale"), _grads(net)
    returned = read(result, net)[1]
    one_is_gone = isinstance(returned, list) and len(returned) > 1 and removed(returned[0])
    net.zero_grad()
    _run(rng, params)
    handles["some go on when one is removed"] = any(p.grad is None for p in params) or not one_is_gone


def _inside(at: Tensor, rng: Rng, params: Params, times: float) -> Any:
    """A later hook of the caller at a tensor: it runs a pass, and multiplies the gradient. It goes with its context."""

    def hook(grad: Tensor) -> Tensor:
        with torch.enable_grad():
            _run(rng, params)
        return grad * times

    return cast(Any, at.register_hook)(hook)


def _handles_of_one(rng: Rng, net: nn.Module, read: Callable[..., Any], result: Any, handles: State) -> bool:
    """All handles are removed, and a pass follows. Whether they were."""
    _, returned = read(result, net)
    handles["a list of handles"] = gone = isinstance(returned, list) and all_removed(returned)
    net.zero_grad()
    _run(rng, list(net.parameters()))
    all_removed(returned)  # once more
    handles["after remove()"], handles[".grad after remove()"] = read(result, net)[0], _grads(net)
    net.zero_grad()
    return gone


def with_a_tied_parameter(call: Callable[..., Any], rng: Rng, case: Any, section: State) -> None:
    """Two layers share their weight."""
    model: Any = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    weight = model[0].weight = model[1].weight = nn.Parameter(rng.tensor(2, 2, dtype=case.dtype, values="full"))
    handles = call(model, 0.1)
    for number in (1, 2):
        section[f"pass {number}"] = _run(rng, [module.weight for module in model])
        section[f"the weight after pass {number}"] = snapshot(weight)
    section["a list of handles"] = isinstance(handles, list)


def in_float64(call: Callable[..., Any], rng: Rng, case: Any, section: State) -> None:
    """Two equal parameters; small gradients between and after large ones that take each other away."""
    pair: Any = nn.ParameterDict({name: torch.ones(2, dtype=getattr(torch, case.dtype)) for name in "pq"})
    result = call(list(pair.values()))
    small = rng.tensor(2, dtype=case.dtype, high=1.75, low=-2)
    for factor, p in ((2.0**25, "pq"), (small, "p"), (-(2.0**25), "pq"), (2.0**-40 * small, "q")):
        _ended(sum((factor * pair[name]).sum() for name in p).backward)
    section["the sums"] = sums_and_handles(result, pair)[0]


@family(
    sections=(
        "the joint norm is clipped once all have arrived",
        "the next pass accumulates and is clipped again",
        "a small gradient stays as it is",
        "the norm is joint over all entries",
        "a second list is clipped by itself",
        "nothing else changes",
        "the handles remove the hooks",
    ),
    axes={**ALIKE, "rank": (0, 1, 2, 3), "grad": ("empty", "filled"), "number": ("fraction", "large")},
)
def acts_on_all(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections) -> None:
    """For a function of a list of parameters and a bound, which changes all `.grad` when the last one is written."""
    first, later, small, entries, second, same, handles = seen.values()
    shapes = rng.shuffled([(3,), (2, 4), (), rng.shape(case.rank)])
    params, others = ([_parameter(rng, case, *shape, grad=grad) for shape in shapes] for grad in (case.grad, "empty"))
    CallersHooks(case.hooks).on_parameter(params[0], "params[0]")
    outside = torch.ones(3, dtype=params[0].dtype, requires_grad=True)
    scale = 0.375 if case.number == "fraction" else 150.0
    bound = scale * rng.choice((1.25, 1.5, 1.75))
    given, given_too = list(params), list(others)
    before = Witness(params=given, others=given_too)
    result, result_too = call(given, bound), call(given_too, 2 * bound)
    same["changed"], in_a_later_hook = before.changes(), _settings_behind(params[0])

    def grads(params: Params, size: float = 1.0, *, clear: bool = False) -> list[Any]:
        """What is in `.grad` after a pass in which they arrive in any order."""
        _ended(lambda: torch.autograd.grad(_loss(params, params), params[:3]))
        for p in params if clear else ():
            p.grad = None
        order = rng.shuffled(params)
        loss = _loss([*order, outside], [factor * size * scale for factor in _factors(rng, [*order, outside])])
        error = _ended(partial(torch.autograd.backward, loss, create_graph=case.backward == "create_graph"))
        return [error, *map(_clipped, params)]

    first["p.grad of all"] = grads(params)
    same["changed in a later hook"] = list(in_a_later_hook)
    later["p.grad after a second pass"] = grads(params)
    small["p.grad after a small pass"] = grads(params, 2**-12, clear=True)
    small["p.grad after a pass with zeros"] = grads(params, 0.0, clear=True)
    later["p.grad after it was cleared"] = grads(params, clear=True)
    entries["p.grad of entries below the bound"] = _with_gradients(call, bound, [[bound / 2] * 16, [0.0]])
    entries["p.grad just above the bound"] = _with_gradients(call, 0.4975, [[0.3], [0.4]])
    second["p.grad in a pass of both"] = grads([*params, *others], clear=True)
    for p in others:
        p.grad = None
    with _inside(params[1], rng, others, 0.5):
        second["p.grad around a pass of the second"] = grads(params, clear=True)
    second["p.grad of the second"] = list(map(_clipped, others))
    same["the gradient outside"] = snapshot(outside.grad)
    same["changed in the end"] = [change for change in before.changes() if not change[0].startswith("grad-")]
    handles["a list of handles"] = isinstance(result_too, list) and all_removed(result_too)
    handles["p.grad of the second"] = grads(others, clear=True)
    handles["p.grad of the first, which is clipped on"] = grads(params, clear=True)
    result_too = call(list(others), bound / 2)
    handles["p.grad after another call"] = grads(others, clear=True)
    del result, result_too


def _clipped(p: Tensor) -> Any:
    """`.grad` as far as it is the same for all who clip: torch adds a millionth to the norm before it divides by it."""
    if not isinstance(p.grad, Tensor):
        return p.grad
    return [p.grad.detach().to(torch.float32, copy=True), str(p.grad.dtype), p.grad.requires_grad]


def _with_gradients(call: Callable[..., Any], bound: float, gradients: Sequence[Sequence[float]]) -> list[Any]:
    params: list[Tensor] = [nn.Parameter(torch.zeros(len(gradient))) for gradient in gradients]
    handles = call(list(params), bound)
    loss = (torch.cat([torch.tensor(gradient) for gradient in gradients]) * torch.cat(params)).sum()
    _ended(loss.backward)
    del handles
    return list(map(_clipped, params))


@family(
    sections=(
        "each pass appends its own norm and that of the total",
        "every pass counts",
        "the total follows when the caller clears it",
        "each call has a list of its own",
        "the pass is not a difference of totals",
        "the total is what a later hook left",
        "the flow is unchanged",
    ),
    axes={**ALIKE, "rank": (0, 1, 2, 3), "place": ("leaf", "parameter"), "grad": ("empty", "filled")},
    impossible=(lambda rank, layout: layout == "transposed" and rank < 2,),
)
def records_each_pass(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections) -> None:
    """For a function that returns a list at once, to which each pass through a leaf appends texts with numbers.

    All lists are shown with their numbers as tensors: they are as exact as the dtype of the leaf.
    """
    each, counts, cleared, own, difference, later, same = seen.values()
    shape = rng.shape(case.rank)
    values, x, *factors = (rng.tensor(*shape, dtype=case.dtype, values="full") for _ in range(5))
    p = prepared(values, layout=case.layout, place=case.place, grad=case.grad)
    q = prepared(values)
    neighbour = (-x).requires_grad_()
    CallersHooks(case.hooks).on_parameter(p, "p")
    before = Witness(p=p, q=q, factors=factors)
    log, log_of_q, again = call(p), call(q), call(p)
    each["the list at once"] = _entries(log, p)
    same["changed"] = before.changes()

    def run(t: Tensor, factor: Tensor, way: str = "plain") -> None:
        loss = (laid_out(factor, case.layout) * (t + neighbour)).sum()
        torch.autograd.backward(loss, create_graph=way == "create_graph")

    for factor in (factors[0], factors[0], factors[1]):
        run(p, factor, case.backward)
    each["the list after three passes"], same["p.grad after three passes"] = _entries(log, p), _graph(p.grad)
    own["the list of another one"] = _entries(log_of_q, q)
    p.grad = None
    run(p, factors[2])
    run(p, -factors[2])
    cleared["the list after two passes more"] = _entries(log, p)[6:]
    run(p, 0 * factors[0])
    run(p, 1e-9 * factors[0])
    counts["the list after passes with zeros, and almost zeros"] = _entries(log, p)[10:]
    own["the list of a second call"] = _entries(again, p)
    same["p.grad after seven passes"], same["the neighbour's gradient"] = snapshot(p.grad), snapshot(neighbour.grad)

    q.grad = large = torch.full_like(q, 2.0**27)
    run(q, factors[0])
    difference["the list beside a large p.grad"] = _entries(log_of_q, q)
    same["p.grad is the same tensor"] = q.grad is large
    with _inside(p, rng, [q], 1.0):
        run(p, factors[1])
    own["the list of another one, in a pass inside a pass"] = _entries(log_of_q, q)[2:]
    own["the list around it"] = _entries(log, p)[14:]
    own["the second call made another list"] = again is not log
    with _inside(p, rng, [q], 0.5):
        run(p, factors[1])
    later["the last entry"] = _entries(log, p)[-1:]
    for _ in range(50):
        run(p, factors[2])
    counts["the number of entries after many passes"] = len(log) if isinstance(log, list) else 0
    same["changed in the end"] = before.changes()


def _graph(grad: Tensor | None) -> Any:
    return [snapshot(grad), grad is not None and grad.requires_grad]


def _entries(log: Any, p: Tensor) -> list[Any]:
    if not isinstance(log, list):
        return [f"{type(log).__name__}, and no list"]
    return [_entry(entry, p) for entry in log[:60]]


def _entry(entry: Any, p: Tensor) -> Any:
    """The text, the type of the number, and the number."""
    if not isinstance(entry, tuple) or len(entry) != 2:
        return [f"a {type(entry).__name__}, and no tuple of two", "", None]
    label, number = entry
    return [label, type(number).__name__, torch.tensor(number, dtype=p.dtype) if type(number) is float else None]
