"""docs/api.md has each name that PyTorch has for hooks, with its signature."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

TEXT = (Path(__file__).parent.parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.+?)$(.*?)(?=^#|\Z)", TEXT, re.M | re.S))
SHOWN = [
    (title, line)
    for title, body in ENTRIES.items()
    for block in re.findall(r"^```python\n(.*?)^```", body, re.M | re.S)
    for line in block.splitlines()
]
NEWEST = "2.13"
"""The version whose signatures the page shows."""
NO_HOOKS = {"warn_if_has_hooks", "BackwardHook", "join_hook", "profile_hook_step"}
"""Names that have to do with hooks, but that nobody calls in order to have one."""


def owners() -> dict[str, Any]:
    """Where hooks are registered, by the name that the page puts in front; functions of a module have none."""
    found = {
        "Module": nn.Module,
        "Tensor": torch.Tensor,
        "Node": torch.autograd.graph.Node,
        "Optimizer": torch.optim.Optimizer,
        "RemovableHandle": torch.utils.hooks.RemovableHandle,
        " modules": nn.modules.module,
        " graph": torch.autograd.graph,
        " optimizers": importlib.import_module("torch.optim.optimizer"),
        " hooks": torch.utils.hooks,
    }
    if torch.distributed.is_available():
        fsdp = importlib.import_module("torch.distributed.fsdp")
        found["DistributedDataParallel"] = nn.parallel.DistributedDataParallel
        found["FullyShardedDataParallel"] = fsdp.FullyShardedDataParallel
        found["FSDPModule"] = getattr(fsdp, "FSDPModule", None)
    return found


def names(owner: Any) -> set[str]:
    """The public functions of an owner for hooks."""
    own = {name for name in dir(owner) if "hook" in name.lower() and not name.startswith("_")} - NO_HOOKS
    inherited = set(dir(nn.Module)) if owner is not nn.Module else set()  # DDP is a module, too
    return {name for name in own - inherited if name.islower() and callable(getattr(owner, name))}


def known(line: str) -> Any:
    """The function of a line of the page, None if this PyTorch does not have it."""
    prefix, _, name = line.partition("(")[0].rpartition(".")
    places = [owners().get(prefix)] if prefix else [owner for key, owner in owners().items() if key.startswith(" ")]
    return next((getattr(place, name) for place in places if hasattr(place, name)), None)


@pytest.mark.parametrize(("title", "line"), SHOWN)
def test_a_signature_is_as_shown(title: str, line: str) -> None:
    function = known(line)
    if function is None or torch.__version__ < NEWEST:
        since = re.search(r"[Ss]ince \|? ?(\d+\.\d+)", ENTRIES[title])
        assert since
        if torch.__version__ < (since[1]):
            pytest.skip(f"new in {since[1]}")
        if torch.__version__ < NEWEST:
            assert function is not None or "FSDP" in line
            return
    assert function is not None
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C
        assert line.endswith("()")
        return
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    shown = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    assert line == f"{line.partition('(')[0]}{shown}".replace("'", '"')


def test_nothing_that_pytorch_has_is_missing() -> None:
    shown = {line.partition("(")[0].rpartition(".")[2] for _, line in SHOWN}
    assert {name for owner in owners().values() for name in names(owner)} - shown == set()


def test_each_entry_says_since_when_and_what_calls_it() -> None:
    assert len(ENTRIES) > 30
    for title, body in ENTRIES.items():
        assert re.search(r"[Ss]ince", body), title
        assert "| called |" in body or ", for every module." in body, title
