"""Which notebooks there are: students, lessons, files."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graders.core.errors import HookworkError
from graders.core.student_names import BLANK, visible
from graders.core.text import clean
from graders.run.archives import is_wanted, unpack, unpack_class
from graders.run.intake import Unreadable, read_notebook
from graders.run.lms import Owner, late_by_name, owner_of_file, owner_of_folder
from graders.run.members import BadArchive, is_archive

OWN = "me"
"""The student's name when a single notebook, or one folder of notebooks, is marked."""


class NoSubmissions(HookworkError):
    """There is nothing to mark; the message says where it was looked for and what is expected there."""


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one lesson. `file` is None when it is missing, or when `problem` says why not.

    `origin` is how reports call the file, where that is not its path: a member of an archive. `student_id` is the
    number that a platform gave. `handed_in` is when the file was last changed, in seconds since 1970, or 0 where nobody
    says so, and `late` by how many seconds it came after its deadline: 1 where a platform says that it is late, and
    not when it came. `superseded` names the files for the same lesson that do not count.
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

    @property
    def missing(self) -> bool:
        """Whether nothing was handed in, and it was due."""
        return self.file is None and not self.problem


Deadline = Callable[[Owner], float]
"""Somebody's deadline in seconds since 1970: not everybody has the same."""


def no_deadline(owner: Owner) -> float:
    """Nothing is late."""
    return math.inf


@dataclass(frozen=True)
class _File:
    """A file that was handed in: where it is, the name its owner gave it, how reports call it, its lesson, and when.

    `handed_in` is 0 for what Canvas named, and `marked_late` what Canvas says instead.
    """

    path: Path
    name: str
    origin: str
    lesson: str | None
    handed_in: float
    marked_late: bool

    def late(self, deadline: float) -> float:
        """By how many seconds it came after the deadline; 0 when it was in time."""
        return 1.0 if self.marked_late else max(0.0, self.handed_in - deadline)


@dataclass(frozen=True)
class _Problem:
    """Why something that was handed in cannot be read: for one lesson, or for any (None)."""

    why: str
    origin: str
    lesson: str | None = None


@dataclass
class _HandIn:
    """All that one student handed in."""

    files: list[_File] = field(default_factory=list)
    problems: list[_Problem] = field(default_factory=list)


def find_submissions(
    where: Path,
    lessons: Sequence[str],
    scratch: Path | None = None,
    deadline: Deadline = no_deadline,
    due: Sequence[str] = (),
) -> list[Submission]:
    """The submissions in a class folder, a student's folder, a single notebook, or an archive of one of these.

    `lessons` are the stems of the lessons that can be marked. Archives are unpacked into new folders in `scratch`,
    which should be private; without it they are not opened. A student in a class who has no notebook for a lesson that
    is `due` gets a submission without a file; when nothing is said to be due, a lesson is that several handed in. Of
    several files for one lesson the last before the `deadline` counts. Links are not followed. Raises `NoSubmissions`.
    """
    if not where.exists():
        raise NoSubmissions(f"{where} does not exist. Give a notebook, or a folder with notebooks.")
    finder = _Finder(lessons, scratch, deadline, due)
    try:
        if where.is_dir():
            return finder.in_folder(where, where.absolute().name)
        if is_archive(where) and scratch is not None:
            return finder.in_archive(where)
    except OSError as error:
        raise NoSubmissions(f"{where} could not be read or unpacked: {error.strerror}.") from error
    lesson = lesson_of(where, lessons)
    if lesson is None:
        raise NoSubmissions(_unknown_lesson(where, lessons))
    own = _HandIn(
        [
            _File(
                path=where,
                name=where.name,
                origin="",
                lesson=lesson,
                handed_in=where.stat().st_mtime,
                marked_late=False,
            )
        ]
    )
    return list(_of_student(Owner(_shown(where.absolute().parent.name)), own, lessons, (), deadline))


class _Finder:
    """Looks for submissions of these lessons; archives are unpacked below `scratch`."""

    def __init__(
        self, lessons: Sequence[str], scratch: Path | None, deadline: Deadline, due: Sequence[str] = ()
    ) -> None:
        self.lessons, self.scratch, self.deadline, self.due = lessons, scratch, deadline, due
        self.unpacked = 0

    def in_archive(self, archive: Path) -> list[Submission]:
        """The submissions in an archive; the parts of it that are bad become problems of their owners."""
        folder = self._new_folder()
        try:
            bad = unpack_class(archive.resolve(), folder)
        except BadArchive as error:
            raise NoSubmissions(f"{archive}: {error}") from error
        name = re.sub(r"\.(zip|tar\.gz|tgz)$", "", archive.name, flags=re.IGNORECASE)
        return self.in_folder(folder, name, archive, bad)

    def in_folder(
        self, where: Path, name: str, archive: Path | None = None, bad: Mapping[Owner, str] | None = None
    ) -> list[Submission]:
        """The submissions in a folder, which may have come out of an archive."""
        bad = bad or {}
        shown = archive or where

        def file_of(path: Path, given: str, late: bool | None = None) -> _File:
            return self._file(path, given, f"{archive}/{path.relative_to(where)}" if archive else "", late)

        direct = _files(where)
        if direct and not bad and not any(owner_of_file(path.name) for path in direct):
            return self._of_one(name, _HandIn([file_of(path, path.name) for path in direct]), direct[0])
        students: defaultdict[Owner, _HandIn] = defaultdict(_HandIn)
        for path in direct:
            if owned := owner_of_file(path.name):
                students[owned[0]].files.append(file_of(path, owned[1], late_by_name(path.name)))
        for folder in sorted(path for path in where.iterdir() if path.is_dir() and path not in direct):
            if folder.name.startswith((".", "_")):
                continue
            own = students[owner_of_folder(folder.name)]
            if folder.is_symlink():
                why = "The folder is a link to another place, which is not followed. Hand in the notebooks themselves."
                own.problems.append(_Problem(why, str(folder)))
                continue
            try:
                own.files += [file_of(path, path.name) for path in _files(folder)]
            except OSError as error:
                own.problems.append(_Problem(f"The folder cannot be read: {error.strerror}.", str(folder)))
        for owner, why in bad.items():
            students[owner].problems.append(_Problem(why, str(archive)))
        for own in students.values():
            self._sorted_out(own)
        found = list(_of_class(students, self.lessons, self.deadline, self.due))
        if not found:
            reasons = [problem.why for own in students.values() for problem in own.problems]
            reasons.append(f"Expected: {shown}/<student>/{self.lessons[0]}.ipynb")
            raise NoSubmissions(f"{shown} holds no notebook of a known lesson. {reasons[0]}")
        return found

    def _of_one(self, student: str, own: _HandIn, example: Path) -> list[Submission]:
        self._sorted_out(own)
        found = list(_of_student(Owner(_shown(student)), own, self.lessons, (), self.deadline))
        if not found:
            raise NoSubmissions(own.problems[0].why if own.problems else _unknown_lesson(example, self.lessons))
        return found

    def _sorted_out(self, own: _HandIn) -> None:
        """Folders that are called like a notebook become problems, archives the notebooks in them."""
        for file in [file for file in own.files if file.path.is_dir() and not file.path.is_symlink()]:
            own.files.remove(file)
            why = f"{clean(file.name, 100)} is a folder, not a file. Hand in the saved notebook (.ipynb) itself."
            own.problems.append(_Problem(why=why, origin=file.origin or str(file.path), lesson=file.lesson))
        self._open_up(own)

    def _file(self, path: Path, name: str, origin: str, late: bool | None = None) -> _File:
        """A file; `late` is what Canvas says in its name, None for what Canvas did not name."""
        return _File(
            path=path,
            name=name,
            origin=origin,
            lesson=lesson_of(path, self.lessons, name),
            handed_in=path.lstat().st_mtime if late is None else 0.0,
            marked_late=bool(late),
        )

    def _new_folder(self) -> Path:
        assert self.scratch is not None
        self.unpacked += 1
        return self.scratch / str(self.unpacked)

    def _open_up(self, own: _HandIn) -> None:
        """Replace the archives in what a student handed in by the notebooks in them; bad ones become problems."""
        for file in [file for file in own.files if is_archive(Path(file.name))]:
            own.files.remove(file)
            origin = file.origin or str(file.path)
            try:
                if self.scratch is None:
                    raise BadArchive(f"{file.name} is an archive. Hand in the notebooks themselves.")
                folder = self._new_folder()
                unpack(file.path, folder)
                # An archive in an archive stays closed.
                inside = [path for path in sorted(folder.rglob("*")) if path.is_file() and not is_archive(path)]
                if not inside:
                    raise BadArchive(f"{file.name} holds no notebook. Hand in the notebooks themselves.")
                # What a student's archive says about times is the student's word; when it came itself is not.
                own.files += [
                    replace(
                        self._file(path, path.name, f"{origin}/{path.relative_to(folder)}"),
                        handed_in=file.handed_in,
                        marked_late=file.marked_late,
                    )
                    for path in inside
                ]
            except BadArchive as error:
                own.problems.append(_Problem(why=clean(error), origin=origin, lesson=file.lesson))


def _files(folder: Path) -> list[Path]:
    """What lies directly in a folder and is called like a notebook or an archive. It may be none, or a link."""
    return sorted(path for path in folder.iterdir() if is_wanted(path.name))


def _of_class(
    students: Mapping[Owner, _HandIn], lessons: Sequence[str], deadline: Deadline, said: Sequence[str]
) -> Iterator[Submission]:
    """The submissions of all students and those that are missing, by student and lesson."""
    names = _names(students)
    handed_in = [
        {
            lesson
            for lesson in (*(file.lesson for file in own.files), *(problem.lesson for problem in own.problems))
            if lesson
        }
        for own in students.values()
    ]
    due, mentioned = due_lessons(handed_in, said), sorted(set().union(*handed_in, said))
    for owner in sorted(students, key=names.__getitem__):
        shown = replace(owner, name=names[owner])
        found = {sub.lesson: sub for sub in _of_student(shown, students[owner], lessons, due or mentioned, deadline)}
        # Who handed in nothing stays in the list, also where it cannot be told what is due.
        for lesson in sorted({*found, *due} or mentioned):
            yield found.get(lesson) or Submission(student=shown.name, lesson=lesson, file=None, student_id=shown.id)


def due_lessons(handed_in: Iterable[Iterable[str]], said: Sequence[str] = ()) -> list[str]:
    """The lessons that were said to be due, or else those that more than one student handed in.

    `handed_in` has the lessons of each student. What one person hands in makes nobody else's missing.
    """
    count = Counter(lesson for own in handed_in for lesson in own)
    return sorted(said or (lesson for lesson, students in count.items() if students > 1))


def _names(owners: Iterable[Owner]) -> dict[Owner, str]:
    """A name for each student that can be shown, and that no other student has."""
    shown = {owner: _shown(owner.name) for owner in owners}
    count = Counter(shown.values())
    names: dict[Owner, str] = {}
    # First those to whom a name belongs letter by letter.
    for owner in sorted(shown, key=lambda owner: (shown[owner] != owner.name, owner)):
        name = f"{shown[owner]} ({owner.id})" if owner.id and count[shown[owner]] > 1 else shown[owner]
        while name in names.values():
            name += "*"
        names[owner] = name
    return names


def _shown(name: str) -> str:
    """A student's name as it can be shown, and as a folder may be called."""
    shown = visible(name)
    return shown if shown.strip(f". {BLANK}") else OWN


def _of_student(
    owner: Owner, own: _HandIn, lessons: Sequence[str], expected: Sequence[str], deadline: Deadline
) -> Iterator[Submission]:
    """One submission for each lesson. `owner` has the name that is shown.

    Of several files for one lesson the one with the plain name counts, else the last by name; with a deadline the last
    by time among those before it, or of all when each is late. What could not be opened counts where there is no
    notebook: for the lesson in its name, else for all `expected`.
    """
    due = deadline(owner)
    by_lesson: defaultdict[str, list[_File]] = defaultdict(list)
    for file in sorted(own.files, key=lambda file: (Path(file.name).stem in lessons, _natural(file.name))):
        if file.lesson:
            by_lesson[file.lesson].append(file)
    found: dict[str, Submission] = {}
    for lesson, files in by_lesson.items():
        if due < math.inf:
            files.sort(key=lambda file: (not file.late(due), file.handed_in))  # stable: equal times stay by name
        *others, last = files
        found[lesson] = Submission(
            student=owner.name,
            lesson=lesson,
            file=last.path,
            origin=last.origin,
            problem="",
            student_id=owner.id,
            handed_in=last.handed_in,
            late=last.late(due),
            superseded=tuple(clean(file.origin or str(file.path), 1000) for file in others),
        )
    for problem in own.problems:
        for lesson in [problem.lesson] if problem.lesson else expected:
            found.setdefault(
                lesson,
                Submission(
                    student=owner.name,
                    lesson=lesson,
                    file=None,
                    origin=problem.origin,
                    problem=problem.why,
                    student_id=owner.id,
                ),
            )
    yield from (found[lesson] for lesson in sorted(found))


def _natural(name: str) -> list[tuple[int, str]]:
    """A key by which `x-10` comes after `x-2`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


def lesson_of(file: Path, lessons: Sequence[str], name: str | None = None) -> str | None:
    """The lesson a file belongs to: by the stem or the `NN_` prefix in its name, else by its metadata.

    `name` is the name that its owner gave it, where that is not the file's own.
    """
    if lesson := _lesson_in_name(name or file.name, lessons):
        return lesson
    try:
        named = read_notebook(file).lesson
    except Unreadable:
        return None
    return named if named in lessons else None


def _lesson_in_name(name: str, lessons: Sequence[str]) -> str | None:
    for lesson in lessons:
        if lesson in name:
            return lesson
    if match := re.match(r"(\d\d)[_\-. ]", name):
        for lesson in lessons:
            if lesson.startswith(match[1] + "_"):
                return lesson
    return None


def _unknown_lesson(file: Path, lessons: Sequence[str]) -> str:
    return (
        f"{file} belongs to no known lesson. Name it after its lesson, for example {lessons[0]}.ipynb "
        f"(lessons: {', '.join(lessons)})."
    )
