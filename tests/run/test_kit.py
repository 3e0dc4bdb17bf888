from __future__ import annotations

import os
from pathlib import Path

from graders.run.kit import make_kit


def test_a_kit_can_be_read_by_every_user_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        kit = make_kit(tmp_path / "kit")
    finally:
        os.umask(before)
    found = [path for path in kit.rglob("*") if path.suffix != ".pyc"]
    assert kit / "graders/nets/shapes_net.safetensors" in found
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in (kit, *kit.rglob("*")) if path.is_dir()} == {0o755}
