"""Input that is missing, odd or hostile: a sentence, and nothing is lost."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.tier_choice import choose_runner
from graders.sandbox.outside.warm_process import WarmProcess
from tests import notebooks
from tests.doubles import NoBoxes
from tests.instructor.grading.classes import LESSON_1, ClassRunner, each, grade, hand_in, results
from tests.notebooks import KEYS, LESSON


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--student", "an"), "There is no student 'an'. Did you mean ann?"),
        (("--student", "zzz"), "Students: ann ✗ There is no student 'zzz'. They are listed above."),
        (("--forget", "bob"), "--forget 'bob': there is no such student in --out."),
        (("--out", "bad.csv"), "bad.csv: File exists. A file is where a folder should be."),
        (("--out", "bad.csv/x"), "bad.csv/x: Not a directory. A file is where a folder should be."),
        (("--output-limit", "much"), "'much' is not a size"),
        (("--exercise", "01-nothing"), "There is no exercise '01-nothing'."),
        (("--exercise", "02-record-grad"), "Nobody handed in a notebook with these exercises."),
        (("--deadline", "friday"), "'friday' is not a time; write it like 2026-11-20T18:00"),
        (("--deadline", "2026-11-20T18:00 Mars/Base"), "There is no time zone 'Mars/Base'; write it like Europe/Paris"),
        (("--late", "much"), "is not a rule for late work: none, zero, 10%/day"),
        (("--export", "blackboard"), "'blackboard' is none of canvas, gradescope, moodle"),
        (("--roster", "none.csv"), "none.csv: No such file or directory"),
        (("--roster", "bad.csv"), "bad.csv cannot be used: it names nobody."),
        (("--roster", "book.csv"), "book.csv cannot be used: it is a workbook, not a CSV file."),
        (("--groups", "bad.csv"), "bad.csv cannot be used: it has no column Group."),
        (("--groups", "none.csv"), "none.csv: No such file or directory"),
        (("--points", "points.csv"), "There is no exercise '99-x'."),
        (("--isolation", "Z"), "'Z' is not a tier"),
        (("--memory-limit", "much"), "'much' is not a size"),
        (("--cell-timeout", "-1"), "is not a number of seconds above 0"),
    ],
)
def test_what_a_person_can_mend_is_a_sentence_and_exit_code_2(arguments: Sequence[str], part: str) -> None:
    hand_in("ann")
    Path("bad.csv").write_text("a,b\n")
    Path("book.csv").write_bytes(b"PK\x03\x04")
    Path("points.csv").write_text("exercise,points\n99-x,1\n")
    assert part in grade(*arguments, code=2)
    assert not Path("out").exists()


class OnlyD(NoBoxes):
    """Boxes of a machine on which tier D is all there is."""

    def runner(self, run_options: RunOptions) -> Any:
        assert all(map(os.path.exists, run_options.private)), "what is to be closed has to be there"
        super().runner(run_options)
        choose_runner(
            run_options, Path(), WarmProcess(Path(), can_fork=False), lacking=lambda runner: "it is not there"
        )
        return self.given


@pytest.mark.parametrize("isolation", ["D", "auto"])
def test_a_class_of_one_student_is_not_run_without_isolation_unless_that_is_allowed(
    runner: ClassRunner, isolation: str
) -> None:
    hand_in("ann")
    boxes = OnlyD(runner)
    assert "accept that with --allow-unisolated" in grade("--isolation", isolation, boxes=boxes, code=3)
    assert runner.students == []
    assert {str(Path("class").absolute()), str(Path("out").absolute())} < set(boxes.run_options[0].private)
    grade("--isolation", isolation, "--allow-unisolated", boxes=boxes)
    assert runner.students == ["ann"]
    before = runner.controls
    grade("--isolation", isolation, "--fresh", where="class/ann", boxes=boxes)  # a folder of notebooks is one's own
    assert runner.controls == before


def test_the_roster_and_the_points_are_nothing_for_a_notebook_to_read(runner: ClassRunner) -> None:
    hand_in("ann")
    Path("roster.csv").write_text("Student,ID\nann,101\n")
    Path("points.csv").write_text(f"exercise,points\n{KEYS[0]},3\n")
    boxes = NoBoxes(runner)
    grade("--roster", "roster.csv", "--points", "points.csv", boxes=boxes)
    assert {str(Path(name).absolute()) for name in ("roster.csv", "points.csv")} < set(boxes.run_options[0].private)


def test_results_of_something_else_are_not_overwritten_by_a_part() -> None:
    hand_in("ann")
    Path("out").mkdir()
    Path("out/results.json").write_text('{"mine": 1}')
    assert "holds no results of this version" in grade("--student", "ann", code=2)
    assert Path("out/results.json").read_text() == '{"mine": 1}'


@pytest.mark.parametrize("content", ['{"mine": 1}', "[" * 100_000 + "]" * 100_000, "", "{", "\0"])
def test_results_of_something_else_are_set_aside(content: str) -> None:
    hand_in("ann")
    Path("out").mkdir()
    for number in (1, 2):
        Path("out/results.json").write_text(content)
        text = grade(code=3)  # marks may be in it
        assert f"holds no results of this version: it is kept as results.set-aside-{number}.json" in text
        assert Path(f"out/results.set-aside-{number}.json").read_text() == content
        assert results()["ann"]["score"] == 4


def test_a_huge_results_json_is_not_read() -> None:
    hand_in("ann")
    Path("out").mkdir()
    Path("out/results.json").touch()
    os.truncate("out/results.json", 5 << 30)
    assert "results.json has more than 512 MiB" in grade("--student", "ann", code=2)
    assert "has more than 512 MiB: it is kept as results.set-aside-1.json" in grade(code=3)


@pytest.mark.parametrize("kind", ["link", "file"])
def test_where_runs_cannot_be_kept_nothing_is_begun(runner: ClassRunner, kind: str) -> None:
    hand_in("ann")
    grade()
    before = results()
    Path("out/runs").rename("moved")
    if kind == "link":
        Path("out/runs").symlink_to(Path("moved").absolute())
    else:
        Path("out/runs").write_text("mine")
    runner.noted.clear()
    assert "out/runs should hold the runs of notebooks, but is" in grade("--fresh", code=2)
    assert (results(), runner.noted) == (before, [])


def odd(part: str) -> str:
    """A right notebook with something in it that no ordinary file can hold, or no ordinary program can read."""
    answers = [LESSON_1.right[key][0] for key in KEYS]
    content = notebooks.content("# ann 1", "import torch", *answers)
    match part:
        case "text":
            content["cells"].append({"cell_type": "markdown", "id": "m", "metadata": {}, "source": "\ud800"})
        case "metadata":
            content["metadata"] = {"title": "\ud800"}
        case "key":
            content["cells"][0]["metadata"] = {"\udfff": 1}
        case "output":
            stream = {"output_type": "stream", "name": "stdout", "text": "\ud800"}
            content["cells"][0]["outputs"] = [stream]
        case _:
            levels = int(part.partition(" ")[0])
            content["metadata"] = {"deep": 0}
            return json.dumps(content).replace('"deep": 0', '"deep": ' + "[" * levels + "]" * levels)
    return json.dumps(content)


@pytest.mark.parametrize("part", ["text", "metadata", "key", "output", *(f"{n} levels" for n in (60, 200, 450, 976))])
def test_what_is_odd_in_one_notebook_costs_no_other_student_anything(part: str) -> None:
    hand_in("ann").write_text(odd(part)), hand_in("bob")
    text = grade("--keep-outputs", "--export", "canvas")
    assert results()["bob"]["score"] == 4
    assert Path(f"out/executed/bob/{LESSON}.ipynb").exists()
    assert Path("out/canvas.csv").exists()
    read = part != "976 levels"
    assert results()["ann"]["status"] == ("graded" if read else "unreadable")
    assert Path(f"out/executed/ann/{LESSON}.ipynb").exists() == read
    said = f"out/executed/ann/{LESSON}.ipynb: characters that UTF-8 cannot hold became \N{REPLACEMENT CHARACTER}."
    assert (said in text) == (part in ("text", "metadata", "key"))


def test_results_may_lie_in_the_class() -> None:
    hand_in("ann"), hand_in("bob")
    grade("--out", "class/results")
    stored = json.loads(Path("class/results/results.json").read_text())
    assert {found["student"] for found in stored["submissions"]} == {"ann", "bob"}


def test_a_file_that_cannot_be_written_is_said_and_all_others_are_written() -> None:
    hand_in("ann"), hand_in("bob")
    Path("out/executed").mkdir(parents=True)
    Path("out/executed/ann").write_text("mine")
    text = grade("--keep-outputs", "--export", "canvas", code=3)
    assert f"out/executed/ann/{LESSON}.ipynb was not written: ann is a link or not a folder" in text
    assert Path(f"out/executed/bob/{LESSON}.ipynb").exists()
    assert each("score") == {"ann": 4, "bob": 4}


def test_only_what_was_handed_in_is_counted_and_files_csv_says_what_could_not_be_read() -> None:
    hand_in("ann"), hand_in("bob").write_text("{"), hand_in("cy")
    Path("roster.csv").write_text("Name\nann\nbob\ncy\nzoe\n")
    text = grade("--roster", "roster.csv")
    assert "3 notebooks, 1 at a time" in text
    assert "3 of 3 notebooks done" in text
    assert "4 students, 2 of 3 notebooks marked, 1 missing" in Path("out/class.html").read_text()
    rows = csv.DictReader(Path("out/files.csv").read_text().splitlines())
    fates = {row["student"]: row["what became of it"] for row in rows}
    assert fates == {
        "ann": "It counts.", "bob": f"It counts, but is unreadable: {results()['bob']['message']}", "cy": "It counts."
    }  # fmt: skip


def test_the_text_that_a_notebook_may_write_is_limited(runner: ClassRunner) -> None:
    hand_in("ann")
    boxes = NoBoxes(runner)
    grade("--output-limit", "3K", boxes=boxes)
    assert boxes.run_options[0].limits.output == 3 << 10
