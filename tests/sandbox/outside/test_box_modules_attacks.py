"""The modules of boxes and the warm process, as a notebook sees them: nothing can be put there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from graders.core.transcript import read_transcript
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import WARM_TIERS, missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess

TIERS = [tier for tier in WARM_TIERS if tier != "D" and not missing_for_tier(tier, warm=True)]

POISON = """
import os
from pathlib import Path
import graders
box_modules = Path(graders.__file__).parents[1]
module = box_modules / "graders/sandbox/inside/session.py"
own = Path("own.py")
own.write_text("raise SystemExit('poisoned')")
done = []
def attempt(name, action):
    try:
        action()
    except OSError:
        return
    done.append(name)
for name, action in {
    "write": lambda: module.write_text(own.read_text()),
    "append": lambda: open(module, "a").close(),
    "bytecode": lambda: open(next((box_modules / "graders/sandbox/inside/__pycache__").iterdir()), "r+b").close(),
    "add": lambda: (box_modules / "sitecustomize.py").write_text("import own"),
    "replace": lambda: os.replace(own, module),
    "link": lambda: os.symlink(own.absolute(), box_modules / "torch.py"),
    "remove": lambda: module.unlink(),
    "rename": lambda: (box_modules / "graders").rename(box_modules / "before"),
    "swap": lambda: box_modules.rename(box_modules.with_name("box_modules")),
    "mode": lambda: box_modules.chmod(0o777),
}.items():
    attempt(name, action)
raise ValueError(done)
"""

KNOCK = """
import ctypes, os, socket
sequenced = []
for number in range(64):
    try:
        one = socket.socket(fileno=os.dup(number))
        if one.family == socket.AF_UNIX and one.type == socket.SOCK_SEQPACKET:
            sequenced.append(number)
    except OSError:
        pass
taken = []
libc = ctypes.CDLL(None, use_errno=True)
for process in range(max(1, os.getpid() - 200), os.getpid()):
    try:
        handle = os.pidfd_open(process)
    except OSError:
        continue
    for number in range(3, 12):
        if libc.syscall(438, handle, number, 0) >= 0:  # pidfd_getfd
            taken.append((process, number))
raise ValueError(sequenced, taken)
"""


def digest(box_modules: Path) -> str:
    """Of all names, permissions and contents in the folder of modules."""
    found = hashlib.sha256()
    for path in sorted(box_modules.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        found.update(repr((str(path), path.lstat().st_mode, content)).encode())
    return found.hexdigest()


@pytest.mark.parametrize("tier", TIERS)
def test_a_notebook_changes_nothing_in_the_kit_and_reaches_no_socket_of_the_warm_process(
    tier: str, box_modules: Path, warm: WarmProcess
) -> None:
    BoxRunner(box_modules, tier, warm=warm).run(["x = 1"], [])  # whatever is still being prepared is there afterwards
    before = digest(box_modules)
    for process in (warm, None) if not missing_for_tier(tier) else (warm,):
        cells = read_transcript(BoxRunner(box_modules, tier, warm=process).run([POISON, KNOCK], []).frames).cells
        assert [cell.message for cell in cells] == ["ValueError: []", "ValueError: ([], [])"]
    assert digest(box_modules) == before
    (cell,) = read_transcript(BoxRunner(box_modules, tier, warm=warm).run(["x = 1"], []).frames).cells
    assert cell.status == "ok"
