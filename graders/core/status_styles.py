"""What each status is called and how it is marked, the same wherever a learner meets it."""

from __future__ import annotations

from dataclasses import dataclass

from graders.core.results import Status


@dataclass(frozen=True)
class StatusStyle:
    """A sign and a word that say all; the colours only repeat it.

    `colour` is three numbers from 0 to 255. White text on it, and it on white and on near-black, can be told apart
    (4.5:1 and 3:1). `style` is the same for a terminal.
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
    Status.RAISED: StatusStyle("!", "An exception was raised", _AMBER, "yellow"),
    Status.TIMED_OUT: StatusStyle("⧗", "Did not come to an end", _AMBER, "yellow"),
    Status.OVER_LIMIT: StatusStyle("▲", "Went over a limit", _AMBER, "yellow"),
    Status.CRASHED: StatusStyle("†", "The Python process ended", _AMBER, "yellow"),
    Status.SUSPECT: StatusStyle("?", "Somebody should look at this", _AMBER, "yellow"),
    Status.NOT_GRADED: StatusStyle("–", "Could not be graded, not by your doing", _AMBER, "yellow"),
}
