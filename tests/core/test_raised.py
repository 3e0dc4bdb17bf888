"""Exceptions of PyTorch, as it raises them, and what they are about."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from graders.core.raised import explain_exception

LAYER = nn.Linear(2, 2)


def _not_called(text: str) -> float:
    return float(text)


NOT_CALLED: Any = _not_called
NOT_FLOAT: Any = tuple


def leaf() -> Any:
    return torch.ones(2, requires_grad=True)


def hook_with_two_parameters() -> None:
    def hook(module: Any, output: Any) -> None: ...

    with LAYER.register_forward_hook(hook):  # type: ignore[arg-type]
        LAYER(leaf())


def hook_with_four_parameters() -> None:
    with LAYER.register_forward_hook(lambda module, args, output, name: None):  # type: ignore[arg-type,misc]
        LAYER(leaf())


def hook_that_appends_and_returns() -> None:
    t = leaf()
    t.register_hook(lambda grad: [grad])
    t.sum().backward()


def hook_that_returns_a_list() -> None:
    with LAYER.register_forward_hook(lambda *args: [args]):
        nn.Sequential(LAYER, nn.Flatten())(leaf())


def hook_that_changes_the_dtype() -> None:
    t = leaf()
    t.register_hook(lambda grad: grad.double())
    t.sum().backward()


def count_without_nonlocal() -> None:
    count = 0

    def add() -> None:
        count += 1  # type: ignore[misc]  # noqa: F823, F841 - the mistake

    add()
    assert count


def call_oneself() -> None:
    call_oneself()


def clear_in_a_loop() -> None:
    entries = {1: 2, 3: 4}
    for key in entries:
        del entries[key]


def full_hook_before_a_layer_in_place() -> None:
    with LAYER.register_full_backward_hook(lambda *args: None):
        nn.Sequential(LAYER, nn.ReLU(inplace=True))(leaf())


def step() -> None:
    leaf().sub_(1.0)


class Block:
    """A context manager whose `__exit__` takes too little."""

    def __enter__(self) -> None: ...

    def __exit__(self) -> None: ...


def block_without_arguments() -> None:
    with Block():  # type: ignore[misc]
        pass


def write_into_a_tuple() -> None:
    args: Any = (1.0,)
    args[0] = 2.0


def both_kinds_of_backward_hooks() -> None:
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda *args: None)
    layer.register_backward_hook(lambda *args: None)


PAIR: Any = (1.0, 2.0)
MODEL: Any = nn.Identity()
HANDLE: Any = LAYER.register_forward_hook(lambda *args: None)
HANDLE.remove()


def multiply_into_a_tensor() -> None:
    grad = leaf()
    torch.mul(grad, 2.0, out=grad)


class OfOldPyTorch(torch.autograd.Function):
    """A function without static methods."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        return self.factor * x


def unpack() -> None:
    (_,) = PAIR


def pre_hook_with_keywords() -> None:
    with LAYER.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True):
        LAYER(leaf())


def hook_that_replaces_nothing() -> None:
    with LAYER.register_full_backward_hook(lambda module, gi, go: [torch.ones(2)]):
        LAYER(torch.ones(2)).sum().backward()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize(
    ("program", "line", "id"),
    [
        (block_without_arguments, "", "exit-takes-three"),
        (lambda: torch.ones(2)[3], "", "index-too-large"),
        (lambda: torch.ones(2).flatten(0, -2), "", "no-such-dimension"),
        (lambda: PAIR[2], "line 4 of its cell: args[2]", "no-such-entry"),
        (lambda: PAIR.detach(), "line 4 of its cell: found.append(out.detach())", "tuple-for-a-tensor"),
        (lambda: PAIR.first(), "line 4 of its cell: out.first()", None),
        (lambda: LAYER.clear(), "", "no-such-attribute"),
        (lambda: {}["block.act"], "line 2 of its cell: children[name]", "children-only"),
        (unpack, "line 2 of its cell: x, = args", "unpacked-another-number"),
        (unpack, "", "another-number-of-parts"),
        (pre_hook_with_keywords, "", "pre-hook-returns-both"),
        (hook_that_replaces_nothing, "", "no-gradient-to-replace"),
        (lambda: torch.save("path", PAIR), "", "what-to-save-first"),
        (lambda: list(MODEL), "line 2 of its cell: for child in model:", "only-for-a-sequential"),
        (lambda: list(MODEL), "line 2 of its cell: for i, child in enumerate(model):", "only-for-a-sequential"),
        (lambda: list(MODEL), "line 2 of its cell: for out in model(x):", None),
        (lambda: list(MODEL), "line 2 of its cell: for name in found_in(model, x):", None),
        (lambda: list(MODEL), "", None),
        (lambda: MODEL[0], "line 2 of its cell: first = model[0]", "only-for-a-sequential"),
        (lambda: MODEL[0], "line 2 of its cell: first = net.block[0]", "only-for-a-sequential"),
        (lambda: MODEL[0], "line 2 of its cell: first = outputs(model)[0]", None),
        (lambda: len(MODEL), "line 2 of its cell: for i in range(len(model)):", "only-for-a-sequential"),
        (lambda: list(HANDLE), "line 2 of its cell: for handle in model.handles:", "one-handle"),
        (multiply_into_a_tensor, "", "out-and-a-graph"),
        (lambda: OfOldPyTorch(2.0)(leaf()), "", "function-of-old-pytorch"),
        (lambda: copy.deepcopy(2 * leaf()), "", "deepcopy-of-a-result"),
        (write_into_a_tuple, "", "tuple-stays"),
        (lambda: PAIR * 2.0, "", "tuple-in-a-calculation"),
        (lambda: 1.0 - PAIR, "", "tuple-in-a-calculation"),
        (lambda: torch.stack([torch.ones(1), torch.ones(2)]), "", "stack-of-unlike-shapes"),
        (lambda: torch.ones(2) + torch.ones(3), "", "sizes-do-not-fit"),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "", "sizes-do-not-fit"),
        (lambda: LAYER(leaf(), leaf(), leaf()), "", "too-many-arguments"),
        (lambda: LAYER(leaf(), input=leaf()), "", "passed-twice"),
        (lambda: nn.ModuleDict()(leaf()), "", "no-forward"),
        (both_kinds_of_backward_hooks, "", "deprecated-hook"),
        (hook_with_two_parameters, "line 4 of its cell: model(x)", "wrong-signature"),
        (hook_with_four_parameters, "", "wrong-signature"),
        (hook_that_appends_and_returns, "", "returned-something"),
        (hook_that_returns_a_list, "line 4 of its cell: model(x)", "returned-something"),
        (hook_that_returns_a_list, "line 4 of its cell: x.flatten(1)", "tuple-for-a-tensor"),
        (lambda: LAYER([1]), "line 4 of its cell: model(x)", "returned-something"),
        (lambda: {} - {}, "line 4 of its cell: out[0] - out[1]", "tuple-in-a-calculation"),  # type: ignore[operator]
        (lambda: torch.stack([]), "line 4 of its cell: torch.stack(kept)", "stack-of-nothing"),
        (lambda: torch.linalg.norm(torch.ones(1, 1, 1), 2), "line 4 of its cell: norm(g, 2)", "norm-of-a-matrix"),
        (lambda: torch.relu([1]), "line 4 of its cell: torch.relu(x)", "tuple-for-a-tensor"),  # type: ignore[arg-type]
        (lambda: torch.relu(1), "line 4 of its cell: torch.relu(x)", None),  # type: ignore[arg-type]
        (lambda: NOT_FLOAT(()).clone(), "line 4 of its cell: h = output.clone()", "tuple-for-a-tensor"),
        (lambda: LAYER.wieght, "line 4 of its cell: w = layer.wieght", "no-such-attribute"),
        (lambda: LAYER.wieght, "line 4 of its cell: model(x)", None),
        (lambda: torch.ones(2) + torch.ones(3), "line 4 of its cell: h = a + b", "shapes-do-not-fit"),
        (lambda: torch.ones(2) + torch.ones(3), "line 4 of its cell: h = model(x) + b", "sizes-do-not-fit"),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "line 4 of its cell: x @ weight", "inner-sizes-do-not-fit"),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "line 4 of its cell: model(x)", "sizes-do-not-fit"),
        (lambda: torch.ones(2, 2).double() @ torch.ones(2, 2), "", "two-dtypes"),
        (lambda: LAYER(torch.ones(2, 2).double()), "", "two-dtypes"),
        (lambda: torch.stack([torch.ones(2), torch.ones(3)]), "", "stack-of-unlike-shapes"),
        (lambda: torch.ones(2).sum(1), "", "no-such-dimension"),
        (lambda: torch.ones(2)[::-1], "", "steps-backwards"),
        (lambda: torch.ones(2)[2], "", "index-too-large"),
        (lambda: nn.ModuleList()[0], "", "no-such-entry"),
        (lambda: [][0], "", "no-such-entry"),
        (lambda: LAYER(torch.ones(2), mask=1), "line 4 of its cell: model(x)", "no-such-keyword"),
        (hook_that_changes_the_dtype, "", "changed-dtype"),
        (lambda: (2 * leaf()).backward(), "line 2 of its cell: y.backward()", "no-sum"),
        (lambda: leaf().grad.zero_(), "line 2 of its cell: p.grad.zero_()", "none-for-a-tensor"),
        (lambda: leaf().grad.zero_(), "line 2 of its cell: model(x)", None),
        (lambda: torch.autograd.grad(leaf().sum(), torch.ones(2)), "", "asked-what-needs-no-grad"),
        (lambda: torch.ones(()).backward(), "", "backward-without-a-graph"),
        (lambda: leaf().exp().mul_(2).sum().backward(), "", "changed-before-backward"),
        (count_without_nonlocal, "", "assigned-inside"),
        (call_oneself, "", "calls-itself"),
        (clear_in_a_loop, "", "changed-while-looping"),
        (lambda: getattr(LAYER, "block.0"), "line 2 of its cell: getattr(model, name)", "dotted-name"),
        (step, "line 6 of its cell: p.sub_(lr * p.grad)", "step-without-no-grad"),
        (step, "line 6 of its cell: p -= lr * p.grad", "step-without-no-grad"),
        (step, "line 6 of its cell: h = fn(h)", "cut-between-steps"),
        (step, "", None),
        (lambda: leaf().item(), "line 2 of its cell: g.item()", "item-of-many"),
        (lambda: {}["a"], "line 2 of its cell: names['a']", "no-such-key"),
        (lambda: {}["a"], "line 2 of its cell: model(x)", None),
        (lambda: dict[str, int]().pop("a"), "line 2 of its cell: grad = grads.pop(name)", "no-such-key"),
        (full_hook_before_a_layer_in_place, "line 4 of its cell: model(x)", "full-hook-and-in-place"),
        (lambda: torch.ones(()).expand(2).square_(), "", "in-place-on-a-gradient"),
        (lambda: leaf().grad * 2, "line 2 of its cell: t.grad * s", "none-for-a-tensor"),
        (lambda: leaf().grad * 2, "line 2 of its cell: model(x)", None),
        (lambda: NOT_CALLED.backward(), "line 2 of its cell: loss.backward()", "function-not-called"),
        (lambda: bool(leaf()), "", "truth-of-a-tensor"),
        (lambda: leaf().register_hook(print, prepend=True), "", "no-prepend"),
        (lambda: (2 * leaf()).register_post_accumulate_grad_hook(print), "", "post-hook-on-a-non-leaf"),
        (lambda: leaf().detach().register_hook(print), "", "hook-without-grad"),
        (lambda: NOT_CALLED("1").detach(), "", "not-a-tensor"),
        (lambda: int("x", base=10, other=1), "line 2 of its cell: int('x')", None),  # type: ignore[call-overload]
    ],
)
def test_what_an_exception_is_about(program: Callable[[], object], line: str, id: str | None) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - torch's own kinds
        program()
    found = explain_exception(type(raised.value).__name__, str(raised.value), line)
    assert (found and found.id) == id
    assert found is None or len(found.message) <= 300


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("p.grad * s", "`.grad` is `None`"),
        ("t.grad_fn * s", "`.grad_fn` is"),
        ("torch.autograd.grad(y, t)[0] * s", "Something is"),
    ],
)
def test_what_is_none_is_said_by_what_stands_in_the_line(line: str, begins: str) -> None:
    text = "unsupported operand type(s) for *: 'NoneType' and 'float'"
    found = explain_exception("TypeError", text, f"line 2 of its cell: {line}")
    assert found is not None
    assert found.message.startswith(begins)
