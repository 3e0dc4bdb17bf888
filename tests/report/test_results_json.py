from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema
import pytest

from graders.core.difference import Difference, Kind, Timelines
from graders.core.results import Batch, CheckResult, ExerciseResult, HandMark, Status, SubmissionStatus
from graders.report import results_json
from tests.batches import batch, exercise, graded, ungraded

EVERY = batch(
    graded("ann", *(exercise(f"01-{status.value}", status, 0, 2, message="why") for status in Status), message="note"),
    graded(
        "bob",
        exercise("01-a", Status.WRONG, 0.5, 2, mistake="forgot-return", cell=3),
        exercise("01-b", Status.WRONG, 0.5, 2, mistake="a", second_mistake="b", second_message="Two."),
        student_id="7",
        handed_in="2026-01-02T03:04:05+00:00",
        penalty=0.25,
        superseded=("class/bob/old.ipynb",),
        missing_modules=("pandas", "utils"),
        group="Team 1",
        by_hand=HandMark(computed=1, points=2.5, comment="Two\nlines"),
    ),
    graded("hand", exercise("01-a", by_hand=HandMark(computed=1)), by_hand=HandMark(computed=1, comment="Good")),
    *(ungraded(f"c{number}", status, "why") for number, status in enumerate(SubmissionStatus)),
)


def test_the_file_holds_the_batch() -> None:
    data = json.loads(results_json.render(batch(graded("ann", exercise("01-a", Status.WRONG, 0.5, 2, mistake="oops")))))
    assert data == {
        "schema": 1,
        "seed": 42,
        "torch": "2.13.0",
        "created": "2026-01-02T03:04:05+00:00",
        "submissions": [
            {
                "student": "ann", "lesson": "01_first", "file": "class/ann/01_first.ipynb", "sha256": "a" * 64,
                "seed": None,
                "status": "graded", "isolation": "D", "score": 0.5, "max_score": 2, "seconds": 1.25, "message": "",
                "student_id": "", "handed_in": "", "penalty": 0.0, "superseded": [],
                "exercises": [
                    {
                        "key": "01-a", "status": "wrong", "score": 0.5, "max_score": 2, "mistake": "oops",
                        "message": "", "cell": None, "defined": True,
                        "checks": [
                            {"name": "it holds", "passed": False, "score": 0.5, "max_score": 2.0, "message": ""}
                        ],
                    }
                ],
            }
        ],
    }  # fmt: skip


def test_every_status_is_valid_and_comes_back_as_it_was() -> None:
    assert results_json.parse(results_json.render(EVERY).encode()) == EVERY


COMPARED = Difference(Kind.VALUE, "x.grad", "[1]", "6", "2", "all entries differ")
IN_ORDER = Difference(Kind.ORDER, "log", timelines=Timelines(("a", "b"), ("a",), 3, 1))
IN_WORDS = Difference(Kind.HOOK_GONE, note="a hook that was there before is gone")


def test_why_a_check_does_not_hold_is_written_as_data_and_comes_back() -> None:
    checks = tuple(
        CheckResult(name="c", passed=False, score=0.0, max_score=1.0, message=difference.text, difference=difference)
        for difference in (COMPARED, IN_ORDER, IN_WORDS)
    )
    found = batch(graded("ann", ExerciseResult(key="01-a", status=Status.WRONG, score=0, max_score=3, checks=checks)))
    data = json.loads(results_json.render(found))
    written = data["submissions"][0]["exercises"][0]["checks"]
    assert [check["difference"] for check in written] == [
        {"kind": "value", "where": "x.grad", "entry": "[1]", "expected": "6", "seen": "2",
         "note": "all entries differ"},
        {"kind": "order", "where": "log",
         "timelines": {"expected": ["a", "b"], "seen": ["a"], "equal_before": 3, "more_after": 1}},
        {"kind": "hook-gone", "note": "a hook that was there before is gone"},
    ]  # fmt: skip
    assert results_json.batch_from_data(data) == found


def test_a_file_of_an_earlier_version_is_read() -> None:
    checks = [{"name": "c", "passed": False, "score": 0, "max_score": 1, "message": "x: expected 1, saw 2"}]
    exercises = [{"key": "01-a", "status": "wrong", "score": 0, "max_score": 1, "mistake": None, "message": "m",
                  "checks": checks}]  # fmt: skip
    submission = {"student": "ann", "lesson": "01_first", "file": "f", "sha256": "", "status": "graded",
                  "isolation": "D", "score": 0, "max_score": 1, "seconds": 1, "exercises": exercises}  # fmt: skip
    data = {"schema": 1, "seed": 1, "torch": "2", "created": "now", "submissions": [submission]}
    (result,) = results_json.batch_from_data(data).submissions[0].exercises
    assert result.checks == (
        CheckResult(name="c", passed=False, score=0, max_score=1, message="x: expected 1, saw 2", difference=None),
    )
    assert (result.cell, result.defined, result.printed) == (None, True, "")


@pytest.mark.parametrize(("name", "text"), [("note", "Cell 3 counts."), ("printed", "a\n  b"), ("program", "a\n  b")])
def test_a_note_and_texts_of_several_lines_are_written_and_come_back(name: str, text: str) -> None:
    found = batch(graded("ann", exercise("01-a", **{name: text}), exercise("01-b")))
    data = results_json.batch_to_data(found)
    assert [exercise.get(name) for exercise in data["submissions"][0]["exercises"]] == [text, None]
    assert results_json.batch_from_data(data) == found


def test_an_empty_batch_is_valid() -> None:
    assert results_json.batch_to_data(batch())["submissions"] == []


def changed(**parts: Any) -> Batch:
    """A batch whose only submission has other values."""
    return batch(dataclasses.replace(graded("ann", exercise("01-a")), **parts))


@pytest.mark.parametrize(
    "parts",
    [
        {"sha256": "not a hash"},
        {"score": -1.0},
        {"seconds": "1"},
        {"isolation": "Z"},
        {"exercises": (exercise("no key"),)},
        {"status": "passed"},
    ],
)
def test_what_the_schema_forbids_is_not_written(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"data\b"):
        results_json.render(changed(**parts))


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(results_json.SCHEMA_FILE.read_text(encoding="utf-8")))


def test_the_schema_knows_every_status() -> None:
    schema = json.loads(results_json.SCHEMA_FILE.read_text(encoding="utf-8"))
    definitions = schema["$defs"]
    assert definitions["exercise"]["properties"]["status"]["enum"] == [status.value for status in Status]
    assert definitions["difference"]["properties"]["kind"]["enum"] == [kind.value for kind in Kind]
    assert definitions["submission"]["properties"]["status"]["enum"] == [status.value for status in SubmissionStatus]


def test_text_is_written_as_it_is() -> None:
    assert '"student": "jös ✓"' in results_json.render(changed(student="jös ✓"))


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"\xff", b"[]", b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000,
     results_json.render(EVERY).encode().replace(b'"seconds": 1.25', b'"seconds": NaN'),
     results_json.render(EVERY).encode().replace(b'"seconds": 1.25', b'"seconds": Infinity'),
     *(results_json.render(EVERY).encode().replace(b"01_first", lesson)
       for lesson in (b"../../../x", b"/tmp/x", b"01_", b"01_a/b", b"01_a\\n", b"", b"..", b"01_a.b"))],
    ids=lambda raw: str(raw[-20:]),
)  # fmt: skip
def test_what_this_did_not_write_is_a_value_error(raw: bytes) -> None:
    assert raw != results_json.render(EVERY).encode()
    with pytest.raises(ValueError, match=r"."):
        results_json.parse(raw)
