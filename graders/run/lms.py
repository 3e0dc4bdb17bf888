"""How platforms name what students handed in, and how an instructor says it for one that is not known here.

A name has a part that the platform wrote and a part that the student chose, which stands behind it. So patterns match
from the left, and for all names in a folder one format counts: that which fits most of them.

Canvas: `lastnamefirstname_LATE_12345_67890_01_topic-1.ipynb`, where LATE is there for late work only, the numbers are
those of the user and of the file, and `-1` counts attempts. Groups keep the underscores of their names; with anonymous
marking the name is `anon_` and five letters, and `LATE` stands in front. Times in Canvas' archive are those of the
download. Moodle: a folder `Name Surname_123456_assignsubmission_file_` for each student or, if asked for, that in front
of each file. Blackboard: `Assignment_login_attempt_2026-11-24-18-03-21_01_topic.ipynb`, and a text file for each
attempt. Brightspace: `123-456 - Name Surname - Nov 24, 2026 603 PM`, as a folder or in front of the file. Autolab:
`login@university.edu_3_01_topic.ipynb`, where 3 counts attempts. Sakai: a folder `Surname, Name(login)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from graders.core.errors import HookworkError
from graders.core.text import shorten_text


class BadNames(HookworkError):
    """A pattern for names that cannot be read; the message says how to write one."""


@dataclass(frozen=True, order=True)
class Owner:
    """Whose work something is: a name, and where names may be equal the number that the platform gave."""

    name: str
    id: str = ""


@dataclass(frozen=True)
class NameParts:
    """What a platform says in a name.

    `file` is the name that the owner gave the file, empty for a folder. `late` is None where the platform does not say
    whether it is. `attempt` grows with each attempt: a count, or seconds since 1970; 0 where it is not told. `prefix`
    is how many characters the platform wrote in front of the file.
    """

    owner: Owner
    file: str = ""
    late: bool | None = None
    attempt: float = 0.0
    prefix: int = 0


@dataclass(frozen=True)
class Format:
    """How a platform names files that lie side by side, and the folders that it makes."""

    name: str
    files: tuple[re.Pattern[str], ...] = ()
    folders: tuple[re.Pattern[str], ...] = ()
    sidecars: re.Pattern[str] | None = None
    """Files that the platform adds, and nobody handed in."""

    def parse_file_name(self, name: str) -> NameParts | None:
        """What the name of a file says; None where it is not of this format."""
        return _first_match(self.files, name)

    def parse_folder_name(self, name: str) -> NameParts | None:
        """What the name of a folder says; None where it is not of this format."""
        return _first_match(self.folders, name)


def _first_match(patterns: Sequence[re.Pattern[str]], name: str) -> NameParts | None:
    return next(
        (_parts_in_match(match) for parse_name_pattern in patterns if (match := parse_name_pattern.fullmatch(name))),
        None,
    )


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
    """A time as platforms write it into names, in seconds since 1970; 0 where it cannot be read."""
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
"""Names that nobody gives by chance, unlike `notes_2024_11_01_topic.ipynb`: one of them makes a folder Canvas'."""
FORMATS = (
    Format(
        "Moodle",
        files=(re.compile(_MOODLE + r"_file_(?P<file>.+)"),),
        folders=(re.compile(_MOODLE + r"_(?:file|onlinetext)_?(?: ?\(\d+\))?"),),
    ),
    Format(
        "Blackboard",
        files=(
            re.compile(
                r"[^_]+_(?P<student>.+?)_attempt_(?P<time>\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d)_(?P<file>.+)",
            ),
        ),
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
"""The folder that Sakai makes in each student's: a name in brackets alone is no sign of it."""

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
    """What an instructor says of names: a platform, or a pattern with fields in braces.

    A pattern with `/` is one of paths below the place that is marked. One with `{file}` or `{lesson}` and without `/`
    is one of files that lie side by side; any other one of the students' folders.
    """

    text: str
    format: Format

    @property
    def of_paths(self) -> bool:
        """Whether whole paths are meant."""
        return "/" in self.text


def parse_name_pattern(text: str) -> NamePattern:
    """What `--names` says. Raises `BadNames`."""
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
        raise BadNames(f"{shorten_text(text, 60)!r} does not say where the name of a student stands. {PATTERN_HELP}.")
    if len(set(fields) - {"any"}) < len([field for field in fields if field != "any"]) or {"file", "lesson"} <= {
        *fields
    }:
        raise BadNames(f"{shorten_text(text, 60)!r} names a field twice. {PATTERN_HELP}.")
    made = "".join(re.escape(part) if place % 2 == 0 else _FIELDS[part] for place, part in enumerate(parts))
    of_files = bool({"file", "lesson"} & set(fields))
    if of_files and not plain.endswith(("{file}", "{lesson}")):
        made = made.replace("(?P<file>.+)", "(?P<file>.+?)") + r"(?:\.\w+)+"  # the suffix belongs to no field
    compiled = (re.compile(made),)
    return NamePattern(
        plain, Format(f"'{plain}'", files=compiled if of_files else (), folders=() if of_files else compiled)
    )


def file_format(files: Sequence[str]) -> Format | None:
    """The format of files that lie side by side: that which fits most of them, and of equals the one that ends first.

    None where none does. Names that chance could have made are Canvas' when all are, and there are several.
    """
    best: tuple[int, int] = (0, 0)
    found = None
    for known in FORMATS:
        named = [one for name in files if (one := known.parse_file_name(name))]
        if known is CANVAS and not any(map(SURE_CANVAS.fullmatch, files)):
            named = named if len(named) == len(files) > 1 else []
        score = (len(named), -sum(one.prefix for one in named))
        if named and (found is None or score > best):
            best, found = score, known
    return found


def folder_format(folders: Sequence[str], inside: Sequence[str]) -> Format | None:
    """The format of the students' folders, by their names and by those of the folders `inside` them; None for none."""
    known = [*FORMATS, *([SAKAI] if SAKAI_FOLDER in inside else [])]
    count = {one.name: sum(one.parse_folder_name(name) is not None for name in folders) for one in known}
    best = max(known, key=lambda one: count[one.name])
    return best if count[best.name] else None
