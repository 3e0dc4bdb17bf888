"""Reads transcripts: what a box was asked and what it answered, frame by frame.

The frames are kept as they came, so that a run can be judged again without running anything. Frames of two types are
ours and never come from inside: `asked`, before each answer, with the exercise, the case, the nonce and how many cells
had run; and `ended`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graders.core.decoded import DecodedAnswers
from graders.core.expect import Seen
from graders.core.missing_modules import missing_modules, undefined_name
from graders.core.results import Status
from graders.core.text import clean_text
from graders.wire.data import DataError
from graders.wire.frames import Frame
from graders.wire.limits import PRINTED_CHARACTERS

FROM_INSIDE = {"ready", "cell", "restart", "cells-done", "seen", "raised", "output", "probe-end"}
_DECODED = DecodedAnswers()
_LEARNERS_STATUS = {"raised", "not-attempted", "timed-out", "over-limit", "crashed"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one probe on one draw: either `seen`, if the probe finished, or a `status` that says why not.

    All texts are safe to print. `error` and `message` describe the learner's exception, `line` is the line of theirs
    that raised it, and `call` the call with its arguments. `defined` says whether the notebook has the name that was
    asked for. `digest` identifies the values in `seen`. `printed` is the beginning of what the answer printed.
    `undefined` is the undefined name that made it fail, or empty. `stopped_at` is the number of the story in which it
    failed, the line of its file, perhaps that of a helper, and its own line; None if there was no story. `plainest` are
    the circumstances of the draw that it does without: it fails as well where these have their plainest values.
    """

    seen: Seen | None = None
    status: Status | None = None
    error: str = ""
    message: str = ""
    line: str = ""
    call: str = ""
    digest: str = ""
    defined: bool = True
    printed: str = ""
    undefined: str = ""
    stopped_at: tuple[int, int, int] | None = None
    plainest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """How a code cell ended: "ok", "raised", "timed-out", "over-limit", "crashed" or "skipped".

    `index` counts code cells from 0. `undefined` is the undefined name that made it fail, or empty.
    """

    index: int
    status: str
    message: str
    undefined: str = ""


@dataclass(frozen=True)
class Run:
    """What a transcript says: how each cell ended, and an outcome for each (exercise key, place, case).

    A place is the number of cells that had run when the question was asked. `ended`, `message` and `seconds` are as in
    `Transcript`. `missing_modules` are those that the notebook tried to import but that are not installed.
    """

    cells: tuple[Cell, ...] = ()
    outcomes: dict[tuple[str, int, int], Outcome] = field(default_factory=dict)
    ended: str = "finished"
    message: str = ""
    seconds: float = 0.0
    missing_modules: tuple[str, ...] = ()

    def outcomes_by_place(self, key: str, cases: int) -> list[list[Outcome]]:
        """For each place where an exercise was asked, its own first, the outcomes of its `cases` cases.

        After a case that did not finish, the others are not asked, and get the same outcome. If a question was never
        answered, the outcome says how the box ended.
        """
        fate = Outcome(status=_STATUS_BY_ENDING.get(self.ended, Status.CRASHED), message=self.message)
        found = []
        for place in sorted({place for other, place, _ in self.outcomes if other == key}):
            outcomes = [self.outcomes.get((key, place, case), fate) for case in range(cases)]
            unseen = next((case for case in range(cases) if outcomes[case].seen is None), cases)
            found.append(outcomes[:unseen] + outcomes[unseen : unseen + 1] * (cases - unseen))
        return found or [[fate] * cases]


_STATUS_BY_ENDING = {
    "not-started": Status.NOT_GRADED,
    "timed-out": Status.TIMED_OUT,
    "over-limit": Status.OVER_LIMIT,
    "suspect": Status.SUSPECT,
    "died": Status.CRASHED,
}


def read_transcript(transcript: Sequence[Frame]) -> Run:
    """Read a transcript. From the point where a box broke the protocol, its run is suspect."""
    cells: dict[int, Cell] = {}
    outcomes: dict[tuple[str, int, int], Outcome] = {}
    asked: tuple[str, int, int, str] | None = None
    ended, message, seconds = "died", "", 0.0
    for frame in transcript:
        head = frame.head
        if frame.type == "asked":
            asked = head["key"], head["cells"], head["case"], head["nonce"]
        elif frame.type == "ended":
            ended, message, seconds = head["how"], clean_text(head["message"]), head["seconds"]
        elif frame.type == "restart":
            cells.clear()
        elif frame.type == "cell" and type(head.get("cell")) is int and head["cell"] >= 0:
            cells[head["cell"]] = Cell(
                index=head["cell"],
                status=clean_text(head.get("status"), 20),
                message=clean_text(head.get("message")),
                undefined=undefined_name(head),
            )
        elif frame.type in ("seen", "raised"):
            if asked is None or head.get("nonce") != asked[3]:
                return Run(
                    cells=tuple(cells.values()),
                    outcomes=outcomes,
                    ended="suspect",
                    message="an answer that nobody had asked for",
                    seconds=seconds,
                )
            outcomes[asked[:3]] = _read_outcome(frame)
            asked = None
    return Run(
        cells=tuple(cells[index] for index in sorted(cells)),
        outcomes=outcomes,
        ended=ended,
        message=message,
        seconds=seconds,
        missing_modules=missing_modules(transcript),
    )


def _read_outcome(frame: Frame) -> Outcome:
    head = frame.head
    if frame.type == "seen":
        try:
            tree, body = json.dumps(head.get("tree")), frame.body
            digest = hashlib.sha256(tree.encode() + b"\0" + body).hexdigest()
            seen = _DECODED.decode_answer(digest, tree, body)
            return Outcome(seen=seen, digest=digest, printed=printed_text(head))
        except DataError as error:
            return Outcome(status=Status.SUSPECT, message=clean_text(f"an answer that is not data: {error}"))
    return raised_outcome(head)


def raised_outcome(head: dict[str, Any]) -> Outcome:
    """The outcome from the head of a `raised` frame."""
    status = head.get("status")
    return Outcome(
        status=Status(status) if type(status) is str and status in _LEARNERS_STATUS else Status.SUSPECT,
        error=clean_text(head.get("error", ""), 100),
        message=clean_text(head.get("message", "")),
        line=clean_text(head.get("line", "")),
        call=clean_text(head.get("call", "")),
        defined=head.get("defined") is not False,
        printed=printed_text(head),
        undefined=undefined_name(head),
        stopped_at=_place_in_story(head.get("story"), head.get("story_line"), head.get("story_from_line")),
        plainest=tuple(clean_text(head.get("plainest", "")).split()),
    )


def _place_in_story(*place: Any) -> tuple[int, int, int] | None:
    """Three small numbers, as the box reports them; None for anything else, since anybody may write there."""
    return place if all(type(n) is int and 0 <= n < 10**6 for n in place) else None


def printed_text(head: dict[str, Any]) -> str:
    """What an answer printed, from the head of its frame, made safe to print and cut to `PRINTED_CHARACTERS`."""
    return clean_text(head.get("printed", ""), PRINTED_CHARACTERS, lines=True).rstrip()
