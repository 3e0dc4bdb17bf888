"""Stories for functions that run a model once, and return outputs of its layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.stories.conv_nets import a_net_with_convolutions, is_convolutional
from graders.scenes.stories.model_states import in_its_state, is_chain
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Names = Callable[[Draw, Any], tuple[Any, ...]]
"""The arguments between the model and its input."""
Function = Callable[[Call, Any], Any]
"""What takes a model, names and an input: the learner's function itself, or one that calls it."""
MODEL = {
    "dtype": ("float32", "float64"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "odd": ("nothing", "keyword", "tuple", "dict", "unused", "frozen", "filled", "transposed", "wide"),
    "grad_mode": ("on", "off"),
    "failure": ("KeyError", "KeyboardInterrupt", "ValueError", "RuntimeError"),
}
ONE = {"layer": ("skip; chain", "norm", "skip; skip2", "skip2", "block.pair", "loss")}
SEVERAL = {
    "layer": ("skip, norm; chain", "skip, norm; skip2", "block.pair, skip, norm", "loss, norm, skip2, block.pair, skip")
}
CALLS = {"layer": ("act; chain", "act", "again", "norm", "block.pair")}
FIRST = {
    "layer": ("skip; chain", "skip", "again; chain", "again", "skip2", "block.pair", "loss"),
    "path": ("str", "Path"),
    "file": ("new", "old"),
}
LEAVES = {"layer": ("skip; chain", "block.pair, skip", "loss, act", "skip2, gate", "act, skip, gate, block.pair")}


SHIFTED = {"shift": (0.7,)}
"""For a mean: that of what a norm has just normalized would be 0, but for rounding."""


def no_stack_for_the_norm(layer: str, hooks: str) -> bool:
    """The norm of a chain gets what a layer with two names puts out: not two outputs that a hook has stacked."""
    return layer == "again; chain" and hooks == "replacing"


def names_of(case: Any) -> list[str]:
    """The names of the layers in question, in an order in which they do not run. Behind a semicolon are others."""
    found: list[str] = case.layer.partition("; ")[0].split(", ")
    return found


def first_name(case: Any) -> str:
    """The name of the layer on which the caller has hooks."""
    if is_convolutional(case):
        return "stem" if case.hooks == "watching" else "head"
    return names_of(case)[0]


def size_of(case: Any, turned: bool = False) -> tuple[int, ...]:
    """The size of an input, or of one whose last dimensions are swapped."""
    if is_convolutional(case):
        return (2, 1, 2, 2)
    return (2, 3) if turned else (3, 2)


def repeats(case: Any) -> bool:
    """Whether a layer with two names is called several times."""
    return "act" in names_of(case) or "again" in names_of(case)


def one_name(draw: Draw, case: Any) -> tuple[str]:
    """The name of a layer, as an argument."""
    return (names_of(case)[0],)


def a_list_of_names(draw: Draw, case: Any) -> tuple[list[str]]:
    """The names of several layers, as an argument."""
    return (names_of(case),)


def no_name(draw: Draw, case: Any) -> tuple[()]:
    """No argument."""
    return ()


@told
def itself(call: Call, case: Any) -> Any:
    """For functions that return what there is to see."""
    return call


@told
def through_a_file(call: Call, case: Any) -> Any:
    """For a function that writes to a file: its result, the tensor in the file, and the names of all files."""
    import os
    from pathlib import Path
    from tempfile import TemporaryDirectory

    def save(model: nn.Module, name: str, x: Tensor) -> Any:
        with TemporaryDirectory() as folder:
            path = Path(folder, "kept") if case.path == "Path" else folder + "/kept"
            if case.file == "old":
                torch.save(x.detach(), path)
            shape = call(model, name, x, path)
            found = torch.load(path, weights_only=True) if os.path.exists(path) else "nothing"
            return shape, found, os.listdir(folder)

    return save


@told
def a_chain(case: Any) -> Any:
    """Layers one after the other. What is called `relu` overwrites in place what it gets."""
    model = nn.Sequential()
    if repeats(case):
        model.act = nn.Tanh()
    model.norm = nn.BatchNorm1d(2)
    if repeats(case):
        model.again = model.act
    else:
        model.skip = nn.Identity()
    model.relu = nn.ReLU(inplace=True)
    model.head = nn.Tanh()
    if hasattr(case, "shift"):
        nn.init.constant_(model.norm.bias, case.shift)
    return model


@told
def a_net(draw: Draw, case: Any) -> Any:
    """The class of a net with the layers in question, which overwrites each output in place."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if case.odd == "unused":
                self.spare = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "block": nn.ModuleDict({"pair": nn.Tanh()})})
            self.head = nn.Tanh()
            if "block.pair" in names_of(case):
                self.block = nn.ModuleDict({"pair": nn.PairwiseDistance()})
            if "skip" in names_of(case):
                self.skip = nn.Identity()
            if "skip2" in case.layer:
                self.skip2 = nn.Identity()
            if "loss" in names_of(case):
                self.loss = nn.MSELoss()
            if "gate" in names_of(case):
                self.gate: Any = nn.Tanh()
                self.gate.inner = nn.Flatten(0)
                self.gate.last = self.head
                self.gate.register_module("none", None)
                self.head.register_module("none", None)
            if repeats(case):
                # of the type of the head, or a layer that returns what it gets
                self.act = nn.Identity() if names_of(case) == ["again"] else nn.Tanh()
                self.again = self.act
            self.norm = nn.BatchNorm1d(2)
            if hasattr(case, "shift"):
                nn.init.constant_(self.norm.bias, case.shift)

        def forward(self, x: Tensor) -> Any:
            h = (self.norm(input=x) if case.odd == "keyword" else self.norm(x)).mul_(-0.5)
            if repeats(case):
                a, b = self.act(h), self.again(h)
                h = a.mul_(-0.5) + b.mul_(-0.5)
            if "skip" in names_of(case):
                h = self.skip(h[1:]).mul_(-0.5)
            if "skip2" in case.layer:
                h = self.skip2(h.mT).mul_(-0.5)
            if "gate" in names_of(case):
                h = self.gate(self.gate.inner(h)).mul_(-0.5)
            if "block.pair" in names_of(case):
                h = self.block["pair"](h, 2 * h).mul_(-0.5)
            if "loss" in names_of(case):
                h = self.loss(h, 2 * h).mul_(-0.5)
            if repeats(case):
                h = self.again(a[1:]).mul_(-0.5) + h.sum()
            if case.odd == "tuple":
                return self.head(h), x
            return {"out": self.head(h)} if case.odd == "dict" else self.head(h)

    return Net


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model of this class, and an input. Something with a graph comes out of each layer while grad mode is on."""
    if is_convolutional(case):
        model = a_net_with_convolutions(draw, case)
    elif is_chain(case):
        model = a_chain(case)
    else:
        Net = a_net(draw, case)
        model = Net()
    in_its_state(model, draw, case)
    if case.hooks == "watching":
        model.get_submodule(first_name(case)).register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        model.get_submodule(first_name(case)).register_forward_hook(
            lambda module, args, out: torch.stack([out, 2 * out])
        )
    if case.odd == "transposed":
        x = draw.tensor(*size_of(case, turned=True)).mT
    else:
        x = draw.tensor(3, 2, 2) if case.odd == "wide" else draw.tensor(*size_of(case))
    if case.odd == "frozen":
        x.requires_grad_()
    if case.grad_mode == "off":
        torch.set_grad_enabled(False)
    return model, x


def returned(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """Each call returns the outputs of its own run, and later calls leave them."""
    capture = function(call, case)
    model, x = a_model(draw, case)
    found = capture(model, *names(draw, case), x)
    yield "the result", found
    later = capture(model, *names(draw, case), draw.tensor(*size_of(case)))
    yield "the result of a later call", later
    yield "the result of the first call after that", found
    if type(found) is list:
        found.clear()  # one that outlives the call does not grow without end


def in_order(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """The keys come in the order of the run."""
    capture = function(call, case)
    model, x = a_model(draw, case)
    found = capture(model, *names(draw, case), x)
    yield "the keys", list(found)


def called_inside(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """A hook of the model makes such a call with another model."""
    import copy

    capture = function(call, case)
    model, x = a_model(draw, case)
    more = names(draw, case)
    y = draw.tensor(*size_of(case))
    other = copy.deepcopy(model)
    inner: list[Any] = []
    model.register_forward_hook(lambda *args: inner.append(capture(other, *more, y)))
    found = capture(model, *more, x)
    yield "the result around another call", found
    yield "the result of the call inside", inner


def run_once(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """The model runs once, to its end, as it does without the function."""
    capture = function(call, case)
    model, x = a_model(draw, case)
    ran: list[Any] = []
    flows: list[Any] = []
    model.register_forward_pre_hook(lambda module, args: flows.append(args[0].requires_grad))
    model.head.register_forward_hook(lambda module, args, out: ran.append(out.detach()))
    model.head.register_forward_hook(
        lambda module, args, out: flows.append(args[0].requires_grad or not torch.is_grad_enabled())
    )
    model.register_forward_hook(lambda module, args, out: ran.append("forward ends"))
    capture(model, *names(draw, case), x)
    yield "the outputs of the head, and whether forward ended", ran
    yield "whether gradients can flow into the model, and into the head", flows
    yield "the running mean of the norm", model.norm.running_mean


def left_alone(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """Nothing else of the caller changes."""
    capture = function(call, case)
    model, x = a_model(draw, case)
    more = names(draw, case)
    before = Watch(model=model, x=x, more=more)
    capture(model, *more, x)
    yield "by the call", before.differences()


def hooks_changed_in_the_run(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """What the caller registers or removes during the run stays so."""
    capture = function(call, case)
    model, x = a_model(draw, case)
    part = model.get_submodule(first_name(case))
    ran: list[str] = []
    first = part.register_forward_hook(lambda *args: ran.append("first"))

    def swap(*args: Any) -> None:
        first.remove()
        part.register_forward_hook(lambda *args: ran.append("second"))

    handle = model.register_forward_pre_hook(swap)
    capture(model, *names(draw, case), x)
    handle.remove()
    ran.clear()
    model(x)
    yield "which hooks run afterwards", ran


def model_raises(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """An exception of the model comes through, and nothing is left."""
    capture = function(call, case)
    model, x = a_model(draw, case)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    if case.failure in ("KeyboardInterrupt", "ValueError"):
        model.norm.register_forward_pre_hook(fails)
    else:
        model.head.register_forward_pre_hook(fails)
    before = Watch(model=model, x=x)
    came = None
    try:
        capture(model, *names(draw, case), x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()


def alone(call: Call, draw: Draw, case: Any) -> Seen:
    """A model may be a layer itself."""
    x = draw.tensor(3, 2)
    yield "the result for a model without children", call(nn.Flatten(), x)


def nothing_but_the_tensor(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """The file holds nothing else."""
    capture = function(call, case)
    model, x = a_model(draw, case)
    shape, found, files = capture(model, *names(draw, case), x)
    yield "the size of the tensor's storage in the file, in bytes", found.untyped_storage().nbytes()
