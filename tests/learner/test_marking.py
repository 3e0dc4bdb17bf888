"""`hookwork check` and `hookwork watch`, as they run: notebooks in boxes."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graders.cli import app
from graders.core.source import prediction_keys
from graders.learner.folder import copy_lessons, shipped_notebook
from tests.learner.answers import FIRST, answer
from tests.notebooks import BRANCH, CHAIN, LESSON_1

ROOT = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-m", "graders.cli")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
REVERSED = LESSON_1.wrong["01-chain-grads"]["reversed-list"]


Check = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    copy_lessons(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def check(prestarted: Any) -> Check:
    """Type a command; tier D needs no test of its walls."""

    def typed(*arguments: str) -> Any:
        done = CliRunner().invoke(app, ["check", "--isolation", "D", *arguments], obj=prestarted)
        assert "Traceback" not in done.output
        return done

    return typed


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n")]


def test_a_check_shows_verdicts_numbers_and_the_learners_line_and_notes_them(folder: Path, check: Check) -> None:
    raises = "def per_pass_grads(w, fns):\n    print('[bold]got', len(fns))\n    raise ValueError('no such')"
    answer(folder / FIRST, branch_grads=BRANCH, chain_grads=REVERSED, per_pass_grads=raises)
    done = check("--seed", "7")
    lines = words(done.stdout)
    assert done.exit_code == 1
    assert "✓ 01-branch-grads Passed 1 of 1 point" in lines
    assert any(line.startswith("[bold]got ") for line in lines[lines.index("Your function printed:") :])
    assert "✗ 01-chain-grads Not yet right 0 of 2 points" in lines
    assert "All gradients are there, but from the last step to the first. Begin with the gradient of h_1." in lines
    assert lines[lines.index("expected yours") + 1] == "chain_grads([lambda t: 3 * t, lambda t: t * t], x)[0] 12 1"
    assert lines[lines.index("✗ 01-chain-grads") :].index("") == 4
    assert any(line.endswith("hookwork check 01-chain-grads --more") for line in lines)
    said = "no such at line 3 of its cell: raise ValueError('no such'). The call was per_pass_grads(tensor(["
    assert said in " ".join(lines)
    assert "A hint: hookwork hint 01-chain-grads" in lines
    assert "The inputs were drawn from --seed 7" in lines[-2]
    assert json.loads((folder / "hookwork-progress.json").read_text())["exercises"] == {
        "01-branch-grads": "passed",
        "01-chain-grads": "wrong",
        "01-per-pass-grads": "raised",
    }


def test_guesses_change_nothing_in_a_notebook_that_is_marked_and_are_not_counted_there(
    folder: Path, check: Check
) -> None:
    answer(folder / FIRST, branch_grads=BRANCH)
    content = json.loads((folder / FIRST).read_text())
    texts = iter(["w=7, x=object(), y=1", "a_grad=", "which='raises'"])  # wrong, no Python, wrong again
    for cell in content["cells"]:
        if (key := prediction_keys("".join(cell["source"]))) and (text := next(texts, "")):
            cell["source"] = f'guess("{key[0]}", {text})'
    (folder / FIRST).write_text(json.dumps(content))
    assert next(texts, "") == ""
    lines = words(check("1").stdout)
    assert "✓ 01-branch-grads Passed 1 of 1 point" in lines
    assert json.loads((folder / "hookwork-progress.json").read_text()) == {"exercises": {"01-branch-grads": "passed"}}


def test_one_exercise_that_is_passed_is_exit_code_0_and_others_do_not_count(folder: Path, check: Check) -> None:
    answer(folder / FIRST, chain_grads=CHAIN)
    done = check("01-chain-grads")
    assert done.exit_code == 0
    assert "✓ 01-chain-grads Passed 2 of 2 points" in words(done.stdout)
    assert "01-branch-grads Not" not in done.stdout


def test_with_more_every_check_of_a_recognised_mistake_is_listed(folder: Path, check: Check) -> None:
    answer(folder / FIRST, chain_grads=REVERSED)
    lines = words(check("01-chain-grads", "--more").stdout)
    assert "– not judged: every step has its gradient" in lines
    assert "✗ not yet: the example of the contract comes out" in lines
    assert "--more" not in " ".join(lines)


def test_a_cell_that_fails_says_why_an_answer_is_missing(folder: Path, check: Check) -> None:
    answer(folder / FIRST, branch_grads="def branch_grads(w, x:\n    pass")
    text = " ".join(words(check(str(folder / FIRST)).stdout))
    assert "branch_grads was not defined, because code cell" in text
    assert "SyntaxError" in text


def test_a_file_that_is_no_notebook_says_so(folder: Path, check: Check) -> None:
    (folder / FIRST).write_text("{")
    done = check("1")
    assert done.exit_code == 1
    assert "unreadable: The file is not a notebook: it is not JSON (line 1)." in " ".join(words(done.stdout))


class Watching:
    """`hookwork watch` in a process of its own; its output lands in a file."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        with self.log.open("w") as log:
            # A shell that runs these tests in the background has Ctrl-C ignored, and all below it.
            heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
            self.process = subprocess.Popen(
                [*COMMAND, "watch"], cwd=folder, env=ENVIRONMENT, stdout=log, stderr=log, preexec_fn=heed
            )

    @property
    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, ready: Callable[[str], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not ready(self.text):
            assert time.monotonic() < end, self.text
            assert self.process.poll() is None, self.text
            time.sleep(0.2)


@pytest.fixture
def watching(folder: Path) -> Iterator[Watching]:
    answer(folder / FIRST, branch_grads=BRANCH)
    watch = Watching(folder)
    try:
        watch.wait_for(lambda text: "Watching" in text)
        yield watch
    finally:
        watch.process.kill()
        watch.process.wait()


def test_each_save_is_marked_and_ctrl_c_ends(watching: Watching, folder: Path) -> None:
    assert "Passed" not in watching.text, "what was there at the start waits for a save"
    answer(folder / FIRST, chain_grads=REVERSED)
    watching.wait_for(lambda text: text.count("Watching") == 2)
    assert "✗ 01-chain-grads Not yet right 0 of 2 points" in words(watching.text)
    (folder / FIRST).write_text((folder / FIRST).read_text()[:500])
    watching.wait_for(lambda text: text.count("Watching") == 3)
    assert "unreadable: The file is not a notebook" in watching.text
    # The end comes at once even while a notebook runs.
    (folder / FIRST).write_bytes(shipped_notebook("01_where_gradients_live").read_bytes())
    answer(folder / FIRST, branch_grads="import time\ntime.sleep(60)")
    time.sleep(4)  # it has begun to run
    watching.process.send_signal(signal.SIGINT)
    assert watching.process.wait(20) == 0
    assert watching.text.endswith("No longer watching.\n")
    assert "Traceback" not in watching.text
    assert json.loads((folder / "hookwork-progress.json").read_text())["exercises"]["01-branch-grads"] == "passed"
