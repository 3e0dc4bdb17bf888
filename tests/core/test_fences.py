from __future__ import annotations

import os
from pathlib import Path

from graders.core.fences import SHOWN, Fences


def test_what_fails_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    fences = Fences()
    with fences.around(tmp_path / "a"):
        os.rmdir(tmp_path / "nothing")
    with fences.around("\x1b[2Jthe page"):
        raise ValueError("no\x07")
    assert fences.failed
    assert fences.notes == [
        f"{tmp_path / 'a'} was not written: no such file or directory.",
        "\N{REPLACEMENT CHARACTER}[2Jthe page was not written: ValueError: no\N{REPLACEMENT CHARACTER}.",
    ]


def test_a_note_is_no_failure_and_a_thousand_are_not_shown() -> None:
    fences = Fences()
    for number in range(1000):
        fences.note(str(number))
    assert not fences.failed
    assert fences.notes == [*map(str, range(SHOWN)), f"… and {1000 - SHOWN} more like these."]
