from __future__ import annotations

import os
import py_compile
from importlib.util import cache_from_source
from pathlib import Path

from graders.sandbox.outside.box_modules import copy_module, write_box_modules


def test_a_kit_can_be_read_by_every_user_and_changed_by_none_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        box_modules = write_box_modules(tmp_path / "modules")
    finally:
        os.umask(before)
    found = [box_modules, *box_modules.rglob("*")]
    assert box_modules / "graders/nets/shapes_net.safetensors" in found
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in found if path.is_dir()} == {0o755}


def test_what_python_has_compiled_comes_along_and_stays_valid(tmp_path: Path) -> None:
    module, copy = tmp_path / "module.py", tmp_path / "box" / "copy.py"
    module.write_text("value = 1\n")
    os.utime(module, (10**9, 10**9))
    copy.parent.mkdir()
    compiled = Path(py_compile.compile(str(module), doraise=True))
    copy_module(module, copy)
    assert Path(cache_from_source(str(copy))).read_bytes() == compiled.read_bytes()
    assert copy.stat().st_mtime == 10**9  # Python compares it with the time in the compiled file


def test_what_cannot_be_read_of_it_is_left_out(tmp_path: Path) -> None:
    module, copy = tmp_path / "module.py", tmp_path / "copy.py"
    module.write_text("value = 1\n")
    Path(cache_from_source(str(module))).mkdir(parents=True)  # as unreadable for root as for others
    copy_module(module, copy)
    assert copy.read_text() == "value = 1\n"
    assert not Path(cache_from_source(str(copy))).exists()
