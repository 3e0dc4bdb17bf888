"""Scenes for functions that act or record while `backward()` runs: on each leaf in turn, or on all together."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy, remove_all_handles
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import two_parts
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng

ALIKE = {
    "dtype": ("float32", "float64"),
    "hooks": ("none", "watching", "replacing"),
    "backward": ("plain", "create_graph"),
}
"""The axes of all scenes in this file."""
State = dict[str, Any]
Params = Sequence[Tensor]


class _Net(nn.Module):
    """Has a parameter of its own, two layers that share a weight, and a layer three levels deep."""

    def __init__(self, rng: Rng, case: Any) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(rng.shape(case.rank)))
        self.layer, self.tied = nn.Linear(3, 2), nn.Linear(3, 2, bias=False)
        self.tied.weight = self.layer.weight
        self.deep = nn.Sequential(nn.Sequential(nn.Linear(2, 3, bias=False)))
        for p in self.parameters():
            p.data = rng.tensor(*p.shape, dtype=case.dtype, low=0.25, high=2, values="full")


def _run_pass(rng: Rng, params: Params, way: str = "plain", size: float = 1.0) -> str:
    """Run a pass that uses each parameter twice, and completes the last one's gradient first; returns how it ended."""
    total = torch.zeros((), dtype=params[0].dtype)
    for p in params:
        factor = size * rng.tensor(*p.shape, dtype=p.dtype, values="full")
        total = total + (factor * p).sum() + (factor * p * p).sum() / 64
    return _describe_end(lambda: torch.autograd.backward(total, create_graph=way == "create_graph"))


def _describe_end(run: Callable[[], Any]) -> str:
    """How a pass ended. Several mistakes make a hook use a `.grad` of None; other observations tell them apart."""
    try:
        run()
    except (TypeError, AttributeError, RuntimeError) as error:
        if "NoneType" not in str(error):
            raise
        return "a hook used a `.grad` that was `None`"
    return "no error"


def _run_autograd_grad(params: Params) -> str:
    """Run `torch.autograd.grad`, which writes no `.grad`; returns how it ended."""
    return _describe_end(lambda: torch.autograd.grad(torch.stack([(p * p).sum() for p in params]).sum(), params))


def _named_grads(net: nn.Module) -> State:
    return {name: detached_copy(p.grad) for name, p in net.named_parameters()}


def a_model_and_a_rate(net: nn.Module, rng: Rng) -> tuple[Any, ...]:
    """The net, and a learning rate that float32 cannot hold, or one above 1."""
    return net, rng.choice((0.07, 0.15, 0.3, 1.1))


def values_and_handles(result: Any, net: nn.Module) -> tuple[State, Any]:
    """For a function that changes parameters: their values, and what it returned."""
    return {name: detached_copy(p) for name, p in net.named_parameters()}, result


def most_parameters(net: nn.Module, rng: Rng) -> tuple[Any, ...]:
    """A list of all parameters but one, in random order."""
    return ([p for p in rng.shuffled(list(net.parameters())) if p.dim() != 1],)


def sums_and_handles(result: Any, net: nn.Module) -> tuple[State, Any]:
    """For a function that returns a dict with a sum per parameter, and handles. A sum of zeros may also be missing."""
    sums, handles = two_parts(result)
    if not isinstance(sums, dict):
        return {"the dict": sums}, handles
    by_id = {id(key): total for key, total in sums.items()}
    found = {name: _comparable_sum(p, by_id.get(id(p))) for name, p in net.named_parameters()}
    state = {name: total for name, total in found.items() if total is not None}
    return {**state, "all keys are tensors": all(isinstance(key, Tensor) for key in sums)}, handles


def _comparable_sum(p: Tensor, total: Any) -> Any:
    """The dtype of a sum, and the sum with the precision of the parameter; None for zeros."""
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
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    give: Callable[[nn.Module, Rng], tuple[Any, ...]],
    read: Callable[[Any, nn.Module], tuple[State, Any]],
    special: Callable[..., Any] = lambda *args: None,
) -> None:
    """For a function that uses the gradient of each parameter as soon as it is complete, and frees it.

    It is called with `give(net, rng)`; `read(result, net)` returns the state that it keeps, and its handles.
    `special(call, rng, case)` returns the content of a section of its own.
    """
    every, left, own, part, several, asked, same, handles = seen.values()
    net, other = _Net(rng, case), _Net(rng, case).eval()
    params, others = list(net.parameters()), list(other.parameters())
    CallersHooks(case.hooks).on_parameter(params[0], "scale")
    memory = {name: p.detach() for name, p in net.named_parameters()}
    given, given_too = give(net, rng), give(other, rng)
    before = Witness(model=net, params=given[0], other=other)
    result, result_too = call(*given), call(*given_too)
    same["changed"] = before.changes()
    for number in (1, 2, 3):
        every[f"pass {number}"] = _run_pass(rng, params, case.backward)
        every[f"after pass {number}"], left[f".grad after pass {number}"] = read(result, net)[0], _named_grads(net)
    every["the parameters, in their old memory"] = {name: detached_copy(t) for name, t in memory.items()}
    asked["error"] = _run_autograd_grad(params)
    asked["afterwards"], asked[".grad"] = read(result, net)[0], _named_grads(net)
    own["afterwards"] = special(call, rng, case)
    for which in ([params[3], params[1]], params[1:3]):  # the gradient of the second arrives first
        _describe_end(lambda: torch.autograd.backward((which[0] * which[0]).sum() + 0 * which[1].sum()))  # noqa: B023
        part[f"after pass {len(part) + 1} through two of them"] = read(result, net)[0]
        left[f".grad after pass {len(left) + 1}"] = _named_grads(net)
    _run_pass(rng, [*params, *others])
    several["the first"], several["the second"] = read(result, net)[0], read(result_too, other)[0]
    several["the second in what the first returned"] = read(result, other)[0]
    same["changed in the end"] = before.changes()

    returned = read(result_too, other)[1]
    handles["a list of handles"] = isinstance(returned, list) and remove_all_handles(returned)
    other.zero_grad()
    _run_pass(rng, others)
    handles["after remove()"], handles[".grad after remove()"] = read(result_too, other)[0], _named_grads(other)
    _run_pass(rng, params)
    handles["the first, which still works"] = read(result, net)[0]


def in_float64(call: Call, rng: Rng, case: Any) -> State:
    """Try two equal parameters, with small gradients between and after large ones that cancel each other."""
    pair: Any = nn.ParameterDict({name: torch.ones(2, dtype=getattr(torch, case.dtype)) for name in "pq"})
    result = call(list(pair.values()))
    small = rng.tensor(2, dtype=case.dtype, high=1.75, low=-2)
    for factor, p in ((2.0**25, "pq"), (small, "p"), (-(2.0**25), "pq"), (2.0**-40 * small, "q")):
        _describe_end(sum((factor * pair[name]).sum() for name in p).backward)
    return sums_and_handles(result, pair)[0]


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
def acts_on_all(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a function of a list of parameters and a bound, which changes all `.grad` once the last one is written."""
    first, later, small, entries, second, same, handles = seen.values()
    shapes = rng.shuffled([(3,), (2, 4), (), rng.shape(case.rank)])
    params, others = (
        [
            prepare_tensor(rng.tensor(*one, dtype=case.dtype, values="full"), place="parameter", grad=grad)
            for one in shapes
        ]
        for grad in (case.grad, "empty")
    )
    CallersHooks(case.hooks).on_parameter(params[0], "params[0]")
    scale = 0.375 if case.number == "fraction" else 150.0
    bound = scale * rng.choice((1.25, 1.5, 1.75))
    given, given_too = list(params), list(others)
    before = Witness(params=given, others=given_too)
    _kept, result_too = call(given, bound), call(given_too, 2 * bound)
    same["changed"] = before.changes()

    def grads(params: Params, size: float = 1.0, *, clear: bool = False) -> list[Any]:
        """All `.grad` after a pass in which the gradients arrive in random order."""
        _run_autograd_grad(params[:3])
        for p in params if clear else ():
            p.grad = None
        return [_run_pass(rng, rng.shuffled(params), case.backward, size * scale), *map(_comparable_grad, params)]

    first["p.grad of all"] = grads(params)
    later["p.grad after a second pass"] = grads(params)
    small["p.grad after a small pass"] = grads(params, 2**-12, clear=True)
    small["p.grad after a pass with zeros"] = grads(params, 0.0, clear=True)
    later["p.grad after it was cleared"] = grads(params, clear=True)
    below = [nn.Parameter(torch.zeros(size)) for size in (4, 1, 1)]  # only the joint norm is above the bound
    _kept_too = call(list(below), bound)
    total = bound * (0.4 * below[0].sum() + 0.75 * below[1].sum() + 0 * below[2].sum())
    _describe_end(lambda: torch.autograd.backward(total))
    entries["p.grad of norms below the bound"] = list(map(_comparable_grad, below))
    second["p.grad in a pass of both"] = grads([*params, *others], clear=True)
    same["changed in the end"] = [change for change in before.changes() if not change[0].startswith("grad-")]
    handles["a list of handles"] = isinstance(result_too, list) and remove_all_handles(result_too)
    left = [place for what, place in before.changes() if what == "hook-left"]
    handles["hooks that are left on the second"] = [place for place in left if place.startswith("others")]
    handles["p.grad of the second"] = grads(others, clear=True)
    handles["p.grad of the first, which is still clipped"] = grads(params, clear=True)


def _comparable_grad(p: Tensor) -> Any:
    """`.grad` in float32: torch adds 1e-6 to the norm before dividing, so right answers differ in further digits."""
    if not isinstance(p.grad, Tensor):
        return p.grad
    return [p.grad.detach().to(torch.float32, copy=True), str(p.grad.dtype), p.grad.requires_grad]
