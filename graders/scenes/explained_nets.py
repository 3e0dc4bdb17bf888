"""Scenes for functions that explain a prediction of a small convolutional net."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.models import fill_grads
from graders.scenes.instruments.tensors import fill_grad
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import draw_parameters
from graders.wire.draws import Rng

CHANNELS, WIDTH, CLASSES = 3, 8, 4
"""The channels of an image, the channels of a layer, and the number of logits."""


class ReLU(nn.Module):
    """Has the name of `nn.ReLU`, but is not one."""

    def forward(self, x: Tensor) -> Tensor:
        """Call the function instead of a module."""
        return F.relu(x)


class Block(nn.Module):
    """A convolution and a ReLU in a ModuleList. Its output depends on its mode."""

    def __init__(self, inplace: bool) -> None:
        """`inplace` is whether the ReLU works in place."""
        super().__init__()
        self.parts = nn.ModuleList([nn.Conv2d(WIDTH, WIDTH, 1), nn.ReLU(inplace)])

    def forward(self, x: Tensor) -> Tensor:
        """The result of both, doubled in training mode."""
        for part in self.parts:
            x = part(x)
        return 2 * x if self.training else x


class Net(nn.Module):
    """Has a ReLU among its children that has two names, one in a block, and one in a Sequential.

    Its parts are not defined in the order in which they run, and one does not run. `case.layer` is the layer in
    question. If that is "in place", all ReLUs work in place; otherwise there is a skip connection around the first one.
    """

    def __init__(self, rng: Rng, case: Any) -> None:
        """Draw the parameters."""
        super().__init__()
        layer = vars(case).get("layer", "last")
        inplace = layer == "in place"
        self.skip = not inplace
        with torch.random.fork_rng(devices=[]):
            self.head = nn.Linear(WIDTH, CLASSES)
            self.unused = nn.Linear(1, 1)
            self.spare = self.relu = nn.ReLU(inplace)
            self.rest = nn.Sequential(
                nn.Conv2d(WIDTH, WIDTH, 1),
                nn.Tanh(),
                nn.MaxPool2d(3, stride=1, padding=1),
                nn.LeakyReLU(0.25),
                ReLU(),
                nn.Conv2d(WIDTH, WIDTH, 1),
                nn.ReLU(inplace),
            )
            self.stem = nn.Conv2d(CHANNELS, WIDTH, 3, stride=2, padding=1)
            self.block = Block(inplace)
        layers = {"block": self.block, "in place": self.block.parts[1], "inside": self.rest[0], "last": self.rest[-1]}
        self.layers = (layers[layer],)  # in a tuple, because an attribute would give it another name
        self.to(getattr(torch, case.dtype))
        draw_parameters(self, rng, low=-0.5, high=0.5, away=0.125, dtype=case.dtype, values="full")
        self.train(case.mode != "eval")
        if case.mode == "mixed":
            self.block.eval()
        if case.grad == "filled":
            fill_grads(self)
        if case.frozen == "all":
            self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """From images [B, 3, H, W] to logits [B, 4], doubled in training mode."""
        x = self.stem(x)
        x = self.relu(x) + x if self.skip else self.relu(x)
        logits: Tensor = self.head(self.rest(self.block(x)).sum((2, 3)))
        return 2 * logits if self.training else logits


def call_with_classes(call: Call, net: Net, x: Tensor, classes: Tensor) -> dict[str, Any]:
    """For `function(model, x, classes)`."""
    return {f"for the classes {', '.join(map(str, classes.tolist()))}": call(net, x, classes)}


def call_with_class(call: Call, net: Net, x: Tensor, classes: Tensor) -> dict[str, Any]:
    """For `function(model, x, cls)`."""
    return {f"for class {cls}": call(net, x, cls) for cls in dict.fromkeys(classes.tolist())}


def call_with_layer_and_class(call: Call, net: Net, x: Tensor, classes: Tensor) -> dict[str, Any]:
    """For `function(model, layer, x, cls)`."""
    return {f"for class {cls}": call(net, *net.layers, x, cls) for cls in dict.fromkeys(classes.tolist())}


@family(
    sections=(
        "{task}",
        "a later call starts afresh",
        "nothing of the caller changes",
        "an exception comes through and nothing is left",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "batch": (3, 1),
        "x_is": ("data", "a leaf"),
        "grad": ("filled", "empty"),
        "frozen": ("nothing", "all"),
        "mode": ("mixed", "eval", "train"),
        "hooks": ("watching", "replacing", "none"),
        "failure": ("KeyboardInterrupt", "own", "RuntimeError"),
    },
)
def explains_predictions(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    ask: Callable[[Call, Net, Tensor, Tensor], dict[str, Any]],
    backward: bool = False,
) -> None:
    """`ask` calls the learner's function, once for each class or for all classes together.

    With `backward` the caller has full backward hooks on a ReLU.
    """
    task, later, same, failing = seen.values()
    net = add_callers_hooks(Net(rng, case), case, backward)
    x, second = an_image(rng, case), an_image(rng, case)
    order = rng.shuffled(range(CLASSES))
    classes, others = (torch.tensor([one, two, one][: case.batch]) for one, two in (order[:2], order[2:]))
    before = Witness(net=net, x=x, classes=classes)
    task |= ask(call, net, x, classes) | ask(call, net, x, others)
    same["changed"] = before.changes()
    later |= ask(call, net, second, others)

    for where in ("forward", "backward"):
        failure = Failure(case.failure)
        breaking = net.register_forward_hook(raising_hook(failure, where))
        before = Witness(net=net, x=x)
        failing[f"an exception in the {where} pass"] = failure.outcome_during(lambda: ask(call, net, x, classes))
        failing[f"changed after an exception in the {where} pass"] = before.changes()
        breaking.remove()
    failing["after these exceptions"] = ask(call, net, x, others)


def add_callers_hooks(net: Net, case: Any, backward: bool) -> Net:
    """Register the caller's hooks; those on the layer in question, a ReLU and a weight only watch. Returns the net."""
    CallersHooks(case.hooks).on_module(net, "the net").on_module(net.stem, "the first layer")
    watching = CallersHooks("none" if case.hooks == "none" else "watching").on_module(net.layers[0], "the layer")
    watching.on_module(net.relu, "a ReLU", backward=backward)
    if net.head.weight.requires_grad:
        watching.on_parameter(net.head.weight, "a weight")
    return net


def an_image(rng: Rng, case: Any) -> Tensor:
    """A batch of images; data do not lie in memory as a new tensor does."""
    if case.x_is == "data":
        return rng.tensor(case.batch, CHANNELS, 9, 7, dtype=case.dtype, values="full").mT
    x = rng.tensor(case.batch, CHANNELS, 7, 9, dtype=case.dtype, values="full")
    fill_grad(x.requires_grad_())
    return x


def raising_hook(failure: Failure, where: str) -> Callable[..., None]:
    """A forward hook that raises, or makes the backward pass raise."""

    def hook(module: nn.Module, args: Any, output: Tensor) -> None:
        if where == "forward":
            failure.raise_if_due()
        elif output.requires_grad:
            output.register_hook(lambda grad: failure.raise_if_due())  # type: ignore[no-untyped-call]  # of torch

    return hook
