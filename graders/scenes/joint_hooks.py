"""Scenes for functions that put one hook on several tensors."""

from typing import Any

import torch
from torch import Tensor

from graders.probing.asking import detached_copy, remove_handle
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.passes import isolated_grads, run_aborted_pass
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value, two_parts
from graders.scenes.scene import Call, Sections, family
from graders.scenes.worlds import reverse_dimensions
from graders.wire.draws import Rng

PLACES = ("leaf", "non-leaf", "parameter", "leaf")
"""The kinds of the tensors after the first one."""


class TensorGroup:
    """Tensors of a caller, and passes that reach some of them."""

    def __init__(self, rng: Rng, case: Any) -> None:
        """Draw the tensors; the first one is as the case says."""
        self.rng, self.case, self.leaves, self.tensors = rng, case, list[Tensor](), list[Tensor]()
        self.free = torch.ones(2, requires_grad=True)  # not in the group
        shapes = [(rng.integer(2, 4), 2), (rng.integer(2, 3),), (2, 3, 2), (), (3,)]
        for place, shape in zip((case.place, *PLACES), shapes):
            values = rng.tensor(*shape, dtype=case.dtype, values="full")
            kind = "parameter" if place == "parameter" else "leaf"
            leaf = prepare_tensor(values, layout="transposed", place=kind, grad=case.grad)
            self.leaves.append(leaf)
            self.tensors.append(leaf.view_as(leaf) if place == "non-leaf" else leaf)
            CallersHooks(case.hooks).on_tensor(self.tensors[-1], f"tensor {len(self.leaves)}")
        self.last = self.tensors[0].view_as(self.tensors[0])  # made first, so that a backward pass comes here last

    def loss(self, *reached: int, factor: float = 1.0) -> Tensor:
        """A sum, times `factor`, that uses each tensor with one of these indexes twice."""
        loss = self.free.sum()
        for place in reached:
            t = reverse_dimensions(self.tensors[place] if place else self.last)
            weight = factor * self.rng.tensor(*t.shape, dtype=self.case.dtype, values="full")
            loss = loss + (t * weight).sum() + 2 * (t * weight).sum()
        return loss

    def run(self, *reached: int, factor: float = 1.0) -> None:
        """Run a backward pass to these tensors."""
        torch.autograd.backward(self.loss(*reached, factor=factor))

    def run_aborted(self, *reached: int) -> None:
        """Run a backward pass to these tensors that an exception ends before it reaches the first one."""
        with isolated_grads(self.leaves):
            run_aborted_pass(lambda: self.loss(0, *reached), self.last)


@family(
    sections=(
        "every pass appends its joint norm",
        "each call has a list and a handle of its own",
        "the flow is unchanged",
        "nothing is appended after remove()",
        "nothing else changes",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "place": ("leaf", "non-leaf", "parameter"),
        "grad": ("empty", "filled"),
        "hooks": ("none", "watching", "replacing"),
    },
)
def logs_passes(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a function that puts a hook on a list of tensors, and returns a list, with a float per pass, and a handle.

    The caller does not use `torch.autograd.grad`, because torch's joint hooks do not support it.
    """
    appended, several, flow, ends, same = seen.values()
    group, other = TensorGroup(rng, case), TensorGroup(rng, case)
    before = Witness(tensors=group.tensors, leaves=group.leaves)
    (log, handle), (second, _), (third, third_handle) = (two_parts(call(one.tensors)) for one in (group, other, group))

    some = rng.shuffled(range(1, 5))
    for reached, factor in (((0, *some[:2]), 1), (range(5), 1), (some[2:3], 1), ((), 1), ((0, *some[1:]), 0)):
        group.run(*reached, factor=factor)
    group.run_aborted(*some)
    group.run(*some[:3], 0)
    other.run(0, *some[1:3])
    appended["the list after the passes"] = copy_value(log)
    several["the list of a call for other tensors"] = copy_value(second)
    several["the list of a second call for the tensors"] = copy_value(third)

    u = rng.tensor(3, dtype=case.dtype).requires_grad_()
    kept_alone = two_parts(call([u]))[0]  # the handle is not kept
    torch.autograd.backward((3 * u * u).sum(), create_graph=True)
    several["the list of a call whose handle was not kept"] = copy_value(kept_alone)
    flow["a gradient of a pass with create_graph=True"] = u.grad

    for name, one in (("one", handle), ("the other", third_handle)):
        ends[f"{name} handle has remove()"] = remove_handle(one)
        group.run(*range(5))
        ends[f"the lists after {name} remove()"] = copy_value([log, third])
    flow["the gradients of the leaves"] = [detached_copy(leaf.grad) for leaf in group.leaves]
    same["changed in the end"] = [change for change in before.changes() if change[0][:4] != "grad"]
