from __future__ import annotations

import io
import struct
from typing import Any

import pytest
import torch

from graders.core.results import Status
from graders.core.transcript import Cell, Outcome, Run, read_transcript
from graders.marking.cache import transcript_from_bytes, transcript_to_bytes
from graders.wire import frames
from graders.wire.data import encode
from graders.wire.frames import Frame, FrameError

KEY = "90-scale-sum"


def asked(case: int = 0, nonce: str = "n", *, cells: int = 2) -> Frame:
    return Frame({"type": "asked", "key": KEY, "case": case, "cells": cells, "nonce": nonce})


def seen(value: Any, nonce: str = "n") -> Frame:
    tree, body = encode(value)
    return Frame({"type": "seen", "tree": tree, "nonce": nonce}, body)


def raised(nonce: str = "n", **head: Any) -> Frame:
    return Frame({"type": "raised", "nonce": nonce, **head})


def cell(index: Any, status: Any = "ok", message: Any = "") -> Frame:
    return Frame({"type": "cell", "cell": index, "status": status, "message": message, "seconds": 0.1})


def ended(how: str = "finished", message: str = "") -> Frame:
    return Frame({"type": "ended", "how": how, "message": message, "seconds": 1.5})


READY, DONE, END = (Frame({"type": name}) for name in ("ready", "cells-done", "probe-end"))


def outcome(run: Run, case: int = 0, key: str = KEY) -> Outcome:
    """The outcome of one case of an exercise, in the first place where it was asked."""
    return run.outcomes_by_place(key, case + 1)[0][case]


def outcome_of(*frames: Frame) -> Outcome:
    """The outcome of the only probe in a finished run with these frames after its question."""
    return outcome(read_transcript([READY, DONE, asked(), *frames, END, ended()]))


def test_a_finished_run_has_cells_outcomes_and_its_time() -> None:
    run = read_transcript(
        [
            READY,
            cell(0),
            cell(1, "raised", "ValueError: no"),
            DONE,
            asked(),
            seen({"a": torch.ones(1)}),
            asked(1, "m"),
            raised("m", status="timed-out", message="no result after 10 seconds"),
            END,
            ended(),
        ]
    )
    assert run.cells == (Cell(0, "ok", ""), Cell(1, "raised", "ValueError: no"))
    assert outcome(run).seen["a"].tensor.tolist() == [1.0]
    assert outcome(run, 1) == Outcome(status=Status.TIMED_OUT, message="no result after 10 seconds")
    assert (run.ended, run.message, run.seconds) == ("finished", "", 1.5)


def test_cells_that_ran_again_count_once() -> None:
    restart = Frame({"type": "restart", "cell": 1})
    again = [cell(0, "raised", "second time"), cell(1, "crashed", "gone"), cell(2)]
    run = read_transcript([READY, cell(0), restart, *again, DONE, END, ended()])
    assert [(cell.index, cell.status, cell.message) for cell in run.cells] == [
        (0, "raised", "second time"),
        (1, "crashed", "gone"),
        (2, "ok", ""),
    ]


def test_an_exception_brings_its_line_and_call() -> None:
    head = {"status": "raised", "error": "ValueError", "message": "no", "line": "line 2 of its cell", "call": "f(1)"}
    assert outcome_of(raised(**head)) == Outcome(
        seen=None, status=Status.RAISED, error="ValueError", message="no", line="line 2 of its cell", call="f(1)"
    )


def test_what_a_notebook_did_not_find_is_told_by_name_and_nothing_else_is() -> None:
    cells = [Frame({**cell(0, "raised").head, "modules": "pandas google.colab", "undefined": "pd"}), cell(1)]
    answer = raised(status="raised", modules="pandas", undefined="<b>")
    run = read_transcript([READY, *cells, DONE, asked(), answer, END, ended()])
    assert run.missing_modules == ("google.colab", "pandas")
    assert [one.undefined for one in run.cells] == ["pd", ""]
    assert outcome(run).undefined == ""
    odd = Frame({**cell(0).head, "modules": "a/b <x> \x1b[2J 1a ../x", "undefined": 3})
    run = read_transcript([READY, odd, DONE, END, ended()])
    assert (run.missing_modules, run.cells[0].undefined) == ((), "")


@pytest.mark.parametrize("status", ["raised", "not-attempted", "timed-out", "over-limit", "crashed"])
def test_the_box_may_report_what_the_learners_code_did(status: str) -> None:
    assert outcome_of(raised(status=status)).status == Status(status)


@pytest.mark.parametrize("status", ["passed", "wrong", "suspect", "not-graded", "", None, 1, ["raised"], {}])
def test_any_other_status_from_inside_is_suspect(status: Any) -> None:
    assert outcome_of(raised(status=status)).status == Status.SUSPECT


def test_an_exercise_has_an_outcome_for_each_case_in_each_place() -> None:
    run = read_transcript(
        [
            READY,
            cell(0),
            DONE,
            asked(0, "a", cells=1),
            seen(1, "a"),
            asked(1, "b", cells=1),
            raised("b", status="raised"),
            cell(1),
            DONE,
            asked(0, "c"),
            seen(3, "c"),
            asked(1, "d"),
            seen(4, "d"),
            asked(2, "e"),
            seen(5, "e"),
            END,
            ended(),
        ]
    )
    here, further_down = run.outcomes_by_place(KEY, 3)
    assert (here[0].seen.value, [outcome.status for outcome in here[1:]]) == (1, [Status.RAISED, Status.RAISED])
    assert [outcome.seen.value for outcome in further_down] == [3, 4, 5]
    assert run.outcomes_by_place("90-never-asked", 2) == [[Outcome(status=Status.CRASHED)] * 2]


def test_texts_from_inside_are_cleaned_and_cut() -> None:
    found = outcome_of(
        raised(status="raised", error="\x1b[2J" * 100, message="<b>\u202e" + "x" * 999, line=3, call=["f"])
    )
    assert found.error == "\ufffd[2J" * 24 + "\ufffd[2…"
    assert found.message == "<b>\ufffd" + "x" * 295 + "…"
    assert (found.line, found.call) == ("3", "['f']")
    run = read_transcript([READY, cell(0, "o" * 99, {"a": "\x07"}), DONE, END, ended()])
    assert run.cells == (Cell(0, "o" * 19 + "…", "{'a': '\\x07'}"),)


@pytest.mark.parametrize(
    "tree",
    [[1], {"q": []}, {"t": ["float32", [4], 0, False, "tensor"]}, {"t": ["float32", [0, 2**63], 0, False, "tensor"]}],
)
def test_an_answer_that_is_not_data_is_suspect(tree: Any) -> None:
    found = outcome_of(Frame({"type": "seen", "tree": tree, "nonce": "n"}))
    assert found.status == Status.SUSPECT
    assert found.message.startswith("an answer that is not data: ")


@pytest.mark.parametrize(
    "answers",
    [
        [seen(1, "m")],
        [Frame({"type": "seen", "tree": 1})],
        [raised("m", status="raised")],
        [seen(1), seen(2)],
    ],
)
def test_an_answer_to_no_question_makes_the_rest_suspect(answers: list[Frame]) -> None:
    run = read_transcript([READY, DONE, asked(), *answers, asked(1, "k"), seen(1, "k"), END, ended()])
    assert (run.ended, run.message) == ("suspect", "an answer that nobody had asked for")
    assert outcome(run, 1) == Outcome(status=Status.SUSPECT, message="an answer that nobody had asked for")


def test_what_was_answered_before_the_breach_stays() -> None:
    run = read_transcript([READY, DONE, asked(), seen(1), seen(2), ended()])
    assert outcome(run).seen.value == 1
    assert outcome(run, 1).status == Status.SUSPECT
    run = read_transcript([READY, DONE, asked(), raised(status="raised"), seen(2), ended()])
    assert [outcome(run, case).status for case in (0, 1)] == [Status.RAISED] * 2  # the second would not be asked
    assert outcome(run, 0, "90-other").status == Status.SUSPECT


@pytest.mark.parametrize("index", [-1, -10, True, "0", None, 1.0, [0]])
def test_a_cell_without_a_proper_number_is_left_out(index: Any) -> None:
    assert read_transcript([READY, cell(index, "raised"), cell(0), DONE, END, ended()]).cells == (Cell(0, "ok", ""),)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("not-started", Status.NOT_GRADED),
        ("timed-out", Status.TIMED_OUT),
        ("suspect", Status.SUSPECT),
        ("died", Status.CRASHED),
    ],
)
def test_a_probe_without_an_answer_shares_the_fate_of_its_box(how: str, status: Status) -> None:
    run = read_transcript([READY, DONE, asked(), seen(1), asked(1, "m"), ended(how, "why")])
    assert outcome(run).seen.value == 1
    assert outcome(run, 1) == Outcome(status=status, message="why")
    assert outcome(run, 0, "90-never-asked") == Outcome(status=status, message="why")


def test_a_transcript_without_an_end_is_that_of_a_box_that_died() -> None:
    assert read_transcript([]) == Run(ended="died")
    assert outcome(read_transcript([READY])).status == Status.CRASHED


def test_a_transcript_is_kept_as_it_came() -> None:
    transcript = [READY, cell(0), DONE, asked(), seen([torch.ones(2), "text"]), END, ended()]
    assert transcript_from_bytes(transcript_to_bytes(transcript)) == transcript
    assert transcript_from_bytes(transcript_to_bytes([])) == []
    for other in (
        b"",
        b"x",
        transcript_to_bytes(transcript)[32:],
        transcript_to_bytes(transcript) + transcript_to_bytes(transcript),
    ):
        with pytest.raises(FrameError):
            transcript_from_bytes(other)
    with pytest.raises(FrameError):
        transcript_from_bytes(transcript_to_bytes(transcript)[:-1])


def test_what_the_box_wrote_briefly_is_kept_too() -> None:
    head = b'{"type": "cell", "more": "' + b"\x7f" * 60_000 + b'"}'
    stream = io.BytesIO(struct.pack("<II", len(head), 0) + head)
    frame = frames.read_frame(stream.read)
    assert frame is not None
    assert transcript_from_bytes(transcript_to_bytes([frame])) == [frame]
