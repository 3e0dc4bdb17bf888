"""Reads the names that learning platforms give to submissions, and the patterns that instructors write for others.

The platform writes the first part of a name, and the student chose the rest. So patterns match from the left, and one
format is chosen for all names in a folder: the one that fits most of them.

Canvas: `lastnamefirstname_LATE_12345_67890_01_topic-1.ipynb`, where LATE marks late work, the numbers are those of the
user and the file, and `-1` counts attempts. Groups keep the underscores in their names. With anonymous marking the name
is `anon_` and five letters, and `LATE` comes first. Times in Canvas' archive are those of the download.
Moodle: a folder `Name Surname_123456_assignsubmission_file_` for each student, or the same as a prefix of each file.
Blackboard: `Assignment_login_attempt_2026-11-24-18-03-21_01_topic.ipynb`, and a text file for each attempt.
Brightspace: `123-456 - Name Surname - Nov 24, 2026 603 PM`, as a folder or a prefix.
Autolab: `login@university.edu_3_01_topic.ipynb`, where 3 counts attempts. Sakai: a folder `Surname, Name(login)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from graders.core.errors import HookworkError
from graders.core.text import shorten_text


class BadNames(HookworkError):
    """A pattern for names is invalid; the message says how to write one."""


@dataclass(frozen=True, order=True)
class Owner:
    """A student: a name, and the number or login that the platform gave, by which equal names differ."""

    name: str
    id: str = ""


@dataclass(frozen=True)
class NameParts:
    """What a platform says in a name.

    `file` is the name that the owner gave the file, empty for a folder. `late` is None if the platform does not say.
    `attempt` grows with each attempt: it is a count, or a time in seconds since 1970, or 0 if unknown. `prefix` is the
    number of characters before the file's own name.
    """

    owner: Owner
    file: str = ""
    late: bool | None = None
    attempt: float = 0.0
    prefix: int = 0


@dataclass(frozen=True)
class Format:
    """How a platform names files in one folder, and folders of students."""

    name: str
    files: tuple[re.Pattern[str], ...] = ()
    folders: tuple[re.Pattern[str], ...] = ()
    sidecars: re.Pattern[str] | None = None
    """Files that the platform adds and nobody handed in."""

    def parse_file_name(self, name: str) -> NameParts | None:
        """What the name of a file says; None if it is not in this format."""
        return _first_match(self.files, name)

    def parse_folder_name(self, name: str) -> NameParts | None:
        """What the name of a folder says; None if it is not in this format."""
        return _first_match(self.folders, name)


def _first_match(patterns: Sequence[re.Pattern[str]], name: str) -> NameParts | None:
    return next((_parts_in_match(match) for pattern in patterns if (match := pattern.fullmatch(name))), None)


def _parts_in_match(match: re.Match[str]) -> NameParts:
    found = match.groupdict()
    number = (found.get("id") or "").strip()
    attempt = found.get("attempt") or ""
    return NameParts(
        owner=Owner((found.get("student") or number).strip(), number),
        file=found.get("file") or "",
        late=found["late"] is not None if "late" in found else None,
        attempt=float(attempt) if attempt.isdecimal() else _parse_time(found.get("time") or ""),
        prefix=match.start("file") if found.get("file") else len(match[0]),
    )


def _parse_time(text: str) -> float:
    """A time as platforms write it into names, in local time, as seconds since 1970; 0 if it cannot be read."""
    plain = re.sub(r"\s+", " ", text.replace(".", ""))
    plain = re.sub(r"\b(\d)(\d\d)( ?[AP]M|$)", r"0\1\2\3", plain)  # 603 PM is 0603 PM
    for form in ("%Y-%m-%d-%H-%M-%S", "%b %d, %Y %I%M %p", "%B %d, %Y %I%M %p", "%b %d, %Y %H%M", "%B %d, %Y %H%M",
                 "%d %b, %Y %H%M", "%d %b %Y %H%M"):  # fmt: skip
        try:
            return datetime.strptime(plain, form).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return 0.0


_TIME = r"(?P<time>(?:[^\W\d]+\.? \d{1,2}|\d{1,2}\.? [^\W\d]+\.?),? \d{4} \d{3,4}(?: ?[AP]M)?)"
_BRIGHTSPACE = rf"(?P<id>\d+)-\d+ ?- ?(?P<student>.+?) ?- ?{_TIME}"
_MOODLE = r"(?P<student>.+?)_(?P<id>\d+)_assignsubmission"
CANVAS = Format(
    "Canvas",
    files=(
        re.compile(r"(?:(?P<late>LATE)_)?(?P<student>anon_(?P<id>[A-Za-z0-9]{5}))_\d+_(?P<file>.+)"),
        re.compile(r"(?P<student>.+?)_(?:(?P<late>LATE)_)?(?P<id>\d+)_\d+_(?P<file>.+)"),
    ),
)
SURE_CANVAS = re.compile(r"(?:LATE_)?anon_[A-Za-z0-9]{5}_\d{3,}_.+|.+?_(?:LATE_)?[1-9]\d+_[1-9]\d{2,}_.+")
"""Names that only Canvas gives, unlike `notes_2024_11_01_topic.ipynb`. One of them shows that a folder is Canvas'."""
FORMATS = (
    Format(
        "Moodle",
        files=(re.compile(_MOODLE + r"_file_(?P<file>.+)"),),
        folders=(re.compile(_MOODLE + r"_(?:file|onlinetext)_?(?: ?\(\d+\))?"),),
    ),
    Format(
        "Blackboard",
        files=(re.compile(r"[^_]+_(?P<student>.+?)_attempt_(?P<time>\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d)_(?P<file>.+)"),),
        sidecars=re.compile(r".+_attempt_\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d\.txt"),
    ),
    Format(
        "Brightspace",
        files=(re.compile(_BRIGHTSPACE + r" ?- ?(?P<file>.+)"),),
        folders=(re.compile(_BRIGHTSPACE),),
        sidecars=re.compile(r"index\.html"),
    ),
    Format("Autolab", files=(re.compile(r"(?P<student>[^/@\s]+@[^/@_\s]+)_(?P<attempt>\d+)_(?P<file>.+)"),)),
    CANVAS,
)
SAKAI = Format(
    "Sakai",
    folders=(re.compile(r"(?P<student>.+?) ?\((?P<id>[^()]+)\)"),),
    sidecars=re.compile(r"grades\.(?:csv|xls)|timestamp\.txt|comments\.txt|.+_submissionText\.html|feedbackText\.html"),
)
SAKAI_FOLDER = "Submission attachment(s)"
"""The folder that Sakai makes in each student's folder. Without it, brackets in a name do not mean Sakai."""

PRESETS = ("canvas", "moodle", "blackboard", "brightspace", "autolab", "sakai", "plain")
_FIELDS = {"student": r"(?P<student>[^/]+?)", "id": r"(?P<id>[^/_]+?)", "attempt": r"(?P<attempt>\d+)",
           "any": r"[^/]+?", "file": r"(?P<file>.+)", "lesson": r"(?P<file>.+)"}  # fmt: skip
PATTERN_HELP = (
    "Write it like '{student}_{id}_{lesson}' or '{any}/{student}/{file}', with the fields "
    + ", ".join(f"{{{field}}}" for field in _FIELDS)
    + f"; or name a platform: {', '.join(PRESETS)}"
)


@dataclass(frozen=True)
class NamePattern:
    """What an instructor says about names with `--names`: a platform, or a pattern with fields in braces.

    A pattern with `/` is for paths below the folder that is marked. Without `/`, one with `{file}` or `{lesson}` is for
    files in one folder, and any other is for the students' folders.
    """

    text: str
    format: Format

    @property
    def of_paths(self) -> bool:
        """Whether the pattern is for whole paths."""
        return "/" in self.text


def parse_name_pattern(text: str) -> NamePattern:
    """Read the value of `--names`. Raises `BadNames` if it is neither a platform nor a valid pattern."""
    plain = text.strip()
    for known in (*FORMATS, SAKAI):
        if plain.casefold() == known.name.casefold():
            return NamePattern(known.name, known)
    if plain.casefold() == "plain":
        return NamePattern("plain", Format("plain"))
    parts = re.split(r"\{(\w*)\}", plain)
    fields = parts[1::2]
    if unknown := [field for field in fields if field not in _FIELDS]:
        raise BadNames(
            f"{shorten_text(text, 60)!r}: there is no field {{{shorten_text(unknown[0], 20)}}}. {PATTERN_HELP}."
        )
    if not {"student", "id"} & set(fields):
        raise BadNames(f"{shorten_text(text, 60)!r} does not say where a student's name is. {PATTERN_HELP}.")
    named = ["file" if field == "lesson" else field for field in fields if field != "any"]
    if len(set(named)) < len(named):
        raise BadNames(f"{shorten_text(text, 60)!r} names a field twice. {PATTERN_HELP}.")
    made = "".join(re.escape(part) if place % 2 == 0 else _FIELDS[part] for place, part in enumerate(parts))
    of_files = "file" in named
    if of_files and not plain.endswith(("{file}", "{lesson}")):
        made = made.replace("(?P<file>.+)", "(?P<file>.+?)") + r"(?:\.\w+)+"  # the suffix belongs to no field
    compiled = (re.compile(made),)
    return NamePattern(
        plain, Format(f"'{plain}'", files=compiled if of_files else (), folders=() if of_files else compiled)
    )


def file_format(files: Sequence[str]) -> Format | None:
    """The format that fits most of the names of files in one folder; None if none fits any.

    In a tie, the format with the shorter prefixes wins. Names that might be like Canvas' by chance count only if all
    names are like that, and there are at least two.
    """
    best: tuple[int, int] = (0, 0)
    found = None
    for known in FORMATS:
        named = [parts for name in files if (parts := known.parse_file_name(name))]
        if known is CANVAS and not any(map(SURE_CANVAS.fullmatch, files)):
            named = named if len(named) == len(files) > 1 else []
        score = (len(named), -sum(parts.prefix for parts in named))
        if named and (found is None or score > best):
            best, found = score, known
    return found


def folder_format(folders: Sequence[str], inside: Sequence[str]) -> Format | None:
    """The format that fits most of the students' folders; None if none does. Sakai's needs its own folder `inside`."""
    formats = [*FORMATS, *([SAKAI] if SAKAI_FOLDER in inside else [])]
    count = {known.name: sum(known.parse_folder_name(name) is not None for name in folders) for known in formats}
    best = max(formats, key=lambda known: count[known.name])
    return best if count[best.name] else None
