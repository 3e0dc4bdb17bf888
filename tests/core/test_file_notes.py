from __future__ import annotations

import os
from pathlib import Path

from graders.core.file_notes import SHOWN, FileNotes


def test_what_fails_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    file_notes = FileNotes()
    with file_notes.noting_failure(tmp_path / "a"):
        os.rmdir(tmp_path / "nothing")
    with file_notes.noting_failure("\x1b[2Jthe page"):
        raise ValueError("no\x07")
    assert file_notes.failed
    assert file_notes.notes == [
        f"{tmp_path / 'a'} was not written: no such file or directory.",
        "\N{REPLACEMENT CHARACTER}[2Jthe page was not written: ValueError: no\N{REPLACEMENT CHARACTER}.",
    ]


def test_a_note_is_no_failure_and_a_thousand_are_not_shown() -> None:
    file_notes = FileNotes()
    for number in range(1000):
        file_notes.note(str(number))
    assert not file_notes.failed
    assert file_notes.notes == [*map(str, range(SHOWN)), f"… and {1000 - SHOWN} more like these."]
