"""Tier B in most containers: an ordinary user, whom the filter of a container forbids namespaces and mounts."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from graders.sandbox.outside.tiers import missing_for_tier

pytestmark = pytest.mark.skipif(bool(missing_for_tier("B")), reason=missing_for_tier("B"))

USER = 400_003
INSIDE = """
import json, sys
from graders.sandbox.inside import confine, system_calls
from tests.sandbox.outside import test_tier_b_in_containers as test
if json.loads(sys.argv[1]):
    confine.give_up_root(test.USER, keep_reading=True)  # this Python may lie in a folder of root's
system_calls._install_filter(test.container_filter())
print(json.dumps(test.found_in_tier_b()))
"""
CELLS = [
    "import os, shutil",
    "open('a', 'w').close()\nshutil.copy('a', 'b')\nshutil.copy2('a', 'c')",
    "!echo hello > said\nassert open('said').read() == 'hello\\n'",
    "try:\n    os.openpty()\nexcept OSError:\n    raise ValueError('no terminal')",
]


def container_filter() -> bytes:
    """Docker's, as far as boxes are concerned: no namespaces, no mounts, no keys, no userfaultfd, no io_uring."""
    column = os.uname().machine != "x86_64"
    refused = {"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "unshare": (272, 97),
               "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
               "mount_setattr": (442, 442), "keyctl": (250, 219), "userfaultfd": (323, 282),
               "io_uring_setup": (425, 425), "bpf": (321, 280)}  # fmt: skip
    load, equal, any_bit, answer = 0x20, 0x15, 0x45, 0x06
    allow, eperm, enosys, namespaces = 0x7FFF0000, 0x00050001, 0x00050026, 0x7E020000
    parts = [(load, 0, 0, 0)]
    for call in refused.values():
        parts += [(equal, 0, 1, call[column]), (answer, 0, 0, eperm)]
    parts += [(equal, 0, 1, 435), (answer, 0, 0, enosys)]  # clone3
    parts += [(equal, 0, 3, (56, 220)[column]), (load, 0, 0, 16), (any_bit, 0, 1, namespaces), (answer, 0, 0, eperm)]
    return b"".join(struct.pack("<HBBI", *part) for part in [*parts, (answer, 0, 0, allow)])


def found_in_tier_b() -> list[object]:
    """What the self-test says of forked boxes and of started ones, and what becomes of `CELLS` in the former."""
    from graders.core.transcript import read_transcript
    from graders.sandbox.outside.box_modules import box_modules_folder
    from graders.sandbox.outside.runner import BoxRunner
    from graders.sandbox.outside.tier_choice import self_test
    from graders.sandbox.outside.warm_process import WarmProcess

    with box_modules_folder() as box_modules, WarmProcess(box_modules) as warm:
        runners = [BoxRunner(box_modules, "B", warm=process) for process in (warm, None)]
        cells = read_transcript(runners[0].run(CELLS, []).frames).cells
        return [*map(self_test, runners), *(cell.message or cell.status for cell in cells)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder of that user, with a short path."""
    found = Path(tempfile.mkdtemp())
    if os.getuid() == 0:
        os.chown(found, USER, USER)
    yield found
    shutil.rmtree(found)


def test_tier_b_holds_and_an_honest_notebook_runs(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INSIDE, json.dumps(os.getuid() == 0)],
        env=os.environ | {"TMPDIR": str(folder), "HOME": str(folder)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["", "", "ok", "ok", "ok", "ValueError: no terminal"]
