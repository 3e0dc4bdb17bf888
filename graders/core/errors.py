"""What a person can mend, and how a command ends.

Whoever finds a wrong name, file or option raises a `HookworkError`, and nobody on the way has to know it. The command
line (`graders.cli`), pytest (`graders.pytest_plugin.errors`) and the notebook (`graders.notebook.commands`) each show
it in one place.
"""

from __future__ import annotations

from enum import IntEnum
from errno import ENAMETOOLONG

from graders.core.text import clean_text

ERROR_LIMIT = 1000
"""Characters of a message: it may name every lesson, or every check of an exercise."""
LONGEST = 100_000
"""Of a message, no more than so many characters are looked at."""


class ExitCode(IntEnum):
    """How a command ends."""

    FINE = 0
    NOT_PASSED = 1
    """Something is not passed, or not built, yet."""
    USAGE = 2
    """A wrong name, file or option."""
    NOT_GRADED = 3
    """Something could not be graded, which is ours or the machine's failure."""


class HookworkError(Exception):
    """Something that a person can mend. The message says what it is, where, and what helps."""

    exit_code = ExitCode.USAGE

    def message_line(self) -> str:
        """The message in one line without anything that could steer a terminal.

        A long one loses its middle: the names in it are long, and what helps stands at the end.
        """
        text, half = clean_text(self, LONGEST), ERROR_LIMIT // 2
        return text if len(text) <= ERROR_LIMIT else f"{text[: half - 1]}…{text[-half:]}"


class ExerciseDefect(HookworkError):
    """An exercise is wrong in itself: no answer to it can be marked. Its author can mend that, and no learner."""

    exit_code = ExitCode.NOT_GRADED


class FileTrouble(HookworkError):
    """The system refuses a file."""

    def __init__(self, error: OSError) -> None:
        """Say it as the system does, with the usual causes."""
        where = f"{error.filename}: " if error.filename else ""
        helps = "Choose a shorter one." if error.errno == ENAMETOOLONG else "Is the disk full, or the folder read-only?"
        super().__init__(f"{where}{error.strerror or error}. {helps}")


class NotInstalled(HookworkError):
    """A command needs packages that the course itself does not."""

    def __init__(self, what: str, extra: str) -> None:
        """`what` needs the packages of the extra `extra`."""
        super().__init__(f"{what} needs more packages. Install them, in your clone: pip install '.[{extra}]'")
