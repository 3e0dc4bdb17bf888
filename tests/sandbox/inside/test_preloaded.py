"""Modules that are there and cannot be seen. Each case in a process of its own: what is imported stays imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HIDE = (
    "from graders.sandbox.inside.preloaded import Preloaded\nfound = Preloaded('outer', 'outer.inner')\nfound.hide()\n"
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package `outer` whose `__init__` imports `outer.used`, and another module, `outer.inner`."""
    folder = tmp_path / "outer"
    folder.mkdir()
    (folder / "__init__.py").write_text("print('outer runs')\nfrom outer import used\n")
    (folder / "used.py").write_text("value = 1\n")
    (folder / "inner.py").write_text("print('inner runs')\nimport outer\nvalue = outer.used.value + 1\n")
    return tmp_path


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nassert not {'outer', 'outer.used', 'outer.inner'} & set(sys.modules)",
        "import outer\nassert outer.used.value == 1\nassert not hasattr(outer, 'inner')",
        "import outer\nimport outer.inner\nassert outer.inner.value == 2",
        "from outer.inner import value\nassert value == 2\nimport outer\nassert outer.used.value == 1",
        "from outer import inner\nassert inner.value == 2",
        "import outer\nassert outer.__spec__.name == 'outer' and outer.__spec__.origin.endswith('__init__.py')",
        "import importlib, outer\nassert importlib.reload(outer.used).value == 1",
    ],
)
def test_hidden_modules_come_back_when_they_are_imported(package: Path, code: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", HIDE + code],
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{package}:{Path(__file__).parents[3]}"},
    )
    assert (run.returncode, run.stdout) == (0, "outer runs\ninner runs\n"), run.stderr
