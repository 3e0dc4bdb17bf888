"""Models for functions that count calls, `function(model, x)`, in `graders.scenes.inspections.inspects_models`."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graders.scenes.chains import CallPart, Chain, Step
from graders.scenes.inspections import InspectedModel
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.models import in_mode
from graders.scenes.instruments.tensors import with_layout
from graders.scenes.results import copy_value
from graders.scenes.scene import Call
from graders.wire.draws import Rng


def counting_model(
    parts: dict[str, nn.Module], steps: list[Step], case: Any, x: Tensor, later: Tensor
) -> InspectedModel:
    """A model of these parts that logs its runs. After the steps it calls "trained", only in training mode, and "late".

    `x` and `later` are the inputs of the first and of the second inspection.
    """
    log, end, x = list[str](), nn.Identity(), with_layout(x, "transposed")

    def begin(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        log.append(f"a run on {h.flatten()[:2].tolist()}")
        return h

    def in_training(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        return call("trained", h) if model.training else h

    model = Chain({**parts, "end": end}, [begin, *steps, in_training, "late", "end"], case.passing, case.output)
    in_mode(model.to(x.dtype), case.mode)
    callers = CallersHooks(case.hooks).on_module(model, "the model").on_module(parts["late"], "a part")
    callers.log = log
    for register in (register_module_forward_pre_hook, register_module_forward_hook):
        register(lambda *args: None)  # hooks of the caller for all modules
    return InspectedModel(
        model=model,
        ask=lambda call: copy_value(call(model, x)),
        ask_again=lambda call: copy_value(call(model, later)),
        things={"model": model, "x": x},
        log=log,
        places={"at the end": end, "in the run": parts["late"]},
    )


def a_workshop(rng: Rng, case: Any) -> InspectedModel:
    """A model that calls registered modules, modules in a plain list, and one that it makes during the run."""
    layer, block, twin = (
        type(name, (base,), {"__qualname__": f"Workshop.{name}"})  # as if defined inside another class
        for name, base in zip((*rng.names(2), "Tanh"), (nn.Linear, nn.Sequential, nn.Softsign))  # two kinds of "Tanh"
    )
    parts = {
        "block": block(layer(3, 3), nn.Tanh()),
        "twin": twin(),
        "direct": nn.Softplus(),
        "stack": nn.ModuleList([nn.ELU(), nn.Identity()]),
        "never": nn.Hardtanh(),
        "trained": nn.Softshrink(),
        "late": nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout()),
    }
    in_a_list = [layer(3, 3, dtype=getattr(torch, case.dtype)), nn.Sequential(nn.Mish())]
    several: list[Step] = ["block", "twin", lambda call, h, x: in_a_list[0](h), lambda call, h, x: in_a_list[1](h)]
    steps: list[Step] = [
        lambda call, h, x: torch.relu(nn.Softplus.forward(parts["direct"], h)),  # not calls of modules
        *rng.shuffled([*several, "block", rng.choice(several)]),
        "stack.0",
        "stack.1",
        lambda call, h, x: nn.Sigmoid()(h),
    ]
    x, later = (rng.tensor(2, 2, 3, dtype=case.dtype) for _ in range(2))
    return counting_model(parts, steps, case, x, later)


def a_workload(rng: Rng, case: Any) -> InspectedModel:
    """A model with convolutions and linear layers, some used twice, nested, or with two names, and others to ignore."""
    size = 2 * rng.integer(2, 4)
    own_conv, own_linear = (type(name, (base,), {}) for name, base in zip(rng.names(2), (nn.Conv2d, nn.Linear)))
    wide: dict[str, Any] = {"kernel_size": rng.shuffled([2, 3]), "dilation": rng.shuffled([1, 2])}
    parts = {
        "first": own_conv(4, size, rng.shuffled([1, 3]), groups=2, padding=1),
        "again": nn.Conv2d(size, size, 3, padding="same", groups=rng.choice((1, size))),
        "transposed": nn.ConvTranspose2d(size, size, 2),
        "nested": nn.Sequential(nn.PReLU(), nn.Conv2d(size, size, **wide, stride=2, bias=False)),
        "along": nn.Conv1d(size, size, 1),
        "tokens": nn.Linear(size, size),
        "norm": nn.LayerNorm(size),
        "trained": nn.Linear(size, size),
        "late": own_linear(size, 1),
    }
    parts["alias"], parts["late"].never = parts["again"], nn.Linear(size, 3)
    steps: list[Step] = [
        *("first", "again", "transposed", "nested", "again"),
        lambda call, h, x: call("along", h.flatten(2)).transpose(1, 2),
        *("tokens", "norm", "tokens"),
        lambda call, h, x: F.linear(h, parts["trained"].get_parameter("weight")).mean(1),
    ]
    sizes = 4, rng.integer(8, 10), rng.integer(11, 13)
    x, later = (rng.tensor(batch, *sizes, dtype=case.dtype) for batch in rng.shuffled([2, 3]))
    return counting_model(parts, steps, case, x, later)


def linear_layers(call: Call, rng: Rng, case: Any, seen: dict[str, Any]) -> None:
    """Try single linear layers, on inputs with one and four dimensions and on zeros."""
    size, out, *rows = (rng.integer(2, 6) for _ in range(5))
    for shape in ((size,), (*rows, size)):
        seen[f"of a linear layer on {len(shape)} dimensions"] = call(nn.Linear(size, out), rng.tensor(*shape))
    seen["of a linear layer on zeros"] = call(nn.Linear(size, out), torch.zeros(rows[0], size))
