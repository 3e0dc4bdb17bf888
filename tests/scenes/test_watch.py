"""A watch sees each change, names it and its place, and sees nothing where nothing changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from graders.scenes.watch import Watch


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Sequential(nn.ReLU()))


def watching(*args: Any) -> None:
    """A hook."""


def things() -> dict[str, Any]:
    net, x = model(), torch.tensor([[0.1, math.nan]], requires_grad=True)
    net.register_forward_hook(watching)
    net[0].register_forward_hook(lambda *_: None)
    net[0].register_forward_hook(lambda *_: None)
    net[0].weight.register_hook(lambda grad: None)
    net[0].weight.grad = torch.ones(2, 2)
    return {"model": net, "x": x, "rows": [x, 1, "a"], "table": {"a": 1, "b": 2}}


def reversed_hooks(net: nn.Sequential) -> None:
    hooks = net[0]._forward_hooks
    hooks.move_to_end(next(iter(hooks)))


CHANGES: list[tuple[str, Callable[..., Any], list[list[str]]]] = [
    ("nothing", lambda model, x, rows, table: None, []),
    ("a pass", lambda model, x, rows, table: model.eval() and model.train() and None, []),
    ("a value", lambda model, x, rows, table: x.data.add_(1000.0).sub_(1000.0), [["values", "x"]]),
    ("requires_grad", lambda model, x, rows, table: x.requires_grad_(False), [["requires-grad", "x"]]),
    ("grad of x", lambda model, x, rows, table: x.sum().backward(), [["grad-filled", "x"]]),
    ("zero_grad", lambda model, x, rows, table: model.zero_grad(), [["grad-emptied", "model.0.weight"]]),
    ("grad", lambda model, x, rows, table: model[0].weight.grad.mul_(2), [["grad-changed", "model.0.weight"]]),
    (
        "an equal grad",
        lambda model, x, rows, table: setattr(model[0].weight, "grad", torch.ones(2, 2)),
        [["grad-replaced", "model.0.weight"]],
    ),
    ("eval at the end", lambda model, x, rows, table: model[2][0].eval(), [["mode", "model.2.0"]]),
    ("a buffer", lambda model, x, rows, table: model[1].running_mean.add_(1), [["buffer", "model.1.running_mean"]]),
    ("inplace", lambda model, x, rows, table: setattr(model[2][0], "inplace", True), [["attribute", "model.2.0"]]),
    ("something left", lambda model, x, rows, table: setattr(model, "seen", 1), [["attribute-left", "model"]]),
    ("forward", lambda model, x, rows, table: setattr(model[0], "forward", watching), [["forward", "model.0"]]),
    ("class", lambda model, x, rows, table: setattr(model[2][0], "__class__", nn.Tanh), [
        ["class", "model.2.0"], ["forward", "model.2.0"],
    ]),
    ("a module", lambda model, x, rows, table: model[2].append(nn.ReLU()), [["modules", "model.2"]]),
    ("a parameter", lambda model, x, rows, table: setattr(model[0], "bias", nn.Parameter(torch.ones(2))), [
        ["parameters", "model.0"],
    ]),
    ("hooks cleared", lambda model, x, rows, table: model[0]._forward_hooks.clear(), [["hook-removed", "model.0"]]),
    ("hooks turned round", lambda model, x, rows, table: reversed_hooks(model), [["hook-order", "model.0"]]),
    ("a hook left", lambda model, x, rows, table: model[2].register_forward_pre_hook(watching), [
        ["hook-left", "model.2"],
    ]),
    ("one removed, one left", lambda model, x, rows, table: (
        model._forward_hooks.clear(), model.register_forward_hook(lambda *_: None)
    ), [["hook-removed", "model"], ["hook-left", "model"]]),
    ("a hook on a parameter", lambda model, x, rows, table: model[0].bias.register_hook(watching), [
        ["hook-left", "model.0.bias"],
    ]),
    ("a post-accumulate hook", lambda model, x, rows, table: x.register_post_accumulate_grad_hook(watching), [
        ["hook-left", "x"],
    ]),
    ("a tensor's hooks cleared", lambda model, x, rows, table: model[0].weight._backward_hooks.clear(), [
        ["hook-removed", "model.0.weight"],
    ]),
    ("another dict", lambda model, x, rows, table: setattr(
        model[0], "_forward_hooks", type(model[0]._forward_hooks)(model[0]._forward_hooks)
    ), [["hook-dict", "model.0"]]),
    ("a list", lambda model, x, rows, table: rows.pop(), [["entries", "rows"]]),
    ("a list turned round", lambda model, x, rows, table: rows.reverse(), [["entries", "rows"]]),
    ("an equal entry", lambda model, x, rows, table: rows.__setitem__(0, x.detach()), [["entries", "rows"]]),
    ("a dict", lambda model, x, rows, table: table.update(a=3), [["entries", "table"]]),
    ("the order of a dict", lambda model, x, rows, table: table.update(a=table.pop("a")), [["entries", "table"]]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_each_change_is_seen_and_no_other(change: Callable[..., Any], expected: list[list[str]]) -> None:
    caller = things()
    before = Watch(**caller)
    change(**caller)
    assert list(map(list, before.differences().found)) == expected


def test_running_a_model_changes_buffers_alone() -> None:
    net = model()
    before = Watch(model=net)
    net(torch.randn(4, 2))
    assert {kind for kind, _ in before.differences().found} == {"buffer"}


def test_retain_grad_on_a_tensor_of_the_caller() -> None:
    h = torch.ones(2, requires_grad=True) * 3
    before = Watch(h=h)
    h.retain_grad()
    assert list(map(list, before.differences().found)) == [["retains-grad", "h"]]


def test_the_call_of_all_modules() -> None:
    before, call = Watch(), nn.Module.__call__
    nn.Module.__call__ = lambda self, *args: call(self, *args)  # type: ignore[method-assign]
    try:
        assert list(map(list, before.differences().found)) == [["module-call", "torch"]]
    finally:
        nn.Module.__call__ = call  # type: ignore[method-assign]


def test_the_surroundings() -> None:
    before = Watch()
    with torch.no_grad(), register_module_forward_hook(watching):
        assert list(map(list, before.differences().found)) == [["autograd-mode", "torch"], ["hook-left", "torch"]]
    assert list(map(list, before.differences().found)) == []
