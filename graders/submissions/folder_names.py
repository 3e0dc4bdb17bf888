"""Reads students, lessons, groups and attempts from names of folders and files that people chose themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graders.submissions.lms import SAKAI_FOLDER, Owner
from graders.submissions.tree import Entry

ATTEMPT_FOLDER = re.compile(
    r"(?i)(?:.*[\W_])?(?:attempt|version|v|try|draft|final|old|new|backup|copy|kopie|copie|submission|revision|rev)"
    r"[\W_]*(?:\d{1,2})?|\d{1,2}|20\d\d[-_.]?\d\d[-_.]?\d\d.*"
)
"""Names of folders for one person's attempts, such as `v2`, `final` or `2026-11-24`."""
_OF_A_LESSON = (
    r"(?i)(?:.*[\W_])?(?:lesson|lektion|leçon|week|unit|lab|hw|homework|exercise|assignment)[\W_]*0*{0}(?:\D.*)?"
    r"|0*{0}(?:[\W_].*)?"
)
OF_A_GROUP = re.compile(
    r"(?i)(?:.*[\W_])?(?:section|group|gruppe|groupe|grupo|tutor|tutorial|class|kurs|seminar)(?:[\W_].*)?"
)

HANDED_IN = {
    "Submitted files": ("Working files",),  # Teams
    "submitted": ("source", "release", "autograded", "feedback"),  # nbgrader
}
"""Folders for submissions, and the folders next to them that hold something else."""
_FEEDBACK_FOLDER = "Feedback Attachment(s)"
"""Where Sakai keeps the files that an instructor gave back."""

_MARKS = " _-.,()[]"
_COPY = re.compile(r"(?i)(?:copy|copie|kopie|copia)?(?: of| von| de)?[\W_]*(?:\(?\d{1,3}\)?)?")


def without_suffix(name: str) -> str:
    """The name of a folder, or of an archive without its suffix."""
    return re.sub(r"(?i)\.(?:zip|tar\.gz|tgz)$", "", name) or name


def owners_in_names(entries: Sequence[Entry], by_lesson: dict[str, list[Entry]]) -> dict[Entry, Owner]:
    """The student in each file's name: what is left without the lesson's. Empty if one has none, or all are equal."""
    lesson_by_entry = {entry: lesson for lesson, found in by_lesson.items() for entry in found}
    names = {entry: student_in_name(entry.name, lesson_by_entry.get(entry)) for entry in entries}
    return (
        {entry: Owner(name) for entry, name in names.items()}
        if all(names.values()) and len(set(names.values())) > 1
        else {}
    )


def student_in_name(file: str, lesson: str | None) -> str:
    """The student in a file's name: what is left without the lesson's. Empty if that is nothing, or like `v2`."""
    stem = re.sub(r"(?i)\.(?:(?:ipynb\.)?(?:json|txt)|ipynb|zip|tar\.gz|tgz|html?|py|pdf)$", "", file)
    before, there, after = stem.partition(lesson) if lesson else (stem, "", "")
    if not there:
        before = re.sub(r"^\d\d(?:[_\-. ]+|$)", "", before)
    # The part after the lesson may be the number of a copy, as in `ada_01_topic (1)`.
    name = next((part.strip(_MARKS) for part in (before, after) if not _COPY.fullmatch(part.strip(_MARKS))), "")
    return "" if ATTEMPT_FOLDER.fullmatch(name) else name


def is_of_lesson(folder: str, lesson: str) -> bool:
    """Whether a folder is named after a lesson, as `01_topic`, `Week 1` and `hw01` are."""
    return lesson in folder or re.fullmatch(_OF_A_LESSON.format(int(lesson[:2])), folder) is not None


def doubts_about_copies(folders: set[str]) -> list[str]:
    """Doubts about folders that look like copies of another one, such as `Ada (1)`: both may be one person's."""
    made = re.compile(r"(?i)(.+?)(?: ?\(\d{1,3}\)|[ _-]+(?:copy|kopie|copie)(?: ?\(?\d{1,3}\)?)?|[ _-]+late)")
    pairs = [
        (match[1], folder) for folder in sorted(folders) if (match := made.fullmatch(folder)) and match[1] in folders
    ]
    return [
        f"{one!r} and {other!r} may be one person's. If so, put their files into one folder." for one, other in pairs
    ]


def split_handed_in(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The files that were handed in, and those in neighbouring folders that hold something else."""
    there = {part for entry in entries for part in entry.parts[:-1]}
    others = {other for folder, beside in HANDED_IN.items() if folder in there for other in beside}
    others |= {_FEEDBACK_FOLDER} if SAKAI_FOLDER in there else set()
    aside = [entry for entry in entries if others & set(entry.parts[:-1])]
    return [entry for entry in entries if entry not in set(aside)], aside
