"""Run the matrix: see the package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from tests.site.matrix import training  # noqa: F401  the first columns
from tests.site.matrix.hooks import HOOKS, KEPT, SEEN, Hook
from tests.site.matrix.transformed import TOGETHER, WITHOUT_STEP
from tests.site.matrix.trial import SITUATIONS, Trial, noted

DATA = Path(__file__).parent.parent.parent.parent / "docs" / "matrix.json"
NOT_CALLED = re.compile("For backward hooks to be called|non-full backward hook")
"""A warning that a hook is not called, or not as it should be."""


def outcome(hook: Hook, key: str) -> tuple[str, str]:
    """What becomes of a hook in a situation, and the words of the error or warning."""
    module: Any = nn.modules.module
    module._global_is_full_backward_hook = None
    if "compile" in key:
        torch._dynamo.reset()
    trial = Trial(hook)
    trial.forget()
    error = ""
    with noted() as warned:
        try:
            SITUATIONS[key][1](trial)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        SEEN.extend(tensor.grad for tensor in KEPT if tensor.grad is not None)
    if trial.handle is not None:
        trial.handle.remove()
    SEEN[:] = [value for value in SEEN if type(value) not in (FakeTensor, FunctionalTensor)]  # from older compilers
    about = [text for text in warned if NOT_CALLED.search(text)]
    if hook.key == "step" and key in WITHOUT_STEP:
        return "–", ""
    if error:
        return "raises", error
    if not SEEN:
        return ("warns" if about else "silent"), " ".join(about[:1])
    wanted = trial.truth.get(hook.value or "", [torch.empty(0)] if hook.key == "old" else [])
    right = not wanted or all(any(is_same(seen, one, trial.tolerance) for one in wanted) for seen in SEEN)
    return ("called" if right else "wrong"), ""


def is_same(seen: torch.Tensor | None, wanted: torch.Tensor, tolerance: float) -> bool:
    if seen is None or seen.shape != wanted.shape:
        return False
    return torch.allclose(seen.detach().to(wanted.dtype), wanted, rtol=tolerance, atol=tolerance / 100)


def run_all(rank: int, store: str) -> dict[str, dict[str, tuple[str, str]]]:
    """All cells, as rank 0; those that need two processes, as rank 1."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    together = torch.distributed.is_available() and torch.__version__ >= "2.6"  # before that, no fully_shard
    if together:
        torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for key in SITUATIONS:
        if key in TOGETHER if rank else together or key not in TOGETHER:
            found[key] = {hook.key: outcome(hook, key) for hook in HOOKS}
    return found


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--rank-1"]:
        run_all(1, sys.argv[2])
        os._exit(0)
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        with subprocess.Popen([sys.executable, "-m", "tests.site.matrix", "--rank-1", store]):
            found = run_all(0, store)
    words = {key: {hook: cell[0] for hook, cell in cells.items()} for key, cells in found.items()}
    if "--write" in sys.argv:
        data = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {"notes": []}
        if torch.__version__ >= "2.13":
            data["hooks"] = {hook.key: hook.title for hook in HOOKS}
            data["situations"] = {key: title for key, (title, _) in SITUATIONS.items()}
            data["cells"] = words
        else:
            data["older"] = {
                key: {hook: cell for hook, cell in cells.items() if cell != data["cells"][key][hook]}
                for key, cells in words.items()
                if cells != data["cells"][key]
            }
        text = json.dumps(data, indent=1, ensure_ascii=False)
        flat = re.sub(
            r"\{[^{}[\]]*\}|\[[^{}[\]]*\]", lambda part: " ".join(part[0].split()), text
        )  # a line for each row
        DATA.write_text(flat + "\n", encoding="utf-8")
    if "--why" in sys.argv:
        for key, cells in found.items():
            for hook, (word, why) in cells.items():
                print(f"{key:11} {hook:13} {word:7} {why[:150]!r}")
    else:
        print("\n" + json.dumps(words), flush=True)
    os._exit(0)  # process groups and compilers leave threads behind


if __name__ == "__main__":
    main()
