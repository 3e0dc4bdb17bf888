"""Errors that a person can fix, and the exit codes of commands.

Code that finds a wrong name, file or option raises a `HookworkError`, and no code in between handles it. Each of these
shows it in one place: the command line (`graders.cli`), pytest (`graders.instructor.pytest_plugin.errors`) and the
notebook (`graders.learner.notebook.commands`).
"""

from __future__ import annotations

from enum import IntEnum
from errno import EEXIST, EISDIR, ENAMETOOLONG, ENOENT, ENOTDIR

from graders.core.text import clean_text

ERROR_LIMIT = 1000
"""The most characters of a message that are shown: enough to name every lesson, or every check of an exercise."""
LONGEST = 100_000
"""The most characters of a message that are cleaned at all; the rest is cut off first."""


_HELPS = {
    EEXIST: "A file is where a folder should be. Choose another name, or move it away.",
    EISDIR: "It is a folder where a file should be. Choose another name.",
    ENAMETOOLONG: "Choose a shorter one.",
    ENOENT: "Is the name right?",
    ENOTDIR: "A file is where a folder should be. Choose another name, or move it away.",
}


class ExitCode(IntEnum):
    """The exit codes of all commands."""

    FINE = 0
    NOT_PASSED = 1
    """Something has not passed yet, or could not be built."""
    USAGE = 2
    """A wrong name, file or option."""
    NOT_GRADED = 3
    """Something could not be graded, because of our own or the machine's failure."""


EXIT_CODES_HELP = (
    "Exit codes: 0 all is well, 1 something has not passed (or could not be built) yet, 2 a wrong name, file or "
    "option, 3 something could not be graded, which is not your fault."
)
"""What the help of most commands ends with."""


class HookworkError(Exception):
    """Something that a person can fix. The message says what is wrong, where, and what helps."""

    exit_code = ExitCode.USAGE

    def message_line(self) -> str:
        """The message in one line, without control characters and of at most `ERROR_LIMIT` characters.

        A long message is cut in the middle, because the names in it are long and the remedy comes at the end.
        """
        text, half = clean_text(self, LONGEST), ERROR_LIMIT // 2
        return text if len(text) <= ERROR_LIMIT else f"{text[: half - 1]}…{text[-half:]}"


class ExerciseDefect(HookworkError):
    """An exercise is broken, so that no answer to it can be marked. Only its author can fix that."""

    exit_code = ExitCode.NOT_GRADED


class BadExercise(ExerciseDefect, TypeError):
    """A part of an exercise is missing or invalid where its author wrote it."""


class FileTrouble(HookworkError):
    """The operating system refused to read or write a file."""

    def __init__(self, error: OSError) -> None:
        """Use the system's own words, and add the usual causes."""
        where = f"{error.filename}: " if error.filename else ""
        helps = _HELPS.get(error.errno or 0, "Is the disk full, or the folder read-only?")
        super().__init__(f"{where}{error.strerror or error}. {helps}")


class NotInstalled(HookworkError):
    """A command needs packages that the course itself does without."""

    def __init__(self, what: str, extra: str) -> None:
        """Say that `what`, such as "building lessons", needs the packages of an extra of pyproject.toml."""
        super().__init__(f"{what} needs more packages. Install them, in your clone: pip install '.[{extra}]'")
