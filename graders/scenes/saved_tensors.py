"""Scenes for functions that run one of the caller's functions while hooks for saved tensors are active."""

import contextlib
import gc
import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from graders.probing.asking import detached_copy
from graders.probing.known_state import saved_tensor_hooks_active
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.tensors import with_layout
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng

DIGITS = 33 / 32 * (1 + 2**-12)
"""Eighths times this number need more digits than float16 has (which has more than bfloat16); none is near a tie."""
LONG = 3001
"""A number of entries so large that float16 cannot hold all of their indices."""
MANY = 1009
"""A number of entries that no other tensor has."""


def square(t: Tensor) -> Tensor:
    """The square of `t`. It is a temporary tensor, so the next one may get the same memory."""
    return t * t


class SavingFunction:
    """The caller's function, which saves tensors of all kinds: leaves, non-leaves, views, data, indices and a mask."""

    def __init__(self, rng: Rng, case: Any) -> None:
        """Draw the tensors for a case."""
        shape = rng.shape(case.rank)

        def drawn(*size: int) -> Tensor:
            return rng.tensor(*size, dtype=case.dtype) * DIGITS

        another_dtype = torch.float64 if case.dtype == "float32" else torch.float32
        self.leaves = {
            "x": with_layout(drawn(*shape), "transposed"),
            "w": nn.Parameter(drawn(*shape)),
            "wide": drawn(rng.integer(2, 4), *shape),
            "other": (rng.tensor(*shape, dtype="float64") * DIGITS).to(another_dtype),
            "long": drawn(LONG),
        }
        for leaf in self.leaves.values():
            leaf.requires_grad_()
        self.data, self.weights, self.mask = drawn(*shape), drawn(*shape), rng.tensor(*shape) > 0
        places = [2 * rng.integer(1024, 1499) + 1 for _ in range(rng.integer(2, 5))]
        self.index = torch.tensor(sorted({*places, rng.integer(0, 99)}))
        self.powers, self.result_is = rng.choice(((2, 4), (4, 0.5, 2), (0.5, 4, 2, 8))), case.result_is
        self.things = {**self.leaves, "data": self.data, "mask": self.mask, "index": self.index}
        self.log: list[str] = []
        self.outs: list[Tensor] = []
        self.returned: Any = self

    def __call__(self) -> Any:
        """Run the function, which also runs a backward pass of its own."""
        self.log.append(f"fn, with grad mode {'on' if torch.is_grad_enabled() else 'off'}")
        t, w, wide, other, long = self.leaves.values()
        if torch.is_grad_enabled():
            torch.autograd.grad(square(t).sum(), t)
        out = torch.relu(t) + w + t * w + torch.where(self.mask, t * self.data, w)
        for power in self.powers:
            out = out + square(power * t)
        out = out + (t.expand(wide.shape) * wide).sum(0) + square(t.reshape(-1)[:1]).sum()
        row = w.reshape(1, -1)[:, :3]  # autocast changes the dtype of matrix products
        self.outs.append(out + square(long[self.index]).sum() + (row @ row.T).sum())
        self.apart = square(other).sum()  # as exact as its own dtype
        result = self.outs[-1]
        self.returned = {"tensor": result, "tuple": (result, 1), "list": [result], "nothing": None}[self.result_is]
        return self.returned

    def gradients(self) -> dict[str, Any]:
        """The gradients of the leaves from a pass through the last graph, which is kept; or the error."""
        sums = (self.outs[-1] * self.weights).sum(), self.apart
        try:
            found = torch.autograd.grad(sums, list(self.leaves.values()), retain_graph=True)
        except Exception as error:
            message = re.sub(r"<.*>|\b\d+\b", "...", f"{type(error).__name__}: {error}"[:150])  # keys in messages vary
            return {"error": message, **dict.fromkeys(self.leaves)}
        grads = dict(zip(self.leaves, found))
        return {"error": "none", **grads, "long": grads["long"][self.index]}


def leave_hooks() -> None:
    """Exit every context of hooks for saved tensors that an answer has left active."""
    while saved_tensor_hooks_active():
        saved_tensors_hooks(lambda t: t, lambda t: t).__exit__()


def kept_in_full(call: Call, dtype: torch.dtype) -> bool:
    """Whether a tensor that only autograd keeps still exists in its own dtype after a backward pass."""
    t, sums = torch.ones((), dtype=dtype, requires_grad=True), list[Tensor]()
    gc.freeze()  # so that only newer objects are looked at
    try:
        call(lambda: sums.append(square(t * torch.ones(MANY, dtype=dtype)).sum()))
        leave_hooks()
        with contextlib.suppress(Exception):  # the gradients are compared elsewhere
            torch.autograd.grad(sums[0], t, retain_graph=True)
        gc.collect()
        tensors = [thing for thing in gc.get_objects() if type(thing) is Tensor]
        return any(one.numel() == MANY and one.dtype == dtype for one in tensors)
    finally:
        gc.unfreeze()


@family(
    sections=(
        "{returned}",
        "{half}",
        "{stay}",
        "another call starts afresh",
        "fn runs once and as it does without you",
        "{kept}",
        "nothing else changes",
        "an exception comes through and no hook is left",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "rank": (0, 1, 2, 3),
        "result_is": ("tensor", "tuple", "list", "nothing"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
)
def saves_tensors(call: Call, rng: Rng, case: Any, seen: Sections, hands_on: bool) -> None:
    """For `function(fn)`, which runs `fn`. With `hands_on` it returns the result of `fn`, otherwise a number."""
    returned, half, stay, later, runs, kept, same, failing = seen.values()
    work, other = SavingFunction(rng, case), SavingFunction(rng, case)

    def ask(work: SavingFunction, where: dict[str, Any], when: str = "") -> None:
        before = Witness(**work.things)
        result = call(work)
        same[f"changed{when}"] = before.changes()
        leave_hooks()
        if hands_on:
            runs[f"the object itself that fn returned is returned{when}"] = result is work.returned
        else:
            where[f"the result{when}"] = result

    ask(work, returned)
    runs["how fn was called"] = list(work.log)
    half["the gradients of a pass"] = work.gradients()
    stay["the gradients of another pass"] = work.gradients()
    if hands_on:
        kept["a tensor of the old dtype is kept"] = kept_in_full(call, getattr(torch, case.dtype))
    ask(other, later, " of another fn")
    later["the gradients of another fn"] = other.gradients()
    runs["what fn computed"] = [detached_copy(out) for out in work.outs[:2]]
    with torch.no_grad():
        ask(other, returned, " under no_grad")
    runs["how fn was called, then under no_grad"] = list(other.log)

    failure = Failure(case.failure)

    def fails() -> None:
        square(work.leaves["x"])
        failure.raise_if_due()

    before = Witness(**work.things)
    failing["exception"] = failure.outcome_during(lambda: call(fails))
    failing["changed after an exception"] = before.changes()
    leave_hooks()
