"""A machine like Windows, as far as Linux can play one: no fork, no modules of Unix, no sockets with a path.

Our own code finds none of them, in any of its processes; the packages that it uses keep theirs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graders.core import course
from tests.learner.answers import FIRST, answer
from tests.notebooks import BRANCH, CHAIN

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is the real thing")

ELSEWHERE = """\
import builtins, os, select, signal, socket, sys
import psutil  # it takes this for Linux; on Windows it uses none of these

GONE = {"resource", "fcntl", "pwd", "grp", "termios", "tty", "pty"}
real_import = builtins.__import__

def import_without(name, globals=None, *rest, **named):
    if name in GONE and str((globals or {}).get("__package__")).startswith("graders"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real_import(name, globals, *rest, **named)

def socketpair(*_):
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]

builtins.__import__ = import_without
socket.socketpair = socketpair
for module, names in (
    (os, "fork forkpty killpg getpgid setsid getuid sched_getaffinity set_blocking chown O_DIRECTORY O_NOFOLLOW"),
    (socket, "AF_UNIX send_fds recv_fds"),
    (select, "poll epoll"),
):
    for name in names.split():
        delattr(module, name)
sys.executable = EXECUTABLE
"""

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Starts Python with these arguments in such a place, in a folder of its own."""
    here, programs = tmp_path / "here", tmp_path / "programs"
    here.mkdir()
    programs.mkdir()  # and no program can be called
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{tmp_path}" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "sitecustomize.py").write_text(ELSEWHERE.replace("EXECUTABLE", repr(str(python))))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [python, *map(str, arguments)],
            cwd=here,
            env=clean | {"PATH": str(programs)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def printed(process: subprocess.Popen[str], code: int) -> str:
    output = process.communicate(timeout=400)[0]
    assert "Traceback" not in output, output
    assert process.returncode == code, output
    return output


def test_nothing_of_unix_is_there(command: Command) -> None:
    code = "import os, socket, subprocess; import torch; print(hasattr(os, 'fork'), hasattr(socket, 'AF_UNIX'))"
    assert printed(command("-c", code), 0) == "False False\n"
    module = "graders.sandbox.outside.leftovers"
    code = f"import asyncio; asyncio.run(asyncio.sleep(0)); import {module} as one; print(one.fcntl)"
    assert printed(command("-c", code), 0) == "None\n"


def test_checks_in_a_notebook_work(command: Command) -> None:
    code = f"import torch\nfrom graders import check, hint, progress\n{BRANCH}\ncheck('01-branch-grads')\nprogress()"
    output = printed(command("-c", code), 0)
    assert "01-branch-grads" in output
    assert "✓ Passed: The gradient of every branch (1 of 1 point)" in output


@pytest.mark.slow  # each command starts Python, torch and a kernel anew
def test_the_learners_commands_work_with_kernels_that_are_started(command: Command, tmp_path: Path) -> None:
    hookwork = ("-m", "graders.cli")
    assert "Next: lesson 0." in printed(command(*hookwork, "start", "--no-open"), 0)
    file = tmp_path / "here/hookwork" / FIRST
    answer(file, branch_grads=BRANCH, chain_grads="def chain_grads(fns, x):\n    return fns")
    output = printed(command(*hookwork, "check", "1"), 1)
    assert "Isolation D" in output
    assert "1 exercise of" in printed(command(*hookwork, "progress"), 0)
    watching = command("-u", *hookwork, "watch")
    read_to(watching, "Watching")
    answer(file, chain_grads=CHAIN)
    points = sum(exercise.points for exercise in course.every_exercise())
    assert f"3 of {points} points in all" in " ".join(read_to(watching, "Watching").split())
    watching.terminate()
    assert "No longer watching." in printed(watching, 0)


def read_to(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    seen = ""
    while word not in seen and (line := process.stdout.readline()):
        seen += line
    return seen


@pytest.mark.slow
def test_pytest_graders_works_with_kernels_that_are_started(command: Command, tmp_path: Path) -> None:
    printed(command("-m", "graders.cli", "start", "--no-open"), 0)
    answer(tmp_path / "here/hookwork" / FIRST, branch_grads=BRANCH, chain_grads=CHAIN)
    graders = Path(__file__).parent.parent / "graders"
    plugins = ("-p", "graders.instructor.pytest_plugin.options", "-p", "no:cacheprovider")
    output = printed(command("-m", "pytest", graders, *plugins, "--submissions", tmp_path / "here/hookwork" / FIRST), 1)
    assert "isolation D" in output
    assert "3 of 4" in output
