"""The results of marking, as data. Every report is a function of a `Batch`; nothing here needs torch or pytest.

All texts are clean, wherever they come from, so reports can trust them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from graders.core.difference import Difference
from graders.core.text import FILE_LIMIT, MESSAGE_LIMIT, NAME_LIMIT, WORD_LIMIT, clean_fields
from graders.wire.limits import PRINTED_CHARACTERS

PROGRAM_LIMIT = 4000
"""The most characters of a program that shows why an answer was refused."""
CHECK_MESSAGE_LIMIT = 1200
"""The most characters of a check's message, which may show two columns of events."""
COMMENT_LIMIT = 2000
"""The most characters of a teacher's comment."""


class Status(str, Enum):
    """How the marking of an exercise can end."""

    PASSED = "passed"
    WRONG = "wrong"
    NOT_ATTEMPTED = "not-attempted"
    SYNTAX_ERROR = "syntax-error"
    RAISED = "raised"
    TIMED_OUT = "timed-out"
    OVER_LIMIT = "over-limit"
    CRASHED = "crashed"
    SUSPECT = "suspect"
    NOT_GRADED = "not-graded"


class SubmissionStatus(str, Enum):
    """How the marking of a submission can end."""

    GRADED = "graded"
    UNREADABLE = "unreadable"
    MISSING = "missing"
    NOT_GRADED = "not-graded"


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check of one exercise: what it asks, whether it held on every draw, and why not.

    `message` is `difference` as text; results of earlier versions have only the text. `follows`: it failed because of a
    mistake that another check shows, so by itself it says nothing.
    """

    name: str
    passed: bool
    score: float
    max_score: float
    message: str = ""
    difference: Difference | None = None
    follows: bool = False

    def __post_init__(self) -> None:
        """Clean the texts: a message quotes the learner, and a `results.json` that is read again may hold anything."""
        clean_fields(self, {"message"}, name=MESSAGE_LIMIT, message=CHECK_MESSAGE_LIMIT)

    @property
    def row(self) -> str:
        """The name, which says what must hold, as a verdict lists it: after "not yet: " if the check failed."""
        if self.follows:
            return f"not judged: {self.name}"
        return self.name if self.passed else f"not yet: {self.name}"


@dataclass(frozen=True, kw_only=True)
class HandMark:
    """A teacher's word on an exercise or a lesson; `computed` is the score without any hand marks.

    `points` are those that the teacher gives; None if this is only a comment, or if only exercises of the lesson have
    points by hand.
    """

    computed: float
    points: float | None = None
    comment: str = ""

    def __post_init__(self) -> None:
        """Clean the text: a `results.json` that is read again may hold anything."""
        clean_fields(self, {"comment"}, comment=COMMENT_LIMIT)


@dataclass(frozen=True, kw_only=True)
class ExerciseResult:
    """One exercise of one submission. `message` is a short text for the learner.

    `mistake` is the id of the mistake that was recognised, if any, and `second_mistake` that of another one, with a
    message of its own. `cell` is the number of the code cell that defines
    the answer, counted from 1; None if no cell does. `defined` is False if the learner's name did not exist when it was
    looked up. `printed` is the start of what the answer printed, on the first inputs where it failed, or if it passed,
    on the first of all. `program` is a program that shows why the answer was refused, when it is pasted below the
    answer; empty if there is none. `note` says which of several cells counts, or where an answer is that does not
    count, and why. With points in `by_hand`, `score` is those.
    """

    key: str
    status: Status
    score: float
    max_score: float
    mistake: str | None = None
    message: str = ""
    checks: tuple[CheckResult, ...] = ()
    cell: int | None = None
    defined: bool = True
    printed: str = ""
    program: str = ""
    note: str = ""
    by_hand: HandMark | None = None
    second_mistake: str | None = None
    second_message: str = ""

    def __post_init__(self) -> None:
        """Clean the texts, as for a check."""
        clean_fields(
            self,
            {"printed", "program"},
            message=MESSAGE_LIMIT,
            printed=PRINTED_CHARACTERS,
            program=PROGRAM_LIMIT,
            note=MESSAGE_LIMIT,
            second_message=MESSAGE_LIMIT,
        )
        for id in ("mistake", "second_mistake"):
            if getattr(self, id) is not None:
                clean_fields(self, **{id: WORD_LIMIT})

    @property
    def decided(self) -> bool:
        """Whether a teacher has given the points."""
        return self.by_hand is not None and self.by_hand.points is not None

    @property
    def explanation(self) -> str:
        """The messages and the note, for a format that has one text."""
        return " ".join(filter(None, (*self.messages, self.note)))

    @property
    def messages(self) -> tuple[str, ...]:
        """The message and, if there is a second mistake, its own."""
        second = f"Also: {self.second_message}" if self.second_message else ""
        return tuple(filter(None, (self.message, second)))

    @property
    def mistakes(self) -> tuple[tuple[str, str], ...]:
        """The id and the message of each recognised mistake."""
        both = ((self.mistake, self.message), (self.second_mistake, self.second_message))
        return tuple((id, message) for id, message in both if id)

    @property
    def telling_checks(self) -> tuple[CheckResult, ...]:
        """The checks to be read: those that failed by themselves if a mistake was recognised, otherwise all."""
        if self.status is not Status.WRONG or self.mistake is None:
            return self.checks
        return tuple(check for check in self.checks if not check.passed and not check.follows)


@dataclass(frozen=True, kw_only=True)
class SubmissionResult:
    """One student's notebook for one lesson. If it was not graded, `message` says why.

    `isolation` is the tier of the box that ran it, and `seconds` how long it took. `student_id` is the student's number
    on a learning platform, and `handed_in` a time in ISO 8601. `score` is what counts: the points of the exercises less
    `penalty`, the points lost for being late; `late_note` names the deadline and the rule. `superseded` lists the other
    files that were handed in for this lesson and do not count. `seed` is that of its inputs; None if the notebook was
    not run. `missing_modules` are modules that it imports and that are not installed. `group` is the group that handed
    it in; empty for a student's own work. `by_hand` is set if a teacher gave points or said something, to the lesson or
    to one of its exercises; `score` then includes those points, and `penalty` is what lateness cost without them.
    """

    student: str
    lesson: str
    file: str
    sha256: str
    status: SubmissionStatus
    isolation: str
    score: float
    max_score: float
    seconds: float
    exercises: tuple[ExerciseResult, ...] = ()
    message: str = ""
    student_id: str = ""
    handed_in: str = ""
    penalty: float = 0.0
    late_note: str = ""
    superseded: tuple[str, ...] = ()
    seed: int | None = None
    missing_modules: tuple[str, ...] = ()
    group: str = ""
    by_hand: HandMark | None = None

    def __post_init__(self) -> None:
        """Clean the texts, with the limits of a `Submission`, so that names still match it letter by letter."""
        clean_fields(self, student=NAME_LIMIT, student_id=NAME_LIMIT, group=NAME_LIMIT)
        clean_fields(self, message=MESSAGE_LIMIT, late_note=MESSAGE_LIMIT, file=FILE_LIMIT, superseded=FILE_LIMIT)
        clean_fields(self, handed_in=WORD_LIMIT, missing_modules=WORD_LIMIT)

    @property
    def decided(self) -> bool:
        """Whether a teacher has given the points of the lesson."""
        return self.by_hand is not None and self.by_hand.points is not None

    @property
    def computed_score(self) -> float:
        """The score without hand marks."""
        return self.score if self.by_hand is None else self.by_hand.computed

    @property
    def graded(self) -> bool:
        """Whether every exercise has a verdict on the learner's work, ours or a teacher's, so that nothing is open."""
        return self.decided or (
            self.status is not SubmissionStatus.NOT_GRADED
            and all(exercise.status is not Status.NOT_GRADED or exercise.decided for exercise in self.exercises)
        )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """All submissions of one run of the graders; `torch` is its version, and `created` a time in ISO 8601."""

    seed: int
    torch: str
    created: str
    submissions: tuple[SubmissionResult, ...] = ()

    def __post_init__(self) -> None:
        """Clean the texts: a `results.json` that is read again may hold anything."""
        clean_fields(self, torch=MESSAGE_LIMIT, created=WORD_LIMIT)
