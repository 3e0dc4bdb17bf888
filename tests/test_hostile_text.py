"""Whatever a name, a file, a cell or an exception says: what reaches people has no trap in it.

No control or bidirectional characters, no formula in a spreadsheet, no row or line that a text made up.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import graders as graders_package
from graders.core.difference import Difference, Kind, Timelines
from graders.core.results import Batch, CheckResult, ExerciseResult, Status, SubmissionResult
from graders.core.terminal import Terminal
from graders.core.transcript import read_transcript
from graders.marking.batch import Marking
from graders.marking.questions import Questions
from graders.report import gradebook, results_json, summary
from graders.sandbox.outside.runner import BoxRunner
from graders.submissions.finding import Account, FoundSubmissions, Submission, find_submissions
from graders.submissions.roster import Person
from graders.verdict.judge_submission import Verdicts, judge_submission
from graders.wire.data import encode
from graders.wire.frames import Frame
from graders.wire.limits import PRINTED_CHARACTERS
from tests import notebooks
from tests.batches import batch, graded
from tests.instructor.pytest_plugin.test_pytest_graders import graders
from tests.notebooks import LESSON
from tests.sample import SCALE_SUM, WRAP

TRAPS = {
    "a title": "\x1b]0;owned\x07",
    "colours": "\x1b[31mred\x1b[0m",
    "a clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "a link": "\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\",
    "a cursor": "\x1b[1A\x1b[2K\rpassed",
    "8-bit controls": "\x9b31m\x90q\x9c",
    "bidi": "\u202e\u2066dessap\u2069\u200f",
    "invisible": "a\u200b\u00ad\ufeff\u2060b",
    "separators": "a\u2028b\u2029c\x85d\x0b\x0c",
    "null": "a\x00b",
    "surrogates": "a\udc80\ud800b",
    "tags": "\U000e0041\U000e0042",
    "a formula": "=HYPERLINK(0)",
    "a sum": "+1+1",
    "a difference": "-1+1",
    "a function": "@SUM(1)",
    "a late formula": "\t =1+1",
    "a wide formula": "\uff1d1+1",
    "a new row": 'x"\n=1+1,"4","4"\r\n',
    "markup": "[bold red]4 of 4[/] [link=http://x]x[/link]",
    "HTML": "<script>alert(1)</script>",
    "length": "x" * 5000,
}


def traps(text: str) -> set[str]:
    """The characters of a text that steer or hide something. New lines are looked at by the tests themselves."""
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return {character for character in text if unicodedata.category(character) in hidden} - {"\n"}


def reports(found: Batch) -> tuple[str, str, str]:
    """results.json, gradebook.csv and what is printed."""
    printed = io.StringIO()
    Terminal(printed, width=200).print(summary.render(found))
    return results_json.render(found), gradebook.render(found), printed.getvalue()


def judged(text: str) -> SubmissionResult:
    """The result of a submission in which everything that comes out of the box says this."""
    tree, body = encode({"total": text, "x.grad": [text, {text: text}], "hooks": text})
    said = dict.fromkeys(("error", "message", "line", "call"), text)
    frames = [
        Frame({"type": "cell", "cell": 0, "status": text, "message": text}),
        Frame({"type": "cell", "cell": 1, "status": "raised", "message": text}),
        *(
            frame
            for case in (0, 1)
            for frame in (
                Frame({"type": "asked", "key": "90-scale-sum", "case": case, "cells": 0, "nonce": "n"}),
                Frame({"type": "seen", "nonce": "n", "tree": tree, "printed": text}, body),
            )
        ),
        Frame({"type": "asked", "key": "90-wrap", "case": 0, "cells": 0, "nonce": "n"}),
        Frame({"type": "raised", "nonce": "n", "status": "raised", **said, "printed": [text]}),
        Frame({"type": "ended", "how": "finished", "message": text, "seconds": 1.0}),
    ]
    draws = {exercise.key: exercise.draws(1) for exercise in (SCALE_SUM, WRAP)}
    run = read_transcript(frames)
    found = tuple(judge_submission([SCALE_SUM, WRAP], Verdicts(draws), [text, text], run))
    return dataclasses.replace(graded("ann", lesson=LESSON), score=0, max_score=4, exercises=found, message=run.message)


@pytest.mark.parametrize("trap", TRAPS)
def test_what_comes_out_of_a_box_is_shown_without_traps(trap: str) -> None:
    result = judged(TRAPS[trap])
    assert [exercise.status.value for exercise in result.exercises] == ["wrong", "raised"]
    data, table, printed = reports(batch(result))
    assert traps(data) == traps(table) == traps(printed) == set()
    shown = json.loads(data)["submissions"][0]["exercises"]
    assert all(traps(exercise["message"]) == set() and "\n" not in exercise["message"] for exercise in shown)
    assert all(
        traps(exercise["printed"]) == set() and len(exercise["printed"]) <= PRINTED_CHARACTERS for exercise in shown
    )
    assert all(traps(check["message"]) == set() for exercise in shown for check in exercise["checks"])
    assert len(list(csv.reader(io.StringIO(table)))) == 2


@pytest.mark.parametrize("trap", TRAPS)
def test_names_are_shown_without_traps(trap: str, box_modules: Path, tmp_path: Path) -> None:
    name = TRAPS[trap]
    marking = Marking(Questions(1), BoxRunner(box_modules))
    for student, file in ((name, tmp_path / "none"), ("bob", Path(f"{name}.ipynb")), ("cy", None)):
        marking.result(Submission(student, LESSON, file))
    marking.result(Submission("dan", LESSON, None, origin=name, problem=name))
    found = marking.batch()
    marking.close()
    assert len(found.submissions) == 4
    data, table, printed = reports(found)
    assert traps(data) == traps(table) == traps(printed) == set()
    rows = list(csv.reader(io.StringIO(table)))
    assert len(rows) == 5
    assert not any(cell.lstrip().startswith(tuple("=+-@\uff1d")) for row in rows for cell in row)


@pytest.mark.parametrize("trap", TRAPS)
def test_what_a_stranger_wrote_is_clean_as_soon_as_it_is_in(trap: str) -> None:
    text = TRAPS[trap]
    check = CheckResult(name=text, passed=False, score=0, max_score=1, message=text)
    result = ExerciseResult(key="90-wrap", status=Status.WRONG, score=0, max_score=1, mistake=text, message=text,
                            checks=(check,), printed=text)  # fmt: skip
    texts = dict.fromkeys(("student", "file", "student_id", "handed_in", "group", "late_note", "message"), text)
    told = dataclasses.replace(judged(text), superseded=(text,), missing_modules=(text,), exercises=(result,), **texts)
    person = Person(text, {"id": text}, (text,), text, text)
    made = (
        Submission(text, LESSON, None, text, text, text, superseded=(text,)),
        Account(text, text, LESSON, text),
        FoundSubmissions([], text, choices=(text,), doubts=(text,), notes=(text,)),
        Batch(seed=1, torch=text, created=text, submissions=(told,)),
        Difference(Kind.ORDER, text, text, text, text, text, Timelines((text,), (text,))),
        person,
    )
    assert all(traps(part) == set() for one in made for part in texts_in(dataclasses.asdict(one)))
    assert Submission(text, LESSON, None).student == told.student == person.name


def texts_in(value: object) -> Iterator[str]:
    """All texts in lists and dictionaries."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from texts_in(part)


CLEANING = {
    "cli", "core/difference", "core/errors", "core/file_notes", "core/missing_modules", "core/results", "core/terminal",
    "core/text", "core/transcript", "instructor/lock", "learner/notebook/agreement", "learner/notebook/predictions",
    "learner/toolbox", "sandbox/outside/tier_choice", "submissions/finding", "submissions/groups",
    "submissions/hand_rows", "submissions/members", "submissions/roster", "submissions/student_names",
}  # fmt: skip
"""The modules at the border (see `graders.core.text`), and those that show what never came in."""


def test_texts_are_cleaned_at_the_border_and_nowhere_behind_it() -> None:
    package = Path(graders_package.__file__).parent
    found = {
        file.relative_to(package).with_suffix("").as_posix()
        for file in package.rglob("*.py")
        if re.search(r"\bclean_(text|fields)\(", file.read_text("utf-8"))
    }
    assert found == CLEANING


def test_students_whose_names_look_alike_stay_apart(tmp_path: Path) -> None:
    names = ["ann\x1b", "ann\x1c", "ann\u202e", "...", "\x07" * 90, "\x07" * 91]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{LESSON}.ipynb").write_text("{}")
    students = [submission.student for submission in find_submissions(tmp_path, [LESSON]).submissions]
    assert len(set(students)) == len(names)
    assert all(traps(student) == set() and len(student) < 80 for student in students)


def test_a_whole_run_shows_no_trap_anywhere(tmp_path: Path) -> None:
    text = "\x1b]0;owned\x07\u202e=1+1\x1b[2J"
    student = tmp_path / "class" / "=\x1b[2Jann\u202e"
    student.mkdir(parents=True)
    raising = f"def branch_grads(w, x):\n    raise ValueError({text!r})"
    named = f"{text}\nclass Named:\n    pass\nNamed.__name__ = {text!r}\ndef chain_grads(fns, x):\n    return Named()"
    shown = f"print({text!r})\nimport sys\nsys.stderr.write({text!r})\nsys.__stdout__.write({text!r})"
    (student / f"{LESSON}\x1b[2J\n.ipynb").write_text(notebooks.text(shown, raising, named.partition("\n")[2]))
    (tmp_path / "class" / "bob\r").mkdir()
    (tmp_path / "class" / "bob\r" / f"{LESSON}\x1b.ipynb").write_text(text)
    out = tmp_path / "out"
    shown_in_full = ("-v", "-rA", "--tb=short", f"--junitxml={tmp_path / 'junit.xml'}")
    run = graders("--submissions", tmp_path / "class", "--out", out, *shown_in_full)
    assert run.returncode == 1, run.stdout
    pages = list(out.rglob("*.html"))
    assert len(pages) == 3
    written = (out / "results.json", out / "gradebook.csv", tmp_path / "junit.xml", *pages)
    for part in (run.stdout, run.stderr, *(file.read_text() for file in written), *map(str, pages)):
        assert traps(part) == set(), part
    assert "`branch_grads` raised ValueError: \ufffd]0;owned\ufffd" in run.stdout
    properties = {element.get("value", "") for element in ElementTree.parse(tmp_path / "junit.xml").iter("property")}
    assert "=\ufffd[2Jann\ufffd" in properties
    # Sentences that end a run at its start are shown in the same way.
    run = graders("--submissions", student / "\x1b[2J")
    assert run.returncode == 4
    assert traps(run.stdout + run.stderr) == set()
