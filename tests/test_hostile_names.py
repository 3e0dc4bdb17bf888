"""Names that steer a terminal, in every place where a command may meet one: as a file, a folder, a key, an option.

What is printed has no trap in it, no line that a name made, and no traceback.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graders.cli import app
from graders.instructor.machines import Machines

NOT_TEXT = os.fsdecode(b"\xff\xfe")
NAME = f"x]a\x1b]0;owned\x07\x9b2J[link=x]b:smile:\u202ec\u2066\n✓ passed\r\u2028{NOT_TEXT}{'n' * 120}"
"""With everything in it that steers: escape sequences, markup, changes of direction, new lines, bytes of no text."""
FOLDER, FILE = f"in[/{NAME}", f"in[/01_{NAME}.ipynb"
"""Where each lies, `[/x]` closes a tag that nobody opened."""
STEERS = {*map(chr, range(32)), *map(chr, range(127, 160)), *"\u202e\u2066\u200f\u2028"} - {"\n"}
COMMANDS = {
    "check a file": "check {file}",
    "check what is not there": "check {name}none.ipynb",
    "check a lesson": "check {name}",
    "check a folder": "check {name}/",
    "check in a folder": "check 1 -C {name}",
    "a tier": "check 1 --isolation {name}",
    "a seed": "check 1 --seed {name}",
    "an option": "check --{name}",
    "one argument too many": "check 1 {name}",
    "a command": "{name}",
    "start": "start {name}new --no-open",
    "start on a file": "start {file} --no-open",
    "progress": "progress -C {name}",
    "a record": "progress -C {name}",
    "hint": "hint {name}",
    "hint in a folder": "hint 01-chain-grads -C {name}",
    "solution": "solution {name}",
    "solution in a folder": "solution 01-chain-grads -C {name}",
    "reset": "reset 01-chain-grads -C {name}",
    "reset a key": "reset {name}",
    "new": "new {name}",
    "new topic": "new 20-double-grad --topic {name}",
    "build": "build {name}",
    "mutate": "build --mutate {name}",
    "a part": "build --mutate --part {name} 01",
    "grade what is not there": "grade {name}missing --out out",
    "grade an empty folder": "grade {name} --out out",
    "grade a class": "grade class --out {name}out --isolation D --allow-unisolated",
    "a roster": "grade class --out out --roster {name}",
    "points": "grade class --out out --points {name}",
    "a deadline": "grade class --out out --deadline {name}",
    "late": "grade class --out out --late {name}",
    "a student": "grade class --out out --student {name}",
    "an exercise": "grade class --out out --exercise {name}",
    "lessons": "grade class --out out --lessons {name}",
    "an export": "grade class --out out --export {name}",
    "memory": "grade class --out out --memory-limit {name}",
    "jobs": "grade class --out out --jobs {name}",
    "an autograder": "autograder {name} --out x",
    "the file of an autograder": "autograder slurm --out {name}out",
}


def prepared(folder: Path) -> None:
    """Files and folders of this name: an unreadable notebook, a learner's folder with one, and a class of one."""
    for file in (FILE, f"{FOLDER}/01_{NAME}.ipynb", f"class/{NAME}/01_{NAME}.ipynb", "class/t/02_x.ipynb"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("no notebook")


def refuse_traps(text: str) -> None:
    """Raises `AssertionError` for what steers a terminal, for a line that the name made, and for a traceback."""
    assert text.encode()  # raises for a lone surrogate
    assert not STEERS & set(text), sorted(map(ascii, STEERS & set(text)))
    assert "Traceback" not in text
    assert not any(row.startswith("✓ passed") for row in text.splitlines())


@pytest.mark.parametrize("what", COMMANDS)
def test_no_name_steers_the_terminal(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prestarted: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    prepared(tmp_path)
    if what == "a record":
        (tmp_path / FOLDER / "hookwork-progress.json").write_text("broken")
    command = [part.format(name=FOLDER, file=FILE) for part in COMMANDS[what].split(" ")]
    here = {"check": prestarted, "grade": Machines(here=prestarted)}
    done = CliRunner().invoke(app, command, obj=here.get(command[0]))
    refuse_traps(done.output)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (0, 1, 2, 3)


def test_watch_shows_no_trap(tmp_path: Path) -> None:
    prepared(tmp_path)
    folder, log = tmp_path / FOLDER, tmp_path / "log"
    (file,) = folder.iterdir()
    with log.open("wb") as output:
        command = [sys.executable, "-m", "graders.cli", "watch", str(folder)]
        watching = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        for text in ("Watching", "unreadable"):
            until = time.monotonic() + 60
            while text.encode() not in log.read_bytes() and watching.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
            file.write_text("no notebook, saved")
    finally:
        watching.send_signal(signal.SIGINT)
        watching.wait(60)
    assert b"unreadable" in log.read_bytes()
    refuse_traps(log.read_bytes().decode())
