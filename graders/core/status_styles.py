"""The sign, word and colour of each status, the same wherever a learner sees it."""

from __future__ import annotations

from dataclasses import dataclass

from graders.core.results import CheckResult, Status


@dataclass(frozen=True)
class StatusStyle:
    """A sign and a word, which say everything; the colour only repeats it.

    `colour` is red, green and blue, each from 0 to 255, with enough contrast to white text (4.5:1) and to white and
    near-black backgrounds (3:1). `style` is the same colour as a style for rich, in a terminal.
    """

    sign: str
    word: str
    colour: tuple[int, int, int]
    style: str


_GREEN, _RED, _AMBER, _GREY = (26, 127, 67), (200, 48, 44), (160, 92, 0), (107, 114, 128)

STATUS_STYLES: dict[Status, StatusStyle] = {
    Status.PASSED: StatusStyle("✓", "Passed", _GREEN, "green"),
    Status.WRONG: StatusStyle("✗", "Not yet right", _RED, "red"),
    Status.NOT_ATTEMPTED: StatusStyle("·", "Not attempted yet", _GREY, "dim"),
    Status.SYNTAX_ERROR: StatusStyle("§", "Its cell is not valid Python", _AMBER, "yellow"),
    Status.RAISED: StatusStyle("!", "An exception was raised", _AMBER, "yellow"),
    Status.TIMED_OUT: StatusStyle("⧗", "Did not come to an end", _AMBER, "yellow"),
    Status.OVER_LIMIT: StatusStyle("▲", "Went over a limit", _AMBER, "yellow"),
    Status.CRASHED: StatusStyle("†", "The Python process ended", _AMBER, "yellow"),
    Status.SUSPECT: StatusStyle("?", "Somebody should look at this", _AMBER, "yellow"),
    Status.NOT_GRADED: StatusStyle("–", "Could not be graded, through no fault of yours", _AMBER, "yellow"),
}

_NOT_JUDGED = StatusStyle("–", "not judged", _GREY, "dim")


def check_style(check: CheckResult) -> StatusStyle:
    """The sign and colour of a check."""
    return _NOT_JUDGED if check.follows else STATUS_STYLES[Status.PASSED if check.passed else Status.WRONG]
