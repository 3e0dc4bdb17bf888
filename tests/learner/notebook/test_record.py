from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from graders.core.results import Status
from graders.learner.notebook import record
from graders.learner.notebook.record import Record, edit_record, load_record
from tests.trouble import nothing_can_be_written

FULL = {
    "exercises": {"01-branch-grads": "passed", "01-chain-grads": "wrong"},
    "hints": {"01-chain-grads": 2},
    "solutions": ["01-chain-grads"],
    "predictions": {"01-two-leaves": True},
}


def write(folder: Path, content: object) -> Path:
    file = folder / record.FILE_NAME
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_a_folder_without_a_record_has_an_empty_one_and_reading_writes_nothing(tmp_path: Path) -> None:
    assert load_record(tmp_path) == Record()
    with edit_record(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_is_noted_is_found_again_in_a_file_that_people_can_read(tmp_path: Path) -> None:
    with edit_record(tmp_path) as kept:
        kept.note("01-chain-grads", Status.WRONG)
        kept.note("01-branch-grads", Status.PASSED)
        assert (kept.next_hint("01-chain-grads"), kept.next_hint("01-chain-grads")) == (0, 1)
        assert not kept.ask_for_solution("01-chain-grads")
        assert (kept.keep_prediction("01-two-leaves", True), kept.keep_prediction("01-two-leaves", False)) == (
            True,
            True,
        )
    file = tmp_path / record.FILE_NAME
    assert json.loads(file.read_text()) == FULL
    assert '\n  "01-branch-grads": "passed",\n' in file.read_text()
    assert load_record(tmp_path) == Record(**FULL)


def test_a_file_from_before_there_were_predictions_is_read(tmp_path: Path) -> None:
    old = {name: part for name, part in FULL.items() if name != "predictions"}
    write(tmp_path, old)
    assert load_record(tmp_path) == Record(**old)
    assert load_record(tmp_path).trouble == ""


def test_what_once_passed_stays_passed_and_an_untouched_stub_is_not_noted() -> None:
    kept = Record()
    for status in (Status.NOT_ATTEMPTED, Status.NOT_GRADED):
        kept.note("a", status)
    assert kept.exercises == {}
    for status in (Status.RAISED, Status.PASSED, Status.WRONG):
        kept.note("a", status)
    assert kept.exercises == {"a": "passed"}


def test_an_answer_opens_when_passed_or_asked_for_twice() -> None:
    kept = Record(exercises={"a": "passed"})
    assert [kept.ask_for_solution(key) for key in "abb"] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1 is not JSON"),
        ('{"exercises": {\n"01-branch', "line 2 is not JSON"),
        ("\xff", "it is not text in UTF-8"),
        ("[]", "it is not a JSON object"),
    ],
)
def test_a_file_that_cannot_be_read_is_set_aside(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / record.FILE_NAME
    file.write_bytes(text.encode("latin-1"))
    found = load_record(tmp_path)
    assert found.exercises == {}
    assert found.trouble.startswith(f"{file} could not be read ({why}). It is now hookwork-progress.broken-1.json")
    assert (tmp_path / "hookwork-progress.broken-1.json").read_bytes() == text.encode("latin-1")
    assert load_record(tmp_path).trouble == ""


@pytest.mark.parametrize(
    ("strange", "part"),
    [
        ({"exercises": {"01-branch-grads": "excellent", "01-chain-grads": "wrong"}}, "exercises"),
        ({"exercises": []}, "exercises"),
        ({"hints": {"01-chain-grads": -1}}, "hints"),
        ({"solutions": [1]}, "solutions"),
        ({"predictions": {"01-two-leaves": "yes"}}, "predictions"),
        ({"notes": "mine"}, "notes"),
    ],
)
def test_what_can_be_understood_of_a_strange_file_is_kept(
    tmp_path: Path, strange: dict[str, object], part: str
) -> None:
    write(tmp_path, {**FULL, **strange})
    found = load_record(tmp_path)
    assert f"its part {part!r} cannot be understood" in found.trouble
    assert json.loads((tmp_path / "hookwork-progress.broken-1.json").read_text()) == {**FULL, **strange}
    again = load_record(tmp_path)
    assert again.trouble == ""
    assert again.exercises.get("01-chain-grads") == (None if strange.get("exercises") == [] else "wrong")


def test_a_second_broken_file_does_not_replace_the_first(tmp_path: Path) -> None:
    for text in ("first", "second"):
        write(tmp_path, text)
        load_record(tmp_path)
    kept = sorted(tmp_path.glob("*.broken-*"))
    assert [file.read_text() for file in kept] == ["first", "second"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    write(tmp_path, FULL)
    with nothing_can_be_written(), edit_record(tmp_path) as kept:
        kept.note("01-per-pass-grads", Status.PASSED)
    assert kept.trouble.endswith("file too large.")
    assert json.loads((tmp_path / record.FILE_NAME).read_text()) == FULL
    assert load_record(tmp_path).passed("01-per-pass-grads"), "it lasts as long as the session"
    with edit_record(tmp_path) as kept:
        kept.note("02-record-grad", Status.PASSED)
    assert json.loads((tmp_path / record.FILE_NAME).read_text())["exercises"]["01-per-pass-grads"] == "passed"


def add(folder: Path, writer: int) -> None:
    for number in range(10):
        with edit_record(folder) as kept:
            kept.note(f"0{writer}-{number}", Status.PASSED)


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=add, args=(tmp_path, writer)) for writer in range(3)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert len(load_record(tmp_path).exercises) == 30


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "deep", "large"])
def test_whatever_has_its_place_is_set_aside_and_nothing_is_waited_for(tmp_path: Path, kind: str) -> None:
    file = tmp_path / record.FILE_NAME
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "link":
            file.symlink_to(write(tmp_path / "..", FULL).resolve().rename(tmp_path / "elsewhere"))
        case "folder":
            file.mkdir()
        case "deep":
            write(tmp_path, "[" * 100_000 + "]" * 100_000)
        case "large":
            write(tmp_path, " " * record.MAX_BYTES + "{}")
    with edit_record(tmp_path) as kept:
        kept.note("01-branch-grads", Status.PASSED)
    why = {
        "pipe": "it is not an ordinary file",
        "link": "it is a link to another file",
        "folder": "it is not an ordinary file",
        "deep": "its lists and objects are nested too deeply",
        "large": "it has more than 1 MB",
    }
    assert kept.trouble.startswith(
        f"{file} could not be read ({why[kind]}). It is now hookwork-progress.broken-1.json;"
    )
    assert load_record(tmp_path) == Record(exercises={"01-branch-grads": "passed"})
    assert os.path.lexists(tmp_path / "hookwork-progress.broken-1.json")
    if kind == "link":
        assert json.loads((tmp_path / "elsewhere").read_text()) == FULL
