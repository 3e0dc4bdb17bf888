"""Scenes for functions that run backward passes of their own, and return gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from graders.box.callers_hooks import CallersHooks
from graders.box.failures import Failure
from graders.box.probing import has_memory, snapshot
from graders.box.tensors import prepared
from graders.box.witness import Change, Witness
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng

Act = Callable[..., None] | None
"""What code of the caller does while the function is at work; it fits wherever torch calls a hook."""


OLD = 1e30
"""What `.grad` holds beforehand, if it does: what enters the result shows, and is not taken away again."""


@dataclass
class World:
    """What a caller has and gives to the function; calling it again with these makes another call."""

    args: Sequence[Any]
    again: Callable[[], None]
    """Gives new values to the leaf, and the list its entries."""
    log: list[str] = field(default_factory=list)
    """Which functions of the caller were called."""
    grads: Callable[[], dict[str, Any]] = dict
    """The `.grad` of which the contract tells."""
    goes_on: Callable[[], None] = lambda: None
    """What the caller does next."""

    def changes(self, witness: Witness) -> list[Change]:
        """What a witness tells, without `.grad`, which passes may fill."""
        return [change for change in witness.changes() if not change[0].startswith("grad-")]


@family(
    sections=(
        "{results}",
        "{calls}",
        "{copies}",
        "{rest}",
        "another call has its own gradients",
        "an exception comes through and leaves nothing behind",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "values": ("round", "full"),
        "rank": (0, 1, 2, 3),
        "place": ("leaf", "parameter"),
        "grad": ("empty", "filled"),
        "hooks": ("none", "watching"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
    pairs=[("values", "hooks")],
)
def tells_gradients(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    world: Callable[..., World],
    names: Sequence[str],
    passes: Sequence[str] = ("forward", "backward"),
) -> None:
    """For a function that runs backward passes, and returns gradients in a list or a dict.

    `world(rng, case)` makes what the caller has; in `world(rng, case, forward=act)` and `world(rng, case,
    backward=act)`, code of the caller calls `act()` in that pass; `passes` has those with such code. `names` are
    those of the arguments.
    """
    results, calls, copies, rest, later, failing = seen.values()

    def met(**acts: Any) -> tuple[World, Witness]:
        made = world(rng, case, **acts)
        return made, Witness(**dict(zip(names, made.args)))

    first, before = met()
    told = call(*first.args)
    results["the result"] = tree_map_only(Tensor, Tensor.clone, told)
    calls["what was called"] = list(first.log)
    rest.update(first.grads(), changed=first.changes(before))
    first.goes_on()
    copies["the result, after a later pass"] = tree_map_only(Tensor, Tensor.clone, told)

    for entry in tree_leaves(told):
        if has_memory(entry):
            entry.data.fill_(9.0)  # it is the caller's, who may write into it
    first.again()
    later["of a second call"] = tree_map_only(Tensor, Tensor.clone, call(*first.args))
    later["of the first call, after that"] = told
    for name in passes:
        within = partial(_call_inside, call, world(rng, case).args)
        later[f"around another call in the {name} pass"] = call(*world(rng, case, **{name: within}).args)
        failed, before = met(**{name: (failure := Failure(case.failure)).strike})
        failing[f"exception in the {name} pass"] = failure.during(partial(call, *failed.args))
        failing[f"changed after an exception in the {name} pass"] = failed.changes(before)


def _call_inside(call: Callable[..., Any], args: Sequence[Any], *hooked: Any) -> None:
    with torch.enable_grad():  # during a backward pass it is off
        call(*args)


def numbers(rng: Rng, case: Any, count: int, most: float = 3.0) -> list[Tensor]:
    """So many tensors of the case, of one shape."""
    shape = rng.shape(case.rank)
    return [rng.tensor(*shape, dtype=case.dtype, values=case.values, low=-most, high=most) for _ in range(count)]


def a_leaf(values: Tensor, case: Any, name: str) -> Tensor:
    """A leaf as the case says, with hooks of the caller; in two dimensions, the columns lie together in memory."""
    layout = "transposed" if case.rank == 2 else "contiguous"
    leaf = prepared(values, layout=layout, place=case.place, grad=case.grad, old=OLD)
    CallersHooks(case.hooks).on_parameter(leaf, name)
    return leaf


def acting(t: Tensor, forward: Act, backward: Act) -> Tensor:
    """The tensor. The one act is done now, the other one when a gradient arrives at it."""
    register: Any = t.register_hook
    if forward:
        forward()
    if backward:
        register(backward)
    return t


def two_leaves(rng: Rng, case: Any, backward: Act = None) -> World:
    """For `function(w, x)`."""
    *both, other = numbers(rng, case, 3)
    w, x = (a_leaf(values, case, name) for name, values in zip("wx", both))
    acting(w, None, backward)

    def again() -> None:
        w.data, x.data, w.grad, x.grad = both[0], other, None, None

    return World((w, x), again)


def losses_of_a_leaf(rng: Rng, case: Any, forward: Act = None, backward: Act = None) -> World:
    """For `function(p, losses)`: one of the losses has no slope, one has another leaf, and one comes twice."""
    values, weights, other, more = numbers(rng, case, 4)
    p, log = a_leaf(values, case, "p"), list[str]()
    other.requires_grad_()
    kinds: dict[str, Callable[[Tensor], Tensor]] = {
        "linear": lambda q: (weights * q).sum(),
        "square": lambda q: (q * q).sum(),
        "flat": lambda q: (0 * q).sum(),
        "with another leaf": lambda q: (q * other).sum(),
        "cubic": lambda q: (q * q * q).sum() / 4,
        "mean": lambda q: q.mean(),
    }

    def loss_of(kind: str) -> Callable[[Tensor], Tensor]:
        factors = [rng.uniform(1, 3)]

        def loss(q: Tensor) -> Tensor:
            log.append(f"{kind} loss")
            factors[0] += 1  # each call is another loss
            value = factors[0] * kinds[kind](q)
            return acting(value, forward, backward) if kind == "cubic" else value

        return loss

    losses = [loss_of(kind) for kind in ("linear", *rng.shuffled(list(kinds)[1:]))]
    losses.append(losses[0])
    same = list(losses)

    def again() -> None:
        p.data, losses[:] = more, same

    return World((p, losses), again, log, goes_on=lambda: torch.autograd.backward((weights * p).sum()))


STEPS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "scale": lambda t, k: k * t,
    "square": lambda t, k: t * t / 2 + k,
    "tanh": lambda t, k: torch.tanh(k * t / 4),
    "mixing": lambda t, k: k * t * (1 + t.mean()),
    "in place": lambda t, k: t.mul_(k),
    "identity": lambda t, k: t,
    "constant": lambda t, k: 0 * t + k,
    "stretch": lambda t, k: torch.stack([t, k * t]),
    "flatten": lambda t, k: t.flatten(),
}
"""Functions of a tensor and a number, as a chain may have them; "mixing" lets every element touch every other."""
STARTS = {
    "in place": ("in place", "scale", "in place", "square"),
    "identity": ("identity", "mixing", "scale", "in place"),
    "constant": ("square", "constant", "scale", "in place"),
}
"""How chains begin, by the value of an axis."""
END = ("tanh", "mixing", "flatten", "in place", "stretch", "identity", "scale")


def a_chain(rng: Rng, case: Any, forward: Act = None, backward: Act = None) -> World:
    """For `function(fns, x)`: some overwrite their argument, some change its shape, and one comes twice."""
    values, more = numbers(rng, case, 2, most=1.5)
    x, log = a_leaf(values, case, "x"), list[str]()

    def step_of(kind: str) -> Callable[[Tensor], Tensor]:
        k = rng.uniform(0.5, 2) + 1 / 16  # never 1

        def step(t: Tensor) -> Tensor:
            log.append(kind)
            result = STEPS[kind](t, k)
            return acting(result, forward, backward) if kind == "tanh" else result

        return step

    fns = [step_of(kind) for kind in (*STARTS[case.chain], *END)]
    fns.append(fns[2])
    same = list(fns)

    def again() -> None:
        x.data, x.grad, fns[:] = more, None, same

    return World((fns, x), again, log, lambda: {"x.grad": snapshot(x.grad)})
