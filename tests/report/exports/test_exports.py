"""Each export of one small batch, word for word, and hostile text in all of them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from graders.core.results import Batch, CheckResult, ExerciseResult, Status, SubmissionStatus
from graders.report.exports import EXPORTS, gradescope
from graders.report.exports.exported import ExportRequest
from graders.report.titles import Titles
from graders.submissions import roster
from tests.batches import batch, exercise, graded, ungraded
from tests.test_hostile_text import TRAPS, traps

SCHEMA = json.loads(Path(__file__).with_name("gradescope.schema.json").read_text(encoding="utf-8"))
TITLES = Titles({"01_first": "1. The first"}, {"01-a": "Sum", "01-b": "Order"})
WRONG = ExerciseResult(
    key="01-a",
    status=Status.WRONG,
    score=1,
    max_score=2,
    mistake="forgot-return",
    message="Return it.",
    checks=(
        CheckResult(name="it holds", passed=True, score=1, max_score=1),
        CheckResult(name="it stays", passed=False, score=0, max_score=1, message="x: expected 1, saw 2"),
    ),
)
CLASS = batch(
    graded("Lovelace, Ada", WRONG, exercise("01-b"), student_id="101"),
    graded("Bob", exercise("01-a", most=2, score=2), exercise("01-b", Status.NOT_GRADED, 0, message="Disk full.")),
    ungraded("Cy", SubmissionStatus.MISSING, "No notebook."),
    ungraded("Di", SubmissionStatus.UNREADABLE, "Empty."),
)
ROSTER = roster.parse_roster(
    "Student,ID,SIS User ID,SIS Login ID,Section,Email address\n"
    '"Lovelace, Ada",101,S1,ada,A,ada@x.org\n"Bob",102,S2,bob,A,bob@x.org\n'
)


def made(export: str, found: Batch = CLASS, people: roster.Roster | None = None, **parts: Any) -> dict[str, str]:
    files = EXPORTS[export](ExportRequest(found, TITLES, people, **parts)).files
    return {path: content if isinstance(content, str) else content.decode() for path, content in files.items()}


def test_a_program_is_in_the_output_of_gradescope_and_in_no_other_export() -> None:
    found = batch(graded("Ada", dataclasses.replace(WRONG, program="x = 1\nif x:\n    print(x)\n"), student_id="101"))
    said = next(json.loads(text)["tests"] for text in made("gradescope", found).values())
    assert [test["output"] for test in said] == [
        "Not yet right. Return it.\n\nRun this below your answer to see it:\n\nx = 1\nif x:\n    print(x)",
        "x: expected 1, saw 2",
    ]
    others = {name: made(name, found) for name in EXPORTS if name != "gradescope"}
    assert [name for name, files in others.items() if "print(x)" in str(files)] == []


def test_canvas() -> None:
    assert made("canvas", CLASS, ROSTER)["canvas.csv"] == (
        "Student,ID,SIS User ID,SIS Login ID,Section,1. The first\n"
        "    Points Possible,,,,,3\n"
        "Bob,102,S2,bob,A,\n"
        "Cy,,,,,\n"
        "Di,,,,,0\n"
        '"Lovelace, Ada",101,S1,ada,A,2\n'
    )


@pytest.mark.parametrize(
    ("columns", "called"),
    [
        ("Essay (7),hooks: the FIRST (8)", "hooks: the FIRST (8)"),
        ("01_first.ipynb (9)", "01_first.ipynb (9)"),
        ("The first (8),The first again (9)", "1. The first"),  # which of them is for a person to say
        ("The first", "1. The first"),  # no assignment: Canvas puts the number behind each
    ],
)
def test_canvas_gets_the_name_and_number_of_its_assignment_back(columns: str, called: str) -> None:
    people = roster.parse_roster(f'Student,ID,{columns}\n"Lovelace, Ada",101\n')
    header = made("canvas", CLASS, people)["canvas.csv"].partition("\n")[0]
    assert header == f"Student,ID,SIS User ID,SIS Login ID,Section,{called}"


def test_canvas_is_told_when_an_assignment_has_other_points() -> None:
    hundred = roster.parse_roster(
        'Student,ID,The first (8)\n    Points Possible,,100\n"Lovelace, Ada",101,\nBob,102,\nDi,103,\n'
    )
    plain = EXPORTS["canvas"](ExportRequest(CLASS, TITLES, hundred))
    assert plain.notes == [
        "canvas.csv: 01_first has 100 points on the roster, and at most 3 are entered. --scale converts them."
    ]
    rows = list(csv.reader(io.StringIO(made("canvas", CLASS, hundred)["canvas.csv"])))
    assert [rows[1][-1], rows[-1][-1]] == ["100", "2"]
    rows = list(csv.reader(io.StringIO(made("canvas", CLASS, hundred, scale=True)["canvas.csv"])))
    assert [rows[1][-1], rows[-1][-1]] == ["100", "66.67"]
    assert EXPORTS["canvas"](ExportRequest(CLASS, TITLES, hundred, scale=True)).notes == []


@pytest.mark.parametrize(("export", "path"), [("canvas", "canvas.csv"), ("moodle", "moodle/01_first.csv")])
def test_nothing_is_converted_in_silence_where_the_roster_has_no_points(export: str, path: str) -> None:
    done = EXPORTS[export](ExportRequest(CLASS, TITLES, ROSTER, scale=True))
    assert done.notes[0] == f"{path}: the roster has no points for 01_first, so --scale converts nothing."
    without = "3 students of 4 have no identifier, without which Moodle skips a row. Give the assignment's grading "
    said = f"{path}: {without}worksheet as --roster, and it is filled in."
    assert done.notes[1:] == ([said] if export == "moodle" else [])
    assert done.files == EXPORTS[export](ExportRequest(CLASS, TITLES, ROSTER)).files


@pytest.mark.parametrize(
    ("export", "path", "why"),
    [
        ("canvas", "canvas.csv", "ID 7a stands for Ann and for Bob"),
        ("moodle", "moodle/01_first.csv", "Identifier participant 7a stands for Ann and for Bob"),
    ],
)
def test_no_table_has_two_rows_for_one_identity(export: str, path: str, why: str) -> None:
    twice = batch(graded("Ann", exercise("01-a"), student_id="7A"), graded("Bob", exercise("01-a"), student_id=" 7a"))
    done = EXPORTS[export](ExportRequest(twice, TITLES))
    assert (done.files, done.refused) == ({}, {path: why})


@pytest.mark.parametrize("column", ["ID", "SIS User ID", "SIS Login ID"])
def test_canvas_finds_people_in_three_ways_and_none_is_there_twice(column: str) -> None:
    people = roster.parse_roster(f"Student,{column}\nAnn,x\nBob,x\n")
    done = EXPORTS["canvas"](ExportRequest(batch(graded("Ann"), graded("Bob")), TITLES, people))
    assert done.refused == {"canvas.csv": f"{column} x stands for Ann and for Bob"}


def test_a_number_of_moodle_is_nobodys_in_canvas() -> None:
    sheet = roster.parse_roster("ID,Vollständiger Name,Bewertung,Bestwertung\nTeilnehmer/in7,Ann,,1\n")
    (text,) = made("canvas", batch(graded("Ann", exercise("01-a"), student_id="7")), sheet).values()
    assert text.endswith("\nAnn,,,,,1\n")


def test_moodle_is_told_in_plain_text() -> None:
    late = graded("Ann", exercise("01-a", Status.WRONG, 0, message="`one` is `None`."), penalty=0.1, late_note="Why.")
    (text,) = made("moodle", batch(late)).values()
    assert text.endswith(",[Hookwork] Why. 0.1 points are taken off. | Sum: one is None. [end of Hookwork]\n")


def test_moodle() -> None:
    (text,) = made("moodle", CLASS, ROSTER).values()
    assert text == (
        "Identifier,Full name,Email address,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
        ",Bob,bob@x.org,,3,-,[Hookwork] Order: Disk full. [end of Hookwork]\n"
        ",Cy,,,3,-,[Hookwork] No notebook. [end of Hookwork]\n"
        ",Di,,0,3,-,[Hookwork] Empty. [end of Hookwork]\n"
        'Participant 101,"Lovelace, Ada",ada@x.org,2,3,-,[Hookwork] Sum: Return it. [end of Hookwork]\n'
    )
    assert list(made("moodle")) == ["moodle/01_first.csv"]


def test_gradescope() -> None:
    files = made("gradescope")
    assert list(files) == [f"gradescope/{name}/results.json" for name in ("Lovelace_Ada", "Bob", "Cy", "Di")]
    assert json.loads(files["gradescope/Lovelace_Ada/results.json"]) == {
        "score": 2, "execution_time": 1, "output": "Inputs drawn from seed 42; torch 2.13.0.",
        "output_format": "text", "test_output_format": "text", "test_name_format": "text",
        "visibility": "visible", "stdout_visibility": "hidden",
        "tests": [
            {"name": "Sum: it holds", "number": "1.1.1", "score": 1, "max_score": 1, "status": "passed",
             "output": "Not yet right. Return it.", "tags": ["01-a", "forgot-return"]},
            {"name": "Sum: it stays", "number": "1.1.2", "score": 0, "max_score": 1, "status": "failed",
             "output": "x: expected 1, saw 2", "tags": ["01-a", "forgot-return"]},
            {"name": "Order: it holds", "number": "1.2.1", "score": 1, "max_score": 1, "status": "passed",
             "output": "", "tags": ["01-b"]},
        ],
        "extra_data": {"graded": True, "seed": "42"},
    }  # fmt: skip


def test_gradescope_says_which_cell_counts() -> None:
    found = graded("Bob", exercise("01-a", note="Cell 3 counts."))
    (entry,) = json.loads(gradescope.render([found], batch(found), TITLES))["tests"]
    assert entry["output"] == "Cell 3 counts."


def test_gradescope_takes_every_file_and_what_is_ours_is_said_to_be() -> None:
    for text in made("gradescope").values():
        jsonschema.validate(json.loads(text), SCHEMA)
    bob = json.loads(made("gradescope")["gradescope/Bob/results.json"])
    assert "not your fault" in bob["tests"][1]["output"]
    assert "status" not in bob["tests"][1]
    assert bob["extra_data"]["graded"] is False


@pytest.mark.parametrize("trap", TRAPS, ids=lambda name: name.replace(" ", "-"))
def test_no_text_of_a_student_steers_or_hides_anything(trap: str) -> None:
    text = TRAPS[trap]
    checks = (CheckResult(name=text, passed=False, score=0, max_score=1, message=text),)
    found = batch(
        graded(
            text,
            ExerciseResult(
                key="01-a", status=Status.WRONG, score=0, max_score=1, mistake="m", message=text, checks=checks
            ),
            message=text,
            student_id=text,
        ),
        ungraded(text + "2", SubmissionStatus.UNREADABLE, text),
        ungraded(text + "3", SubmissionStatus.NOT_GRADED, text),
    )
    for export in EXPORTS:
        for path, content in made(export, found).items():
            assert traps(path + content) == set()
            if path.endswith(".csv"):
                for row in csv.reader(io.StringIO(content)):
                    assert not any(cell.lstrip().startswith(tuple("=+@")) for cell in row)
            else:
                jsonschema.validate(json.loads(content), SCHEMA)
