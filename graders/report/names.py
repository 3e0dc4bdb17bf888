"""Turn students' names into names of folders that are unique, and safe on every system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_LONGEST = 60
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def file_names(students: Iterable[str]) -> dict[str, str]:
    """A file name for each student: letters with their marks, digits and `-_.`, and unique even if case is ignored.

    The same set of students gets the same names in every run.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    # Start with students whose name is already safe, so that nobody else takes it from them.
    for student in sorted(set(students), key=lambda name: (_safe_name(name) != name, name)):
        plain = _safe_name(student)
        name, count = plain, 1
        while _case_folded(name) in taken:
            count += 1
            name = f"{plain}-{count}"
        taken.add(_case_folded(name))
        names[student] = name
    return names


def _safe_name(student: str) -> str:
    safe = "".join(
        character if character.isalnum() or unicodedata.category(character)[0] == "M" or character in "-_." else "_"
        for character in unicodedata.normalize("NFC", student)
    )
    # 60 characters of 4 bytes fit into a file name. A leading dot hides a file; Windows drops one at the end.
    safe = re.sub(r"_{2,}", "_", safe)[:_LONGEST].strip("._-") or "student"
    return f"_{safe}" if _DEVICE.fullmatch(safe) else safe


def _case_folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
