from __future__ import annotations

import os
from pathlib import Path

from graders.run.box_modules import write_box_modules


def test_a_kit_can_be_read_by_every_user_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        box_modules = write_box_modules(tmp_path / "modules")
    finally:
        os.umask(before)
    found = [path for path in box_modules.rglob("*") if path.suffix != ".pyc"]
    assert box_modules / "graders/nets/shapes_net.safetensors" in found
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in (box_modules, *box_modules.rglob("*")) if path.is_dir()} == {0o755}
