"""Chooses which of a student's files for a lesson counts: the latest, or if unknown, one that somebody worked in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from graders.core.text import shorten_text
from graders.submissions.folder_names import ATTEMPT_FOLDER
from graders.submissions.layout import Place
from graders.submissions.tree import Entry

_NUMBERED_COPY = re.compile(
    r"(?i)(?P<base>.+?)"
    r"(?:[ _-]*\((?P<copy>\d{1,3})\)|[-_ ]+v?(?P<count>\d{1,3})|[ _-]+(?:copy|kopie|copie)(?: ?\(?(?P<of>\d{1,3})\)?)?)"
)
"""A name with a number that a browser, an operating system or Canvas appended because the name was taken."""
COUNTED = 1e8
"""Up to here `Place.attempt` is a count of attempts; above, it is a time in seconds since 1970."""


@dataclass(frozen=True)
class HandedIn:
    """A file with its owner and its lesson, None if that is unknown."""

    entry: Entry
    place: Place
    lesson: str | None

    @property
    def handed_in(self) -> float:
        """When it was handed in, in seconds since 1970; 0 if the platform says only whether it was late."""
        if self.place.timeless:
            return 0.0
        return self.place.attempt if self.place.attempt > COUNTED else self.entry.handed_in

    def seconds_late(self, deadline: float) -> float:
        """How many seconds late it was handed in: 0 if in time, 1 if the platform says only that it was late.

        A part of a second is not late: no clock that people read shows it.
        """
        if self.place.timeless:
            return 1.0 if self.place.late else 0.0
        return max(0.0, math.floor(self.handed_in) - deadline)


@dataclass(frozen=True)
class Choice:
    """The file that counts, the others, why it was chosen, and what is doubtful about that (empty if nothing is)."""

    file: HandedIn
    others: tuple[HandedIn, ...] = ()
    why: str = ""
    doubt: str = ""


def choose_attempt(
    files: Sequence[HandedIn],
    deadline: float,
    lessons: Sequence[str],
    untouched: Callable[[Path, str], bool],
    digest: Callable[[Path], str],
) -> Choice:
    """Choose which of one student's `files` for one lesson counts. Unreadable files lose to readable ones.

    With a `deadline` (seconds since 1970, infinity for none) it is the last one in time, or the last of all if every
    one is late. Otherwise it is the later attempt by the platform's count, by a number in a folder, or by one at the
    end of the name. If none of these decides, a file that somebody worked in beats an `untouched` one. If that does not
    decide either, the one with the plain name of a lesson (in `lessons`) or else the last by name counts, with a doubt.

    `digest` returns a hash of a file's content, empty if it cannot be read.
    """
    found = sorted(files, key=lambda file: (Path(file.place.name).stem in lessons, natural_sort_key(file.place.name)))
    readable = [file for file in found if _can_be_read(file, digest)]
    best, *rest = readable or found
    for file in rest:
        verdict = _which_is_later(best, file, deadline) or _worked_in(best, file, untouched)
        best = file if verdict is None or verdict.second else best
    others = tuple(file for file in readable or found if file is not best)
    left = tuple(file for file in found if readable and file not in readable)
    verdicts = [_which_is_later(file, best, deadline) or _worked_in(file, best, untouched) for file in others]
    unsure = [
        file
        for file, verdict in zip(others, verdicts)
        if (verdict is None or not verdict.second) and not _are_equal(file, best, digest)
    ]
    same = "the other cannot be read" if left else "they are the same"
    why = next((verdict.why for verdict in verdicts if verdict and verdict.second), same)
    doubt = ""
    if unsure:
        why = doubt = "nothing says which one is later"
    elif others and _is_blank(best, untouched) and any(not _is_blank(file, untouched) for file in others):
        doubt = "it is untouched, but another is not"
    return Choice(best, (*others, *left), why, doubt)


@dataclass(frozen=True)
class _Verdict:
    second: bool
    why: str


def _which_is_later(first: HandedIn, second: HandedIn, deadline: float) -> _Verdict | None:
    """Which of two files is the later one; None if nothing says so."""
    if deadline < math.inf and not first.place.timeless:
        ranks = [(not file.seconds_late(deadline), file.handed_in) for file in (first, second)]
        if ranks[0] != ranks[1]:
            return _Verdict(ranks[1] > ranks[0], "it is the last one before the deadline")
    if deadline < math.inf and first.seconds_late(deadline) != second.seconds_late(deadline):
        return _Verdict(second.seconds_late(deadline) == 0, "it is not late")
    if first.place.attempt != second.place.attempt:
        return _Verdict(second.place.attempt > first.place.attempt, "it is the later attempt")
    folders = [file.entry.parts[:-1] for file in (first, second)]
    if folders[0] != folders[1]:
        numbers = [[int(n) for part in parts for n in re.findall(r"\d{1,18}", part)] for parts in folders]
        texts = [re.sub(r"\d+", "", "/".join(parts)) for parts in folders]
        parted = [pair for pair in zip(*folders) if pair[0] != pair[1]]
        are_attempts = all(map(ATTEMPT_FOLDER.fullmatch, (part for pair in parted for part in pair)))
        if texts[0] == texts[1] and numbers[0] != numbers[1] and are_attempts:
            return _Verdict(numbers[1] > numbers[0], "its folder has the later number")
        return None
    forms = [_name_readings(file.place.name) for file in (first, second)]
    for base in forms[0].keys() & forms[1].keys():
        if forms[0][base] != forms[1][base]:
            return _Verdict(forms[1][base] > forms[0][base], "its name has the later number")
    return None


def _name_readings(name: str) -> dict[str, int]:
    """The ways to read a name, with a number for each: in full (0), and as another name with a number appended."""
    stem = Path(name).stem.casefold()
    match = _NUMBERED_COPY.fullmatch(stem)
    number = match and (match["copy"] or match["count"] or match["of"])
    return {stem: 0} | ({match["base"]: int(number) if number else 1} if match else {})


def _worked_in(first: HandedIn, second: HandedIn, untouched: Callable[[Path, str], bool]) -> _Verdict | None:
    blank = [_is_blank(file, untouched) for file in (first, second)]
    return None if blank[0] == blank[1] else _Verdict(blank[0], "somebody worked in it, and the other is untouched")


def _is_blank(file: HandedIn, untouched: Callable[[Path, str], bool]) -> bool:
    return file.entry.file is None or file.lesson is None or untouched(file.entry.file, file.lesson)


def _can_be_read(file: HandedIn, digest: Callable[[Path], str]) -> bool:
    return file.entry.file is not None and digest(file.entry.file) != ""


def _are_equal(first: HandedIn, second: HandedIn, digest: Callable[[Path], str]) -> bool:
    digests = {digest(file.entry.file) if file.entry.file else "" for file in (first, second)}
    return len(digests) == 1 and "" not in digests


def paths_that_differ(files: Sequence[HandedIn]) -> list[str]:
    """The names of one student's files, with the folders that not all of them share."""
    folders = [file.entry.parts[:-1] for file in files]
    shared = len([*takewhile(lambda level: len(set(level)) == 1, zip(*folders))])
    return [
        "/".join([*(shorten_text(part, 40) for part in above[shared:]), shorten_text(file.entry.name, 60)])
        for above, file in zip(folders, files)
    ]


def natural_sort_key(name: str) -> list[tuple[int, str]]:
    """A sort key that puts `x-10` after `x-2`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]
