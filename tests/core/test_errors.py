from __future__ import annotations

import errno

from graders.core.errors import FileTrouble, HookworkError, NotInstalled


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
