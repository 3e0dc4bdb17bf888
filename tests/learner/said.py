"""Run the programs of `graders/learner/messages.md`, each on its own; `python -m tests.learner.said` prints a JSON.

A process of its own, because global hooks, compilers and process groups leave something behind.
"""

from __future__ import annotations

import copy
import io
import json
import linecache
import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from graders.learner.explain import sections


def run(program: str) -> list[str]:
    """What a program says: its warnings and its error, each with its kind, as PyTorch prints them."""
    module: Any = nn.modules.module
    module._global_is_full_backward_hook = None
    torch.compiler.reset()
    names = {"copy": copy, "io": io, "torch": torch, "nn": nn, "checkpoint": checkpoint, "__name__": "__main__"}
    names |= {"layer": nn.Linear(2, 2), "x": torch.ones(1, 2, requires_grad=True)}
    linecache.cache["<program>"] = (
        len(program),
        None,
        program.splitlines(keepends=True),
        "<program>",
    )  # for TorchScript
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(program, "<program>", "exec"), names)
        except Exception as error:
            kind = type(error)
            said.append(f"{'' if kind.__module__ == 'builtins' else kind.__module__ + '.'}{kind.__name__}: {error}")
    said += [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    return [" ".join(text.split()) for text in said]


if __name__ == "__main__":
    torch.set_num_threads(1)
    if together := torch.distributed.is_available():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    found = {section.title: run(section.program) for section in sections() if section.program}
    if together:
        torch.distributed.destroy_process_group()
    print("\n" + json.dumps(found), flush=True)
