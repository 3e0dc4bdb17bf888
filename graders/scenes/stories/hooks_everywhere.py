"""Stories for functions that take the hooks off a model."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

PLACES = ("", "0", "1", "1.0", "0.spare", "3")
HOOKED = {
    "on": PLACES,
    "kind": ("fwd", "pre", "bwd", "bpre", "legacy", "with kwargs", "always"),
    "also_on": PLACES[1:] + PLACES[:1],
    "also": ("pre", "a function twice", "fwd"),
    "state": ("before state_dict", "state_dict", "before load", "load", "a parameter"),
    "mode": ("train", "eval", "mixed"),
    "dtype": ("float32", "float64"),
    "grad": ("empty", "filled"),
    "frozen": ("nothing", "part"),
}
REMOVED = {**HOOKED, "everywhere": ("fwd", "pre", "bwd", "bpre")}


def both_backward(on: str, kind: str, also_on: str) -> bool:
    """A module takes backward hooks of the old kind or of the new one; the second module has none yet."""
    return kind in ("bwd", "legacy") and on == also_on


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model in which a layer runs three times, and its part never; another has the same weight."""
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = draw.tensor(2, 2, low=-1, high=1)
    layer.spare = nn.ReLU()
    model = nn.Sequential(layer, nn.Sequential(nn.Tanh(), layer), layer, nn.Linear(2, 2))
    model[3].weight = layer.weight
    model[3].bias.data = draw.tensor(2)
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        model[1].eval()
    if case.frozen == "part":
        model[3].bias.requires_grad_(False)
    if case.grad == "filled":
        layer.weight.grad = torch.ones_like(layer.weight)
    model.log = []
    return model


@told
def hooked(model: Any, case: Any) -> Any:
    """The handles of hooks of a model, which log their calls."""
    handles: list[Any] = []
    part = model.get_submodule(case.on)
    if case.kind == "pre":
        handles.append(part.register_forward_pre_hook(lambda *args: model.log.append("pre")))
    if case.kind == "fwd":
        handles.append(part.register_forward_hook(lambda *args: model.log.append("fwd")))
    if case.kind == "with kwargs":
        handles.append(part.register_forward_hook(lambda *args: model.log.append("fwd"), with_kwargs=True))
    if case.kind == "always":
        handles.append(part.register_forward_hook(lambda *args: model.log.append("fwd"), always_call=True))
    if case.kind == "bpre":
        handles.append(part.register_full_backward_pre_hook(lambda *args: model.log.append("bpre")))
    if case.kind == "bwd":
        handles.append(part.register_full_backward_hook(lambda *args: model.log.append("bwd")))
    if case.kind == "legacy":
        handles.append(part.register_backward_hook(lambda *args: model.log.append("bwd")))
    second = model.get_submodule(case.also_on)
    if case.also == "pre":
        handles.append(second.register_forward_pre_hook(lambda *args: model.log.append("also pre")))
    if case.also == "fwd":
        handles.append(second.register_forward_hook(lambda *args: model.log.append("also fwd")))
    if case.also == "a function twice":
        hook = lambda *args: model.log.append("twice")  # noqa: E731 - a line of the program
        handles.append(second.register_forward_hook(hook))
        handles.append(second.register_forward_hook(hook))
    return handles


@told
def a_hooked_model(draw: Draw, case: Any) -> Any:
    """A model, and the handles of its hooks."""
    model = a_model(draw, case)
    handles = hooked(model, case)
    return model, handles


@told
def a_full_model(draw: Draw, case: Any) -> Any:
    """A model with hooks of all four kinds on every module."""
    model = a_model(draw, case)
    for part in model.modules():
        part.register_forward_pre_hook(lambda *args: None)
        part.register_forward_hook(lambda *args: None)
        part.register_full_backward_pre_hook(lambda *args: None)
        part.register_full_backward_hook(lambda *args: None)
    return model


@told
def hooks_left(model: Any) -> Any:
    """How many hooks there are of each of the four kinds, module by module."""
    left = [
        (len(m._forward_pre_hooks), len(m._forward_hooks), len(m._backward_pre_hooks), len(m._backward_hooks))
        for m in model.modules()
    ]
    return left


def all_removed(call: Call, draw: Draw, case: Any) -> Seen:
    """All module hooks are removed."""
    model, handles = a_hooked_model(draw, case)
    call(model)
    x = draw.tensor(3, 2).requires_grad_()
    out = model(x)
    out.sum().backward()
    yield "the output of the model", out.detach()
    yield "what old hooks log", model.log
    left = hooks_left(model)
    yield "the hooks that are left, module by module", left


def removed_everywhere(call: Call, draw: Draw, case: Any) -> Seen:
    """All four kinds are removed from every module."""
    model = a_full_model(draw, case)
    n = call(model)
    yield "the result with hooks of all four kinds on every module", n
    left = hooks_left(model)
    yield "how many of them are left, module by module", left


def counted(call: Call, draw: Draw, case: Any) -> Seen:
    """The number of hooks is returned."""
    model, handles = a_hooked_model(draw, case)
    n = call(model)
    yield "the result", n
    again = call(model)
    yield "the result of another call", again


@told
def with_another_hook(model: Any, case: Any) -> Any:
    """A model with a hook that is no module hook."""
    part = model.get_submodule(case.also_on)
    if case.state == "before state_dict":
        part.register_state_dict_pre_hook(lambda *args: model.log.append("before state_dict"))
    if case.state == "state_dict":
        part.register_state_dict_post_hook(lambda *args: model.log.append("state_dict"))
    if case.state == "before load":
        part.register_load_state_dict_pre_hook(lambda *args: model.log.append("before load_state_dict"))
    if case.state == "load":
        part.register_load_state_dict_post_hook(lambda *args: model.log.append("load_state_dict"))
    if case.state == "a parameter":
        model[0].weight.register_hook(lambda grad: model.log.append("parameter"))
    return model


def others_stay(call: Call, draw: Draw, case: Any) -> Seen:
    """Hooks of other kinds stay."""
    model = a_model(draw, case)
    model = with_another_hook(model, case)
    parameters = list(model.parameters())
    before = Watch(parameters=parameters)
    n = call(model)
    yield "the result", n
    yield "by the call", before.differences()
    x = draw.tensor(3, 2)
    model(x).sum().backward()
    model.load_state_dict(model.state_dict())
    yield "the hooks that fire", model.log


def global_hooks_stay(call: Call, draw: Draw, case: Any) -> Seen:
    """Hooks for all modules stay, and do not count."""
    model = a_model(draw, case)
    x = draw.tensor(3, 2).requires_grad_()
    if case.everywhere == "fwd":
        handle = nn.modules.module.register_module_forward_hook(lambda *args: model.log.append("fwd"))
    if case.everywhere == "pre":
        handle = nn.modules.module.register_module_forward_pre_hook(lambda *args: model.log.append("pre"))
    if case.everywhere == "bwd":
        handle = nn.modules.module.register_module_full_backward_hook(lambda *args: model.log.append("bwd"))
    if case.everywhere == "bpre":
        handle = nn.modules.module.register_module_full_backward_pre_hook(lambda *args: model.log.append("bpre"))
    with handle:
        n = call(model)
        model(x).sum().backward()
    yield "the result beside a hook for all modules", n
    yield "what a hook for all modules logs", model.log


@told
def hooked_anew(model: Any, case: Any) -> Any:
    """The handles of two new hooks of a model."""
    new: list[Any] = []
    part = model.get_submodule(case.on)
    if case.kind == "pre":
        new.append(part.register_forward_pre_hook(lambda *args: model.log.append("new pre")))
    elif case.kind == "bpre":
        new.append(part.register_full_backward_pre_hook(lambda *args: model.log.append("new bpre")))
    elif case.kind == "bwd":
        new.append(part.register_full_backward_hook(lambda *args: model.log.append("new bwd")))
    elif case.kind == "legacy":
        new.append(part.register_backward_hook(lambda *args: model.log.append("new bwd")))
    else:
        new.append(part.register_forward_hook(lambda *args: model.log.append("new fwd")))
    second = model.get_submodule(case.also_on)
    if case.kind == "legacy":
        new.append(second.register_full_backward_hook(lambda *args: model.log.append("also new")))
    else:
        new.append(second.register_backward_hook(lambda *args: model.log.append("also new")))
    return new


def new_ones(call: Call, draw: Draw, case: Any) -> Seen:
    """New hooks can be registered."""
    model, handles = a_hooked_model(draw, case)
    call(model)
    new = hooked_anew(model, case)
    x = draw.tensor(3, 2).requires_grad_()
    model(x).sum().backward()
    yield "what new hooks log", model.log
    for handle in new:
        handle.remove()
        model.log.append("one is removed")
    model(x).sum().backward()
    yield "the log when they are removed", model.log


def old_handles(call: Call, draw: Draw, case: Any) -> Seen:
    """Old handles are harmless."""
    model = a_model(draw, case)
    call(model)
    handles = hooked(model, case)
    call(model)
    new = hooked_anew(model, case)
    for handle in handles:
        handle.remove()
        model.log.append("an old one is removed")
    x = draw.tensor(3, 2).requires_grad_()
    model(x).sum().backward()
    yield "what new hooks log", model.log
    for handle in new:
        handle.remove()
        model.log.append("a new one is removed")
    left = hooks_left(model)
    yield "the hooks that are left when new ones are removed, too", left


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    model, handles = a_hooked_model(draw, case)
    before = Watch(model=model)
    call(model)
    yield "by the call", before.differences("hook")
    x = draw.tensor(3, 2)
    yield "the output of the model", model(x).detach()
