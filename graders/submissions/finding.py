"""Finds the submissions to mark, with their students and lessons, and accounts for every other file."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graders.core.errors import HookworkError
from graders.core.text import (
    FILE_LIMIT,
    MESSAGE_LIMIT,
    NAME_LIMIT,
    clean_fields,
    clean_text,
    format_count,
    shorten_text,
)
from graders.submissions.arrangement import arrange_tree
from graders.submissions.attempts import HandedIn, choose_attempt, paths_that_differ
from graders.submissions.folder_names import without_suffix
from graders.submissions.layout import Layout, shown_name, unique_names
from graders.submissions.lessons import Lessons
from graders.submissions.lms import NamePattern, Owner, file_format
from graders.submissions.logins import use_roster
from graders.submissions.members import BadArchive, is_archive
from graders.submissions.roster import Roster
from graders.submissions.student_names import name_sort_key
from graders.submissions.tree import UNOPENED, Entry, Tree, tree_of, why_no_notebook

COUNTS = "It counts."
SENTENCE_LIMIT = 2 * FILE_LIMIT
"""Characters of a sentence for the instructor: it may name several files."""


class NoSubmissions(HookworkError):
    """There is nothing to mark; the message says where it was looked for, and what was expected there."""


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one lesson. `file` is None if it is missing or, as `problem` says, cannot be marked.

    `origin` is what reports call the file if not by its path, as for a member of an archive. `student_id` is the number
    or login that a platform gave. `handed_in` is when the file was handed in or last changed, in seconds since 1970, or
    0 if unknown. `late` is how many seconds after the deadline that was; 1 if a platform says only that it was late.
    `superseded` names the files for the same lesson that do not count. `elsewhere` says of a missing notebook that a
    file with its name counts for another lesson.
    """

    student: str
    lesson: str
    file: Path | None
    origin: str = ""
    problem: str = ""
    student_id: str = ""
    handed_in: float = field(default=0.0, compare=False)
    late: float = 0.0
    superseded: tuple[str, ...] = ()
    elsewhere: str = ""

    def __post_init__(self) -> None:
        """Students choose how they are called, and their files."""
        clean_fields(self, student=NAME_LIMIT, student_id=NAME_LIMIT, problem=MESSAGE_LIMIT, elsewhere=MESSAGE_LIMIT)
        clean_fields(self, origin=FILE_LIMIT, superseded=FILE_LIMIT)

    @property
    def shown_file(self) -> str:
        """What reports call the file; empty where nothing was handed in."""
        return self.origin or clean_text(self.file or "", FILE_LIMIT)

    @property
    def missing(self) -> bool:
        """Whether nothing was handed in although it was due."""
        return self.file is None and not self.problem


@dataclass(frozen=True)
class Account:
    """What happened to one file, in a sentence (`fate`), with its student and lesson; both empty if unknown.

    `open` says that somebody has to look at the file: it may be an answer, but has no known owner or lesson, and no
    submission reports it.
    """

    file: str
    student: str
    lesson: str
    fate: str
    open: bool = False

    def __post_init__(self) -> None:
        """Clean the texts, as `Submission` does."""
        clean_fields(self, file=FILE_LIMIT, student=NAME_LIMIT, fate=FILE_LIMIT)


@dataclass(frozen=True)
class FoundSubmissions:
    """The submissions to mark, and how they were found.

    `how` says how names and folders were read, and `is_class` whether as those of a class, even of a single student.
    `accounts` has an entry for each file. The rest are sentences for the instructor: `choices` on which of several
    files for a lesson counts, `doubts` on what is uncertain about owners and choices, and `notes` on anything else.
    """

    submissions: list[Submission]
    how: str = ""
    is_class: bool = False
    accounts: tuple[Account, ...] = ()
    choices: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """The sentences have names of people and files in them."""
        clean_fields(self, how=FILE_LIMIT, choices=SENTENCE_LIMIT, doubts=SENTENCE_LIMIT, notes=SENTENCE_LIMIT)

    @property
    def open_accounts(self) -> list[Account]:
        """The accounts of files that count for nobody and that somebody has to look at."""
        return [account for account in self.accounts if account.open]


Deadline = Callable[[Owner], float]
"""Returns the deadline of a student in seconds since 1970, since not all have the same."""


def no_deadline(owner: Owner) -> float:
    """A deadline that never comes: infinity."""
    return math.inf


def find_submissions(
    where: Path,
    lessons: Sequence[str],
    scratch: Path | None = None,
    deadline: Deadline = no_deadline,
    due: Sequence[str] = (),
    *,
    names: NamePattern | None = None,
    single: bool = False,
    besides: Path | None = None,
    roster: Roster | None = None,
) -> FoundSubmissions:
    """The submissions in a class folder, a student's folder, a single notebook, or an archive of one of these.

    `lessons` are the stems of the lessons that can be marked. Archives are unpacked into new folders in `scratch`,
    which should be private; with None they are not opened. A student in a class without a notebook for a lesson that is
    `due` gets a submission without a file; if `due` is empty, the lessons that several students handed in are due. Of
    several files for one lesson the last before the `deadline` counts. Links are not followed. `names` is what the
    instructor says about names, and `single` says that everything is one student's. The folder `besides`, which is for
    the results, is left out. A `roster` tells whose logins and numbers are in the files. Raises `NoSubmissions`.
    """
    if not where.exists():
        raise NoSubmissions(f"{where} does not exist. Give a notebook, or a folder with notebooks.")
    known = Lessons(lessons)
    packed = is_archive(where) and scratch is not None
    try:
        if not where.is_dir() and not packed:
            return _find_in_file(where, known, deadline)
        tree = tree_of(where, scratch, besides)
    except BadArchive as error:
        raise NoSubmissions(f"{where}: {error}") from error
    except OSError as error:
        raise NoSubmissions(f"{where} could not be read or unpacked: {error.strerror}.") from error
    name = without_suffix(where.absolute().name)

    def lesson_of(entry: Entry) -> str | None:
        return known.lesson_of(entry.notebook_file, entry.name)

    layout = arrange_tree(tree, name, lesson_of, packed=packed, names=names, single=single)
    if roster is not None:
        use_roster(layout, roster)
    return _Submissions(where, known, deadline, due, tree, layout).collect_submissions()


def _find_in_file(where: Path, lessons: Lessons, deadline: Deadline) -> FoundSubmissions:
    named = file_format([where.name])
    said = named.parse_file_name(where.name) if named else None  # by the platform from which it was downloaded
    lesson, doubt = lessons.lesson_in_content(where, said.file if said else where.name)
    if lesson is None:
        raise NoSubmissions(lessons.why_unknown(str(where)))
    owner = said.owner if said else Owner(where.absolute().parent.name)
    owner = replace(owner, name=shown_name(owner.name))
    handed_in = float(math.floor(where.stat().st_mtime))
    late = max(0.0, handed_in - deadline(owner))
    if said and said.late is not None:
        handed_in, late = 0.0, float(said.late)
    own = Submission(owner.name, lesson, where, student_id=owner.id, handed_in=handed_in, late=late)
    return FoundSubmissions([own], "one notebook", is_class=said is not None, doubts=(doubt,) if doubt else ())


class _Submissions:
    """Collects the submissions in a tree whose files have been assigned to students."""

    def __init__(
        self, where: Path, lessons: Lessons, deadline: Deadline, due: Sequence[str], tree: Tree, layout: Layout
    ) -> None:
        self.where, self.lessons, self.deadline, self.due = where, lessons, deadline, due
        self.tree, self.layout = tree, layout
        self.names = unique_names(layout.owners)
        self.accounts: dict[Entry, Account] = {}
        self.choices: list[str] = []
        self.doubts = list(layout.doubts)
        self.elsewhere: dict[tuple[Owner, str], str] = {}

    def collect_submissions(self) -> FoundSubmissions:
        """All submissions, sorted by student and lesson, with an account of each file. Raises `NoSubmissions`."""
        files: dict[Owner, list[HandedIn]] = {owner: [] for owner in self.layout.owners}
        for entry, place in self.layout.places.items():
            lesson, doubt = self.lessons.lesson_in_content(entry.notebook_file, place.name)
            for owner in (place.owner, *self.layout.partners.get(entry, ())):
                files[owner].append(HandedIn(entry, place, lesson))
                if doubt and lesson and (named := self.lessons.lesson_in_name(place.name)) and named != lesson:
                    said = "has the name of this lesson and the content of"
                    self.elsewhere[owner, named] = (
                        f"{shorten_text(place.name, 80)} {said} lesson {lesson[:2]}, so it counts for that."
                    )
            self.doubts += [f"{shorten_text(self.names[place.owner], 40)}: {doubt}"] if doubt else []
        for entry, why in self.layout.without_owner.items():
            is_open = entry.counts or entry.name.lower().endswith(UNOPENED)
            self.accounts[entry] = Account(entry.origin, "", "", why, open=is_open)
        handed_in = [
            {file.lesson for file in own if file.lesson and (file.entry.counts or _is_attempt(file))}
            for own in files.values()
        ]
        is_class = self.layout.is_class
        due = due_lessons(handed_in, self.due) if is_class else []
        mentioned = sorted(set().union(*handed_in, self.due)) if is_class else []
        submissions: list[Submission] = []
        for owner in sorted(files, key=lambda owner: name_sort_key(self.names[owner])):
            shown = replace(owner, name=self.names[owner])
            own = {
                submission.lesson: submission
                for submission in self._student_submissions(shown, files[owner], due or mentioned)
            }
            # Students who handed in nothing stay in the list, even if nobody knows what is due.
            for lesson in sorted({*own, *due} or mentioned):
                elsewhere = self.elsewhere.get((owner, lesson), "")
                missing = Submission(shown.name, lesson, None, student_id=shown.id, elsewhere=elsewhere)
                submissions.append(own.get(lesson) or missing)
        if not submissions:
            raise NoSubmissions(self._why_none())
        return FoundSubmissions(
            submissions=submissions,
            how=self.layout.how,
            is_class=is_class,
            accounts=tuple(self.accounts[entry] for entry in self.tree.entries),
            choices=tuple(self.choices),
            doubts=tuple(self.doubts),
            notes=(*self.tree.notes, *self.layout.notes),
        )

    def _student_submissions(
        self, owner: Owner, files: Sequence[HandedIn], expected: Sequence[str]
    ) -> Iterator[Submission]:
        """One submission for each lesson. `owner` has the student's name as it is shown.

        A file that cannot be read counts where there is no notebook: for its lesson, or if unknown, for all `expected`.
        """
        due = self.deadline(owner)
        by_lesson: defaultdict[str, list[HandedIn]] = defaultdict(list)
        problems: list[HandedIn] = []
        for file in files:
            if file.entry.problem or not file.entry.counts:
                problems.append(file)
            elif file.lesson:
                by_lesson[file.lesson].append(file)
            else:
                self._add_account(file, owner, "It belongs to no known lesson. Name it after its lesson.", is_open=True)
        found = {lesson: self._choose_submission(owner, lesson, several, due) for lesson, several in by_lesson.items()}
        for file in sorted(problems, key=lambda file: not _is_attempt(file)):
            why = file.entry.problem or why_no_notebook(file.entry)
            # A file of another kind is an answer only if it is named after a lesson, or nothing else was handed in.
            likely = bool(file.entry.problem) or _is_attempt(file) or not by_lesson
            counts_for = [lesson for lesson in ([file.lesson] if file.lesson else expected) if lesson not in found]
            for lesson in counts_for if likely else ():
                found[lesson] = Submission(owner.name, lesson, None, file.entry.origin, why, owner.id)
            self._add_account(file, owner, why, is_open=likely and not (file.lesson or expected))
        yield from (found[lesson] for lesson in sorted(found))

    def _choose_submission(self, owner: Owner, lesson: str, files: Sequence[HandedIn], due: float) -> Submission:
        choice = choose_attempt(files, due, self.lessons.stems, self.lessons.is_untouched, self.lessons.notebook_digest)
        counts, others = choice.file, choice.others
        shown, *left = paths_that_differ([counts, *others])
        self._add_account(counts, owner, COUNTS)
        for file in others:
            self._add_account(file, owner, f"It does not count: {shown} does, {choice.why}.")
        if others:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            sentence = (
                f"{shorten_text(owner.name, 40)}, {lesson[:2]}: {format_count(len(files), 'file')}; "
                f"{shown} counts ({choice.why}), not {', '.join(left[:3])}{more}"
            )
            self.choices.append(sentence)
            if choice.doubt:
                why = "" if choice.doubt == choice.why else f": {choice.doubt}"
                self.doubts.append(f"{sentence}{why}. Check which one is meant, and remove the other.")
        return Submission(
            student=owner.name,
            lesson=lesson,
            file=counts.entry.file,
            origin="" if counts.entry.origin == str(counts.entry.file) else counts.entry.origin,
            student_id=owner.id,
            handed_in=float(math.floor(counts.handed_in)),
            late=counts.seconds_late(due),
            superseded=tuple(file.entry.origin for file in others),
        )

    def _add_account(self, file: HandedIn, owner: Owner, fate: str, *, is_open: bool = False) -> None:
        before = self.accounts.get(file.entry)  # of a partner
        names = f"{before.student}, {owner.name}" if before else owner.name
        self.accounts[file.entry] = Account(file.entry.origin, names, file.lesson or "", fate, is_open)

    def _why_none(self) -> str:
        where, first = self.where, self.lessons.stems[0]
        reasons = [entry.problem for entry in self.tree.entries if entry.problem]
        if not reasons and not self.layout.is_class:
            example = next((entry.origin for entry in self.tree.entries if entry.counts), "")
            if example:
                return self.lessons.why_unknown(example)
        listed = [account for account in self.accounts.values() if account.open]
        reasons += [f"{account.file}: {account.fate}" for account in listed[:5]]
        return f"{where} holds no notebook of a known lesson. " + (
            " ".join(reasons[:5]) or f"Expected: {where}/<student>/{first}.ipynb"
        )


def _is_attempt(file: HandedIn) -> bool:
    """Whether a file of another kind is named after a lesson, as an export of a notebook is."""
    return not file.entry.counts and file.lesson is not None


def due_lessons(handed_in: Iterable[Iterable[str]], said: Sequence[str] = ()) -> list[str]:
    """The lessons in `said`, or if that is empty, those that more than one student handed in.

    `handed_in` has the lessons of each student. A lesson that only one person handed in is not due for the others.
    """
    count = Counter(lesson for own in handed_in for lesson in own)
    return sorted(said or (lesson for lesson, students in count.items() if students > 1))
