"""The columns of the second table: compiled, transformed, copied and distributed models."""

from __future__ import annotations

import copy
import io

import torch
from torch import nn
from torch.func import functional_call

from tests.site.matrix.trial import Plain, Trial, situation

WITHOUT_STEP = ("no_grad", "inference", "grad", "func_grad", "jvp")
"""The situations in which no optimizer takes a step."""
TOGETHER = ("ddp", "fsdp")
"""The situations that need two processes."""


@situation("compile", "`compile`, hook first")
def compile_later(trial: Trial) -> None:
    trial.put()
    trial.go(torch.compile(trial.net, backend="aot_eager"))


@situation("compiled", "hook after the first call")
def compile_first(trial: Trial) -> None:
    compiled = torch.compile(trial.net, backend="aot_eager")
    compiled(trial.x).backward()
    trial.net.zero_grad()
    trial.train(compiled)


@situation("trace", "`jit.trace`")
def trace(trial: Trial) -> None:
    trial.use(Plain())
    trial.put()
    traced = torch.jit.trace(trial.net, trial.x, check_trace=False)
    trial.forget()
    trial.go(traced)


@situation("script", "`jit.script`")
def script(trial: Trial) -> None:
    trial.use(Plain())
    trial.put()
    trial.go(torch.jit.script(trial.net))


@situation("export", "`export`")
def export(trial: Trial) -> None:
    trial.use(Plain())
    trial.put()
    exported = torch.export.export(trial.net, (trial.x,)).module()
    trial.forget()
    trial.go(exported)


@situation("func_grad", "`func.grad`", compare=False)
def func_grad(trial: Trial) -> None:
    trial.put()
    with trial.hook.around():
        torch.func.grad(trial.net)(trial.x)


@situation("vmap", "`vmap`", compare=False)
def vmap(trial: Trial) -> None:
    trial.train(lambda x: torch.vmap(trial.net)(x).sum())


@situation("jvp", "`func.jvp`", compare=False)
def jvp(trial: Trial) -> None:
    trial.put()
    with trial.hook.around():
        torch.func.jvp(trial.net, (trial.x,), (torch.ones_like(trial.x),))


@situation("functional", "`functional_call`")
def functional(trial: Trial) -> None:
    trial.put()
    others = {name: value.detach().clone().requires_grad_() for name, value in trial.net.named_parameters()}
    trial.go(lambda x: functional_call(trial.net, others, (x,)))


@situation("autocast", "`autocast`")
def autocast(trial: Trial) -> None:
    trial.tolerance = 0.05
    trial.put()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trial.go()


@situation("scaler", "`GradScaler`")
def scaler(trial: Trial) -> None:
    trial.put()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with trial.hook.around():
        loss = trial.net(trial.x)
    scaler.scale(loss).backward()
    scaler.step(trial.optimizer)


@situation("deepcopy", "`deepcopy`, the copy")
def deepcopied(trial: Trial) -> None:
    trial.put()
    trial.optimizer = copy.deepcopy(trial.optimizer)
    trial.go(copy.deepcopy(trial.net))


@situation("pickle", "`torch.save`, `load`")
def pickled(trial: Trial) -> None:
    trial.use(Plain())
    trial.put()
    torch.save((trial.net, trial.optimizer), file := io.BytesIO())
    file.seek(0)
    loaded, trial.optimizer = torch.load(file, weights_only=False)
    trial.go(loaded)


@situation("assign", "`load_state_dict`, `assign`")
def assigned(trial: Trial) -> None:
    trial.put()
    trial.net.load_state_dict({name: value.clone() for name, value in trial.net.state_dict().items()}, assign=True)
    trial.net.requires_grad_(True)
    trial.go()


@situation("cast", "`to(float64)`")
def cast(trial: Trial) -> None:
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


@situation("fsdp", "FSDP (`fully_shard`)", compare=False)
def fsdp(trial: Trial) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(trial.net.layer, mesh=(mesh := init_device_mesh("cpu", (2,))))
    fully_shard(trial.net, mesh=mesh)
    trial.train()
