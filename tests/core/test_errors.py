from __future__ import annotations

import errno

import pytest

from graders.core import course
from graders.core.errors import ExitCode, FileTrouble, HookworkError, NotInstalled
from graders.core.exercise import IllConditionedDraws
from graders.core.source import SourceError
from graders.instructor.request import BadRequest
from graders.learner.folder import LearnerError
from graders.report.policy import BadPolicy
from graders.sandbox.outside.tier_choice import NoIsolation
from graders.submissions.finding import NoSubmissions
from graders.submissions.intake import Unreadable
from graders.submissions.members import BadArchive
from graders.submissions.tables import BadTable
from graders.verdict.scene_exercise import NotInTheBox


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (course.UnknownKey, ExitCode.USAGE),
        (course.UnknownLesson, ExitCode.USAGE),
        (BadTable, ExitCode.USAGE),
        (BadPolicy, ExitCode.USAGE),
        (BadRequest, ExitCode.USAGE),
        (BadArchive, ExitCode.USAGE),
        (Unreadable, ExitCode.USAGE),
        (NoSubmissions, ExitCode.USAGE),
        (LearnerError, ExitCode.USAGE),
        (SourceError, ExitCode.USAGE),
        (NoIsolation, ExitCode.NOT_GRADED),
        (IllConditionedDraws, ExitCode.NOT_GRADED),
        (NotInTheBox, ExitCode.NOT_GRADED),
    ],
)
def test_what_a_person_can_mend_has_one_base_and_an_exit_code(kind: type[HookworkError], code: ExitCode) -> None:
    error = kind("There is no x. Write y.")
    assert isinstance(error, HookworkError)
    assert (error.exit_code, error.message_line()) == (code, "There is no x. Write y.")


def test_the_exit_codes_are_those_of_the_readme() -> None:
    assert [(code.name, int(code)) for code in ExitCode] == [
        ("FINE", 0), ("NOT_PASSED", 1), ("USAGE", 2), ("NOT_GRADED", 3)
    ]  # fmt: skip


def test_a_message_is_one_line_that_steers_no_terminal() -> None:
    assert HookworkError("no file \x1b[2J\nx").message_line() == "no file \N{REPLACEMENT CHARACTER}[2J x"


def test_a_file_that_the_system_refuses_is_named() -> None:
    error = FileTrouble(PermissionError(13, "Permission denied", "results.json"))
    assert error.message_line() == "results.json: Permission denied. Is the disk full, or the folder read-only?"
    for code, helps in (
        (errno.EEXIST, "A file is where a folder should be."),
        (errno.ENOTDIR, "A file is where a folder should be."),
        (errno.EISDIR, "It is a folder where a file should be."),
        (errno.ENOENT, "Is the name right?"),
    ):
        assert FileTrouble(OSError(code, "So it is", "out")).message_line().startswith(f"out: So it is. {helps}")
    assert FileTrouble(OSError("odd")).message_line().startswith("odd. ")


def test_what_is_not_installed_says_how_to_install_it() -> None:
    assert NotInstalled("--cluster", "cluster").message_line() == (
        "--cluster needs more packages. Install them, in your clone: pip install '.[cluster]'"
    )


def test_a_long_name_leaves_room_for_what_helps() -> None:
    message_line = HookworkError(f"{'x' * 5000} is a file. Name a folder.").message_line()
    assert len(message_line) == 1000
    assert message_line.startswith("xxx")
    assert message_line.endswith("x is a file. Name a folder.")
    assert "…" in message_line


def test_a_name_that_is_too_long_for_the_system_is_not_a_full_disk() -> None:
    assert (
        FileTrouble(OSError(errno.ENAMETOOLONG, "File name too long", "x")).message_line()
        == "x: File name too long. Choose a shorter one."
    )
