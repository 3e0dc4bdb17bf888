"""No command imports, reads or waits for anything in the current folder, which may be a class's: strangers wrote it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graders.author.workers import worker_pool
from graders.learner.own_python import isolated_command, module_command
from tests import notebooks
from tests.notebooks import LESSON

GRADERS = Path(__file__).parent.parent / "graders"
OTHERS = ("_pytest", "execnet", "graders", "IPython", "ipykernel", "ipykernel_launcher", "jinja2", "jupyter_client",
          "jupyter_core", "jupyterlab", "matplotlib", "nbclient", "nbformat", "numpy", "pip", "psutil", "pytest",
          "rich", "safetensors", "sitecustomize", "tests", "torch", "typer", "usercustomize", "xdist", "zmq",
          "conftest")  # fmt: skip
"""Modules of ours and of others that some command imports, and files that Python and pytest look for."""
ANSWER = "import torch\ndef branch_grads(w, x):\n    return torch.zeros(40)"
HOOKWORK = "from graders.cli import app; app()"
PYTEST = "import pytest; raise SystemExit(pytest.main())"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A class's folder with a module of every name, each of which leaves a file, and settings that nobody can read."""
    folder = tmp_path / "class"
    (folder / "ann").mkdir(parents=True)
    text = f"open({str(tmp_path)!r} + '/sprung-' + __name__, 'w').close()\nraise SystemExit('a trap')\n"
    for name in {*sys.stdlib_module_names, *OTHERS}:
        (folder / f"{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p sitecustomize\n")
    (folder / "jupyter_server_config.py").write_text(text)
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "matplotlibrc")
    (folder / "ann" / f"{LESSON}.ipynb").write_text(notebooks.text(ANSWER))
    return folder


def run_in(folder: Path, program: str, *arguments: str, code: int) -> str:
    """What a command prints that is typed in this folder; no trap was sprung."""
    command = isolated_command(program, *arguments)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=os.environ | NO_COLOUR)
    assert done.returncode == code, (done.stdout + done.stderr)[-2000:]
    assert [file.name for file in folder.parent.glob("sprung-*")] == []
    return " ".join(done.stdout.split())


NO_COLOUR = {"COLUMNS": "150", "NO_COLOR": "1"}


def test_the_traps_are_sprung_by_what_python_does_by_itself(trap: Path) -> None:
    command = [sys.executable, "-c", "import multiprocessing"]
    assert subprocess.run(command, cwd=trap, capture_output=True, text=True).stderr == "a trap\n"
    assert (trap.parent / "sprung-multiprocessing").exists()


def test_check(trap: Path) -> None:
    assert "01-branch-grads Not yet right" in run_in(trap, HOOKWORK, "check", f"ann/{LESSON}.ipynb", code=1)


def test_grade(trap: Path) -> None:
    assert "ann" in run_in(trap, HOOKWORK, "grade", ".", "--out", "../results", code=0)


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)], ids=["alone", "a worker"])
def test_pytest(trap: Path, workers: tuple[str, ...]) -> None:
    if workers:
        pytest.importorskip("xdist")
    plugin = ("-p", "graders.instructor.pytest_plugin.options", "-p", "no:cacheprovider", "-q")
    assert "failed" in run_in(trap, PYTEST, str(GRADERS), "--submissions", ".", *plugin, *workers, code=1)


def test_what_runs_nothing(trap: Path) -> None:
    commands = ["progress"], ["hint", "01-branch-grads"], ["start", "--no-open"]
    run_in(trap, f"from graders.cli import app\nfor line in {commands}: app(line, standalone_mode=False)", code=0)


def test_jupyterlab(trap: Path) -> None:
    pytest.importorskip("jupyterlab")
    done = subprocess.run(module_command("jupyterlab", "--version"), cwd=trap, capture_output=True, timeout=300)
    assert (done.returncode, list(trap.parent.glob("sprung-*"))) == (0, [])


@pytest.mark.slow
def test_mutants(trap: Path) -> None:
    run_in(trap, HOOKWORK, "build", "--mutate", "01-chain-grads", "--part", "3/20", code=0)


def test_the_processes_of_authors(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trap)
    with worker_pool("graders.author.workers") as pool:
        assert [pool.submit(int, text).result() for text in ("1", "2", "3")] == [1, 2, 3]
    assert Path.cwd() == trap
    assert list(trap.parent.glob("sprung-*")) == []
