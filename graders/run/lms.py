"""How learning platforms name what students handed in.

Canvas puts all files into one folder: `lastnamefirstname_LATE_12345_67890_01_topic-1.ipynb`, where LATE is there for
late work only, the numbers are those of the user and of the submission, and `-1` counts attempts; when a file came in
is told nowhere, for the times in the archive are those of the download. Moodle makes a
folder `Name Surname_123456_assignsubmission_file_` for each student or, if asked for, starts each file with that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Canvas leaves no underscore in a name, and its numbers are long: `notes_2024_11_01_topic.ipynb` is no such file.
_CANVAS = re.compile(r"(?P<name>[^_/]+)_(?P<late>LATE_)?(?P<id>[1-9]\d+)_[1-9]\d{2,}_(?P<file>[^/]+)")
_MOODLE_FILE = re.compile(r"(?P<name>[^/]+?)_(?P<id>\d+)_assignsubmission_file_(?P<file>[^/]+)")
_MOODLE_FOLDER = re.compile(r"(?P<name>[^/]+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?")


@dataclass(frozen=True, order=True)
class Owner:
    """Whose work something is: a name, and where names may be equal the number that the platform gave."""

    name: str
    id: str = ""


def owner_of_file(name: str) -> tuple[Owner, str] | None:
    """The owner of a file without a folder of its own, and the name that the owner gave it."""
    match = _MOODLE_FILE.fullmatch(name) or _CANVAS.fullmatch(name)
    return (Owner(match["name"], match["id"]), match["file"]) if match else None


def late_by_name(name: str) -> bool | None:
    """Whether Canvas says in the name of a file that it was handed in late; None where Canvas did not name it."""
    match = _CANVAS.fullmatch(name)
    return None if match is None else match["late"] is not None


def owner_of_folder(name: str) -> Owner:
    """The owner of a student's folder, which may be named by a platform or by hand."""
    match = _MOODLE_FOLDER.fullmatch(name)
    return Owner(match["name"], match["id"]) if match else Owner(name)


def owner_in_archive(path: str) -> Owner | None:
    """The owner of a file in the archive of a class, by its path there; None for one that lies beside the students."""
    first, _, rest = path.partition("/")
    if rest:
        return owner_of_folder(first)
    found = owner_of_file(first)
    return found[0] if found else None
