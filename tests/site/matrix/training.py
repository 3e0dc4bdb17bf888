"""The columns of the first table: situations of training. Each puts the hook of a `Trial` on, and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.site.matrix.trial import Net, Trial, situation


@situation("plain", "plain training")
def plain(trial: Trial) -> None:
    trial.train()


def without(mode: Callable[[], Any], trial: Trial) -> None:
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
    trial.net.first.requires_grad_(False)
    trial.net.layer.requires_grad_(False)
    trial.train()


@situation("first", "the first layer", compare=False)
def first(trial: Trial) -> None:
    trial.net.layer.watched = False
    trial.net.first.watched = True
    trial.put(trial.net.first)
    trial.go()


@situation("grad", "`autograd.grad` for its weight")
def autograd_grad(trial: Trial) -> None:
    trial.put()
    with trial.hook.around():
        loss = trial.net(trial.x)
    torch.autograd.grad(loss, trial.net.layer.weight)


@situation("accumulate", "the second of two `backward()`")
def accumulate(trial: Trial) -> None:
    trial.put()
    trial.go(step=False)
    trial.forget()
    trial.go()


@situation("method", "`layer.forward(x)`")
def method(trial: Trial) -> None:
    trial.net.call = lambda layer, h: layer.forward(h)
    trial.train()


@situation("keyword", "`layer(input=x)`")
def keyword(trial: Trial) -> None:
    trial.net.call = lambda layer, h: layer(input=h)
    trial.train()


@situation("twice", "used twice in one pass")
def twice(trial: Trial) -> None:
    trial.compare(calls=2)
    trial.net.call = lambda layer, h: layer(torch.sin(layer(h)))
    trial.train()


class InDict(nn.Linear):
    def forward(self, input: torch.Tensor) -> Any:
        return {"y": super().forward(input)}


@situation("dict", "its output is a dict")
def in_dict(trial: Trial) -> None:
    trial.use(Net(InDict(4, 4), lambda layer, h: layer(h)["y"]))
    trial.train()


@situation("lstm", "an LSTM, loss on `h_n`")
def lstm(trial: Trial) -> None:
    trial.use(Net(nn.LSTM(4, 4), lambda layer, h: layer(h)[1][0]))
    trial.train()


@situation("inplace", "output changed in place")
def inplace(trial: Trial) -> None:
    trial.net.then = torch.sigmoid_
    trial.train()


def checkpointed(trial: Trial, reentrant: bool) -> None:
    trial.x.requires_grad_()
    trial.train(lambda x: checkpoint(trial.net, x, use_reentrant=reentrant))


@situation("checkpoint", "`checkpoint`")
def checkpoint_new(trial: Trial) -> None:
    checkpointed(trial, reentrant=False)


@situation("reentrant", "… reentrant")
def checkpoint_reentrant(trial: Trial) -> None:
    checkpointed(trial, reentrant=True)
