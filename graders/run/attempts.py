"""Which of several files for one lesson counts: the later one, where names or times tell; else one with work in it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graders.run.folder_names import ATTEMPT_FOLDER
from graders.run.layout import Place
from graders.run.tree import Entry

_NUMBERED_COPY = re.compile(
    r"(?i)(?P<base>.+?)"
    r"(?:[ _-]*\((?P<copy>\d{1,3})\)|[-_ ]+v?(?P<count>\d{1,3})|[ _-]+(?:copy|kopie|copie)(?: ?\(?(?P<of>\d{1,3})\)?)?)"
)
"""A name to which a browser, a system or Canvas put a number because the same one was there before."""
COUNTED = 1e8
"""What platforms say of an attempt is a count up to here, and a time in seconds since 1970 beyond."""


@dataclass(frozen=True)
class HandedIn:
    """A file for a lesson: where it is, and whose it is."""

    entry: Entry
    place: Place
    lesson: str | None

    @property
    def handed_in(self) -> float:
        """When it came in, in seconds since 1970; 0 where a platform says whether it is late, and not when it came."""
        if self.place.timeless:
            return 0.0
        return self.place.attempt if self.place.attempt > COUNTED else self.entry.handed_in

    def seconds_late(self, deadline: float) -> float:
        """By how many seconds it came after the deadline; 0 when it was in time."""
        if self.place.timeless:
            return 1.0 if self.place.late else 0.0
        return max(0.0, self.handed_in - deadline)


@dataclass(frozen=True)
class Choice:
    """The file that counts, why, the files that do not, and what is doubtful about that (empty if nothing is)."""

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
    """Which of the files of one student for one lesson counts: one that can be read, if there is any.

    With a deadline the last by time among those before it, or of all when each is late. Otherwise a later attempt by
    the platform's count, by a number in a folder, or by one at the end of the name. Where nothing tells which is later,
    one that somebody worked in counts more than one that is `untouched`; and where that does not tell either, the one
    with the plain name of the lesson or else the last by name is taken, and doubted.
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
        why = doubt = "nothing says which of them is the later one"
    elif others and _is_blank(best, untouched) and any(not _is_blank(file, untouched) for file in others):
        doubt = "it is untouched, and another is not"
    return Choice(best, (*others, *left), why, doubt)


@dataclass(frozen=True)
class _Verdict:
    second: bool
    why: str


def _which_is_later(first: HandedIn, second: HandedIn, deadline: float) -> _Verdict | None:
    """Which of two files is the later one, where something tells."""
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
        told = all(map(ATTEMPT_FOLDER.fullmatch, (part for pair in parted for part in pair)))
        if texts[0] == texts[1] and numbers[0] != numbers[1] and told:
            return _Verdict(numbers[1] > numbers[0], "its folder has the later number")
        return None
    forms = [_name_readings(file.place.name) for file in (first, second)]
    for base in forms[0].keys() & forms[1].keys():
        if forms[0][base] != forms[1][base]:
            return _Verdict(forms[1][base] > forms[0][base], "its name has the later number")
    return None


def _name_readings(name: str) -> dict[str, int]:
    """How a name may be read: as it is, and as another one with a number behind it."""
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


def natural_sort_key(name: str) -> list[tuple[int, str]]:
    """A key by which `x-10` comes after `x-2`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]
