"""The commands as they are typed, as far as nothing is run."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graders.cli import app, complete_keys, complete_lessons
from graders.core import course
from graders.core.rules import RULES
from tests.learner.answers import FIRST, answer, cell_of


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins in an empty folder, on a terminal of 100 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def hookwork(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output + str(done.exception)
    return done


def test_start_copies_says_what_is_next_and_continues() -> None:
    text = hookwork("start", "--no-open").stdout
    assert f"{len(course.lesson_stems())} lessons in hookwork." in text
    assert "Next: lesson 0. Three hooks in ten minutes, hookwork/00_three_hooks.ipynb" in text
    Path("hookwork", FIRST).write_text("mine")
    text = hookwork("start", "--no-open").stdout
    assert "none of them new; yours are unchanged" in text
    assert Path("hookwork", FIRST).read_text() == "mine"


def test_start_goes_on_with_the_lesson_that_is_next() -> None:
    hookwork("start", "mine", "--no-open")
    passed = {key: "passed" for lesson in course.lesson_stems()[:2] for key in course.exercise_keys(lesson)}
    Path("mine/hookwork-progress.json").write_text(json.dumps({"exercises": passed}))
    assert "Next: lesson 2. Watching gradients, mine/02_watching" in hookwork("start", "mine", "--no-open").stdout


def test_without_jupyterlab_start_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupyterlab", None)  # Python's way to say that there is no such package
    text = hookwork("start").stdout
    assert "JupyterLab is not installed. Install it with: pip install jupyterlab" in text
    assert Path("hookwork", FIRST).exists()


def test_jupyterlab_opens_in_the_folder_on_the_next_lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "packages"
    (packages / "jupyterlab").mkdir(parents=True)
    (packages / "jupyterlab/__init__.py").touch()
    (packages / "jupyterlab/__main__.py").write_text(
        "import json, os, sys\nopen('started.json', 'w').write(json.dumps(sys.argv[1:2]))\nsys.exit(7)"
    )
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    before = signal.getsignal(signal.SIGINT)
    text = hookwork("start", "mine", code=7).stdout  # the exit code is JupyterLab's own
    signal.signal(signal.SIGINT, before)
    assert "Opening JupyterLab; Ctrl-C here ends it." in text
    assert json.loads((tmp_path / "mine/started.json").read_text()) == ["00_three_hooks.ipynb"]


def test_hints_go_on_from_command_to_command_and_in_the_notebook() -> None:
    for number in (1, 2):
        assert f"Hint {number} of 3" in hookwork("hint", "01-branch-grads").stdout
    assert json.loads(Path("hookwork-progress.json").read_text()) == {"hints": {"01-branch-grads": 2}}


def test_the_solution_opens_when_asked_for_twice() -> None:
    assert "opens when your check has passed" in hookwork("solution", "01-branch-grads", code=1).stdout
    assert "def branch_grads(w, x):" in hookwork("solution", "01-branch-grads").stdout


def test_progress_shows_lessons_points_and_what_is_next() -> None:
    hookwork("start", "--no-open")
    Path("hookwork/hookwork-progress.json").write_text(
        '{"exercises": {"00-layer-output": "passed", "01-branch-grads": "passed"}}'
    )
    lines = [" ".join(line.split()) for line in hookwork("progress").stdout.split("\n")]
    assert lines[0].startswith("2 exercises of ")
    assert "0. Three hooks in ten minutes ✓ 1 of 1" in lines
    assert "→ 1. Where gradients live ✓·· 1 of 4" in lines
    assert "✓ 01-branch-grads The gradient of every branch Passed" in lines
    assert "· 01-chain-grads The gradient at every step of a chain 20 min · medium · core path" in lines
    assert any(line.startswith("Next: 01-per-pass-grads,") for line in lines)


def test_progress_tells_how_many_predictions_were_right() -> None:
    assert "predictions right" not in hookwork("progress").stdout
    kept = {"01-two-leaves": True, "01-non-leaf": False, "02-order": True}
    Path("hookwork-progress.json").write_text(json.dumps({"predictions": kept}))
    lines = [" ".join(line.split()) for line in hookwork("progress").stdout.split("\n")]
    assert lines[0].endswith(", 2 of 3 predictions right")
    assert "1. Where gradients live ··· 0 of 4 1 of 2" in lines


def test_rules_are_shown_in_a_terminal() -> None:
    text = " ".join(hookwork("rules").stdout.split())
    assert "The rules of all exercises" in text
    for rule in RULES:
        assert rule.title.split(".")[0] in text


def test_a_broken_record_is_told_and_kept() -> None:
    Path("hookwork-progress.json").write_text("{")
    text = " ".join(hookwork("progress").stdout.split())
    assert "It is now hookwork-progress.broken-1.json; nothing in it was lost." in text


def test_reset_says_where_the_backup_lies() -> None:
    hookwork("start", "--no-open")
    file = Path("hookwork", FIRST)
    answer(file, branch_grads="mine")
    text = hookwork("reset", "01-branch-grads").stdout
    (backup,) = Path("hookwork/hookwork-backups").iterdir()
    assert str(backup) in text.replace("\n", "")
    assert cell_of(backup, "01-branch-grads")["source"] == "mine"
    assert "NotImplementedError" in "".join(cell_of(file, "01-branch-grads")["source"])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("hint", "01-branch-grad"), "There is no exercise '01-branch-grad'. Did you mean 01-branch-grads?"),
        (("solution", "x"), "There is no exercise 'x'. Exercises: 00-layer-output, "),
        (("reset", "01-branch-grads"), "This folder contains no notebook of lesson 1"),
        (("reset", "01-branch-grads", "-C", "other"), "other contains no notebook of lesson 1"),
        (("check",), "No lesson in this folder has been worked on yet."),
        (("check", "1"), "This folder contains no notebook of lesson 1"),
        (("check", "99"), "There is no lesson '99'. Lessons: 00_three"),
        (("check", "02-nothing"), "There is no exercise '02-nothing'."),
        (("check", "nowhere.ipynb"), "nowhere.ipynb does not exist."),
        (("check", "."), ". contains no notebook of a lesson."),
        (("check", "1", "--isolation", "Z"), "'Z' is not a tier: auto, A, B, C, D"),
        (("watch",), "contains no notebook of a lesson. Get the lessons with: hookwork start"),
        (("start", "taken"), "taken is a file. Name a folder"),
        (("check", "1", "--seed", "-1"), "Invalid value for '--seed'"),
        (("nonsense",), "No such command"),
    ],
)
def test_what_a_person_can_mend_is_a_sentence_and_exit_code_2(arguments: tuple[str, ...], part: str) -> None:
    Path("taken").write_text("")
    done = hookwork(*arguments, code=2)
    assert part in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.output
    assert done.stdout == ""


def test_help_has_examples_and_exit_codes_for_every_command() -> None:
    text = hookwork("--help").stdout
    for command in ("start", "check", "watch", "progress", "hint", "solution", "rules", "reset"):
        assert f" {command} " in text
        shown = hookwork(command, "--help").stdout
        assert f"hookwork {command}" in shown
        assert "Exit codes: 0" in shown


def test_keys_and_lessons_are_completed() -> None:
    assert complete_keys("01-b") == ["01-branch-grads"]
    assert complete_lessons("01") == [
        "01_where_gradients_live",
        *course.exercise_keys("01_where_gradients_live"),
    ]


def test_the_shell_is_offered_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"_HOOKWORK_COMPLETE": "complete_bash", "COMP_WORDS": "hookwork hint 01-b", "COMP_CWORD": "2"}
    done = CliRunner().invoke(app, [], prog_name="hookwork", env=words)
    assert done.output.split() == ["01-branch-grads"]
