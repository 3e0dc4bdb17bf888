"""The columns of the matrix: ways to run a model. Each takes a `Trial`, puts the hook on, and runs."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from tests.site.matrix.hooks import KEPT, SEEN, Hook, Target, tensor_in

SITUATIONS: dict[str, tuple[str, Callable[[Trial], None]]] = {}
"""By key, in the order of the page: the title, and what runs it."""


class Net(nn.Module):
    """A layer before the watched one, the watched layer, and one after it."""

    def __init__(self, layer: nn.Module | None = None, call: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)
        self.layer = nn.Linear(4, 4) if layer is None else layer
        self.layer.watched = True
        self.call, self.then = call, torch.sigmoid

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The loss."""
        h = torch.tanh(self.first(x))
        y = self.layer(h) if self.call is None else self.call(self.layer, h)
        return self.last(self.then(y)).sum()


class Plain(nn.Module):
    """The same as `Net`, for TorchScript."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.layer.watched = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The loss."""
        return self.last(torch.sigmoid(self.layer(torch.tanh(self.first(x))))).sum()


class Trial:
    """One cell: a model, an input, a hook; and what a plain pass without hooks gives."""

    def __init__(self, hook: Hook) -> None:
        torch.manual_seed(0)
        self.hook, self.net, self.x = hook, Net(), torch.randn(2, 3)
        self.truth: dict[str, list[torch.Tensor]] = {}
        self.tolerance = 1e-4
        self.handle: Any = None

    def use(self, net: Any) -> None:
        """Another model."""
        self.net = net

    def compare(self, calls: int = 1) -> None:
        """Compute what the hook should see, without any hook."""
        layer, h = self.net.layer, torch.tanh(self.net.first(self.x))
        inputs, outputs = [h], [tensor_in(layer(h))]
        for _ in range(calls - 1):
            inputs.append(torch.sin(outputs[-1]))
            outputs.append(tensor_in(layer(inputs[-1])))
        loss = self.net.last(torch.sigmoid(outputs[-1])).sum()
        *gradients, weight = torch.autograd.grad(loss, (*inputs, *outputs, next(layer.parameters())))
        self.truth = {"input": inputs, "output": outputs, "weight": [weight]}
        self.truth |= {"to_input": gradients[:calls], "to_output": gradients[calls:]}
        self.truth = {name: [value.detach().clone() for value in values] for name, values in self.truth.items()}

    def put(self, layer: Any = None) -> None:
        """Register the hook, on the layer or on this one."""
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.0)
        self.handle = self.hook.put(Target(self.net.layer if layer is None else layer, self.optimizer))

    def forget(self) -> None:
        """Count from here on."""
        SEEN.clear()
        KEPT.clear()

    def go(self, run: Callable[..., Any] | None = None, step: bool = True) -> None:
        """Forward, backward, and a step; `run` takes the input and gives the loss."""
        with self.hook.around():
            loss = (self.net if run is None else run)(self.x)
        loss.backward()
        if step:
            self.optimizer.step()


def situation(key: str, title: str) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Add a column."""

    def add(run: Callable[[Trial], None]) -> Callable[[Trial], None]:
        SITUATIONS[key] = (title, run)
        return run

    return add


@situation("plain", "plain training")
def plain(trial: Trial) -> None:
    trial.compare()
    trial.put()
    trial.go()


def without(mode: Callable[[], Any], trial: Trial) -> None:
    trial.compare()
    trial.put()
    with mode(), trial.hook.around():
        trial.net(trial.x)


@situation("no_grad", "`no_grad`")
def no_grad(trial: Trial) -> None:
    without(torch.no_grad, trial)


@situation("inference", "`inference_mode`")
def inference(trial: Trial) -> None:
    without(torch.inference_mode, trial)


@situation("frozen", "it and all before it frozen")
def frozen(trial: Trial) -> None:
    trial.compare()
    trial.net.first.requires_grad_(False)
    trial.net.layer.requires_grad_(False)
    trial.put()
    trial.go()


@situation("first", "the first layer")
def first(trial: Trial) -> None:
    trial.net.layer.watched = False
    trial.net.first.watched = True
    trial.put(trial.net.first)
    trial.go()


@situation("grad", "`autograd.grad` for its weight")
def autograd_grad(trial: Trial) -> None:
    trial.compare()
    trial.put()
    with trial.hook.around():
        loss = trial.net(trial.x)
    torch.autograd.grad(loss, trial.net.layer.weight)


@situation("accumulate", "the second of two `backward()`")
def accumulate(trial: Trial) -> None:
    trial.compare()
    trial.put()
    trial.go(step=False)
    trial.forget()
    trial.go()


@situation("method", "`layer.forward(x)`")
def method(trial: Trial) -> None:
    trial.compare()
    trial.net.call = lambda layer, h: layer.forward(h)
    trial.put()
    trial.go()


@situation("keyword", "`layer(input=x)`")
def keyword(trial: Trial) -> None:
    trial.compare()
    trial.net.call = lambda layer, h: layer(input=h)
    trial.put()
    trial.go()


@situation("twice", "used twice in one pass")
def twice(trial: Trial) -> None:
    trial.compare(calls=2)
    trial.net.call = lambda layer, h: layer(torch.sin(layer(h)))
    trial.put()
    trial.go()


class InDict(nn.Linear):
    def forward(self, input: torch.Tensor) -> Any:
        return {"y": super().forward(input)}


@situation("dict", "its output is a dict")
def in_dict(trial: Trial) -> None:
    trial.use(Net(InDict(4, 4), lambda layer, h: layer(h)["y"]))
    trial.compare()
    trial.put()
    trial.go()


@situation("lstm", "an LSTM, loss on `h_n`")
def lstm(trial: Trial) -> None:
    trial.use(Net(nn.LSTM(4, 4), lambda layer, h: layer(h)[1][0]))
    trial.compare()
    trial.put()
    trial.go()


@situation("inplace", "output changed in place")
def inplace(trial: Trial) -> None:
    trial.compare()
    trial.net.then = torch.sigmoid_
    trial.put()
    trial.go()


def checkpointed(trial: Trial, reentrant: bool) -> None:
    trial.compare()
    trial.x.requires_grad_()
    trial.put()
    trial.go(lambda x: checkpoint(trial.net, x, use_reentrant=reentrant))


@situation("checkpoint", "`checkpoint`")
def checkpoint_new(trial: Trial) -> None:
    checkpointed(trial, reentrant=False)


@situation("reentrant", "… reentrant")
def checkpoint_reentrant(trial: Trial) -> None:
    checkpointed(trial, reentrant=True)


@situation("compile", "`compile`, hook first")
def compile_later(trial: Trial) -> None:
    trial.compare()
    trial.put()
    trial.go(torch.compile(trial.net, backend="aot_eager"))


@situation("compiled", "hook after the first call")
def compile_first(trial: Trial) -> None:
    trial.compare()
    compiled = torch.compile(trial.net, backend="aot_eager")
    compiled(trial.x).backward()
    trial.net.zero_grad()
    trial.put()
    trial.go(compiled)


@situation("trace", "`jit.trace`")
def trace(trial: Trial) -> None:
    trial.use(Plain())
    trial.compare()
    trial.put()
    traced = torch.jit.trace(trial.net, trial.x, check_trace=False)
    trial.forget()
    trial.go(traced)


@situation("script", "`jit.script`")
def script(trial: Trial) -> None:
    trial.use(Plain())
    trial.compare()
    trial.put()
    trial.go(torch.jit.script(trial.net))


@situation("export", "`export`")
def export(trial: Trial) -> None:
    trial.use(Plain())
    trial.compare()
    trial.put()
    exported = torch.export.export(trial.net, (trial.x,)).module()
    trial.forget()
    trial.go(exported)


@situation("func_grad", "`func.grad`")
def func_grad(trial: Trial) -> None:
    trial.put()
    with trial.hook.around():
        torch.func.grad(trial.net)(trial.x)


@situation("vmap", "`vmap`")
def vmap(trial: Trial) -> None:
    trial.put()
    trial.go(lambda x: torch.vmap(trial.net)(x).sum())


@situation("jvp", "`func.jvp`")
def jvp(trial: Trial) -> None:
    trial.put()
    with trial.hook.around():
        torch.func.jvp(trial.net, (trial.x,), (torch.ones_like(trial.x),))


@situation("functional", "`functional_call`")
def functional(trial: Trial) -> None:
    trial.compare()
    trial.put()
    others = {name: value.detach().clone().requires_grad_() for name, value in trial.net.named_parameters()}
    trial.go(lambda x: functional_call(trial.net, others, (x,)))


@situation("autocast", "`autocast`")
def autocast(trial: Trial) -> None:
    trial.compare()
    trial.tolerance = 0.05
    trial.put()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trial.go()


@situation("scaler", "`GradScaler`")
def scaler(trial: Trial) -> None:
    trial.compare()
    trial.put()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with trial.hook.around():
        loss = trial.net(trial.x)
    scaler.scale(loss).backward()
    scaler.step(trial.optimizer)


@situation("deepcopy", "`deepcopy`, the copy")
def deepcopied(trial: Trial) -> None:
    trial.compare()
    trial.put()
    trial.optimizer = copy.deepcopy(trial.optimizer)
    trial.go(copy.deepcopy(trial.net))


@situation("pickle", "`torch.save`, `load`")
def pickled(trial: Trial) -> None:
    trial.use(Plain())
    trial.compare()
    trial.put()
    torch.save((trial.net, trial.optimizer), file := io.BytesIO())
    file.seek(0)
    loaded, trial.optimizer = torch.load(file, weights_only=False)
    trial.go(loaded)


@situation("assign", "`load_state_dict`, `assign`")
def assigned(trial: Trial) -> None:
    trial.compare()
    trial.put()
    trial.net.load_state_dict({name: value.clone() for name, value in trial.net.state_dict().items()}, assign=True)
    trial.net.requires_grad_(True)
    trial.go()


@situation("cast", "`to(float64)`")
def cast(trial: Trial) -> None:
    trial.compare()
    trial.put()
    trial.net.double()
    trial.x = trial.x.double()
    trial.go()


@situation("ddp", "DDP")
def ddp(trial: Trial) -> None:
    rank = torch.distributed.get_rank()
    trial.x = trial.x * (1 + 2 * rank)
    trial.compare()
    (weight,) = trial.truth["weight"]
    torch.distributed.all_reduce(weight)
    weight /= 2
    trial.put()
    trial.go(nn.parallel.DistributedDataParallel(trial.net))


@situation("fsdp", "FSDP (`fully_shard`)")
def fsdp(trial: Trial) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(trial.net.layer, mesh=(mesh := init_device_mesh("cpu", (2,))))
    fully_shard(trial.net, mesh=mesh)
    trial.put()
    trial.go()


WITHOUT_STEP = ("no_grad", "inference", "grad", "func_grad", "jvp")
"""The situations in which no optimizer takes a step."""
TOGETHER = ("ddp", "fsdp")
"""The situations that need two processes."""


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """The warnings of what runs inside."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        texts: list[str] = []
        yield texts
    texts += [str(warning.message) for warning in caught]
