"""The wheel, installed into a fresh environment, used in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.learner.answers import FIRST, answer
from tests.notebooks import BRANCH, CHAIN

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent.parent
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `hookwork` of a fresh environment.

    The wheel is installed without its dependencies: those of this environment serve, by a .pth file.
    """
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True, env=CLEAN)
    (wheel,) = folder.glob("hookwork-*.whl")
    venv.create(folder / "env")
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True, env=CLEAN)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True, env=CLEAN).stdout.strip()
    (Path(packages) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent / "hookwork"


@pytest.fixture
def hookwork(installed: Path, tmp_path: Path) -> Command:
    """Types a command in an empty folder, and checks its exit code."""
    folder = tmp_path / "empty"
    folder.mkdir()

    def command(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [installed, *arguments], cwd=folder, env=CLEAN, capture_output=True, text=True, timeout=300, check=False
        )
        print(f"$ hookwork {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return done

    return command


def test_the_learners_day_in_an_empty_folder(hookwork: Command, installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "empty" / "hookwork" / FIRST
    where = [installed.parent / "python", "-c", "import graders; print(graders.__file__)"]
    home = subprocess.run(where, env=CLEAN, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert home.startswith(str(installed.parent.parent)), "the package of the environment, not that of the clone"

    assert "hookwork 0." in hookwork("--version").stdout
    assert "Next: lesson 0." in hookwork("start", "--no-open").stdout
    answer(file, branch_grads=BRANCH, chain_grads="def chain_grads(fns, x):\n    return fns")
    checked = hookwork("check", code=1).stdout
    assert "Passed" in checked
    assert "Not attempted yet" in checked
    assert "Hint 1 of 3" in hookwork("hint", "01-chain-grads").stdout
    assert "opens when your check has passed" in hookwork("solution", "01-chain-grads", code=1).stdout
    assert "def chain_grads(fns, x):" in hookwork("solution", "01-chain-grads").stdout
    assert "The stub is back" in hookwork("reset", "01-chain-grads").stdout
    answer(file, chain_grads=CHAIN)
    assert "Passed" in hookwork("check", "01-chain-grads").stdout
    assert "none of them new" in hookwork("start", "--no-open").stdout
    assert "2 exercises of " in hookwork("progress").stdout
    assert "Did you mean 01-chain-grads?" in hookwork("hint", "01-chain-grad", code=2).stderr
    assert json.loads((file.parent / "hookwork-progress.json").read_text()) == {
        "exercises": {"01-branch-grads": "passed", "01-chain-grads": "passed"},
        "hints": {"01-chain-grads": 1},
        "solutions": ["01-chain-grads"],
    }
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == ["hookwork"]
