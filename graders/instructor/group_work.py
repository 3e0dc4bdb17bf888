"""Shares what a group handed in once with all of its members."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from graders.core.results import SubmissionResult
from graders.instructor.naming import find_person, lessons_due
from graders.submissions.finding import Submission
from graders.submissions.groups import Group, Groups
from graders.submissions.intake import Unreadable, read_bytes
from graders.submissions.lessons import Lessons
from graders.submissions.roster import Person, Roster, with_distinct_names
from graders.submissions.student_names import name_sort_key


@dataclass
class GroupWork:
    """The submissions of a class after those of groups were given to their members.

    `groups` maps a student and a lesson to the name of the group, `due` lists the lessons that everybody should have
    handed in. `notes` inform the instructor; `doubts` are decisions that may be wrong and should be checked.
    """

    submissions: list[Submission] = field(default_factory=list)
    groups: dict[tuple[str, str], str] = field(default_factory=dict)
    due: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def share_group_work(
    found: Sequence[Submission], groups: Groups, roster: Roster | None, due: Sequence[str] = ()
) -> GroupWork:
    """Give each member of a group a submission with the group's file, in every lesson.

    The group's file is the one with its name, or else that of the only member who handed in. When there is neither,
    the lesson is missing if it is `due` (or, when none are, if several students handed it in).
    """
    work = GroupWork()
    sorting = _GroupSorter(groups, roster, work)
    sorting.sort_submissions(found)
    work.due = lessons_due(found, due)
    for lesson in sorted({submission.lesson for submission in found}):
        _share_lesson(lesson, sorting, work)
    for name, several in sorting.groups_of.items():
        if len(several) > 1:
            counted = sorted({group for (student, _), group in work.groups.items() if student == name})
            which = f"of these {'; '.join(counted)} handed in." if counted else "none of them handed in."
            work.notes.append(f"{name} is in several groups ({'; '.join(several)}); {which}")
    return work


class _GroupSorter:
    """Sorts submissions into those of groups, those of single members, and those of people in no group."""

    def __init__(self, groups: Groups, roster: Roster | None, work: GroupWork) -> None:
        everyone = {(member.name, member.ids): member for group in groups.groups for member in group.members}
        self.groups, self.work = groups, work
        listed = roster.people if roster else ()
        strangers = [member for member in everyone.values() if not (roster and _find_member(member, roster))]
        for member in strangers if roster else ():
            work.doubts.append(f"{member.name} is in a group, but not on the roster, or not clearly.")
        self.people = Roster([*listed, *with_distinct_names(strangers)])
        self.members: dict[str, list[str]] = {}
        self.groups_of: dict[str, list[str]] = {}
        self.numbers: dict[str, str] = {}
        for group in groups.groups:
            for member in group.members:
                name = self._name_of(member, group)
                if name not in self.members.setdefault(group.name, []):
                    self.members[group.name].append(name)
                    self.groups_of.setdefault(name, []).append(group.name)
        self.of_group: dict[tuple[str, str], list[Submission]] = {}
        self.own: dict[tuple[str, str], Submission] = {}

    def _name_of(self, member: Person, group: Group) -> str:
        """The name of a member: the one on the roster, if there is a roster with them on it."""
        person = _find_member(member, self.people)
        if person is None:  # several have this name, and there is no number
            self.work.doubts.append(f"{member.name} of {group.name} cannot be told from others of this name.")
            return f"{member.name} ({group.name})"
        numbers = {found.name for number in member.ids if (found := self.people.find("", number))} - {person.name}
        for other in sorted(numbers):
            self.work.doubts.append(f"{member.name} of {group.name} has the number of {other}. The name counts.")
        self.numbers[person.name] = person.participant or member.get("canvas user id", "id")
        return person.name

    def sort_submissions(self, found: Sequence[Submission]) -> None:
        """Sort these submissions. Those of people who are in no group stay unchanged."""
        folders: dict[str, list[str]] = {}
        owners = {submission.student: submission.student_id for submission in found}
        for student, number in owners.items():
            group, name = self._find_owner(student, number)
            if name and not group:
                folders.setdefault(name, []).append(student)
        # When several folders seem to belong to one person, only one with exactly their name is surely theirs.
        names = {several[0]: name for name, several in folders.items() if len(several) == 1}
        names |= {name: name for name, several in folders.items() if name in several}
        for submission in found:
            group, name = self._find_owner(submission.student, submission.student_id)
            if group:
                self.of_group.setdefault((group, submission.lesson), []).append(submission)
                if name:
                    self.numbers[name] = submission.student_id
            elif submission.student in names:
                name = names[submission.student]
                self.own[name, submission.lesson] = replace(submission, student=name)
                self.numbers[name] = submission.student_id or self.numbers.get(name, "")
            else:
                self.work.submissions.append(submission)

    def elsewhere(self, name: str, lesson: str) -> str:
        """What is said of a file with this lesson's name, of a person or one of their groups; empty if nothing is."""
        of_groups = (self.of_group.get((group, lesson), []) for group in self.groups_of[name])
        theirs = [*(self.own[who] for who in [(name, lesson)] if who in self.own), *chain.from_iterable(of_groups)]
        return next((one.elsewhere for one in theirs if one.elsewhere), "")

    def _find_owner(self, student: str, number: str) -> tuple[str, str]:
        """The group and the member that own a submission, "" for none; both if Moodle repeats the group's file."""
        named, person = find_person(student, "", self.people), find_person(student, number, self.people)
        group = self.groups.find(student)
        if group is not None and (person is None or person.name in self.members[group.name]):
            return group.name, ""
        if group is not None:
            self._note_doubt(student, group.name, person)
            person = named
        elif named is None:
            for at in [at for at, character in enumerate(student) if character == "-"]:
                group = self.groups.find(student[:at])
                if group is not None:  # Moodle: `Group A-Ada Lovelace`, a folder for each member
                    person = find_person(student[at + 1 :].removesuffix(f" ({number})"), number, self.people)
                    if person is not None and person.name in self.members[group.name]:
                        return group.name, person.name
                    self._note_doubt(student, group.name, person)
                    return "", ""
        return "", person.name if person is not None and person.name in self.groups_of else ""

    def _note_doubt(self, student: str, group: str, person: Person | None) -> None:
        who = f"{person.name}, who is not in it" if person else "nobody who is in it"
        doubt = f"{student}: the name says {group}, but the rest says {who}. It does not count for the group."
        if doubt not in self.work.doubts:
            self.work.doubts.append(doubt)


def _find_member(member: Person, people: Roster) -> Person | None:
    """The person who is this member: found by name, otherwise by number."""
    by_number = (person for number in member.ids if (person := people.find("", number)))
    return people.find(member.name) or next(by_number, None)


def _share_lesson(lesson: str, sorting: _GroupSorter, work: GroupWork) -> None:
    """Add to `work` the submission of every member of every group for one lesson."""
    alone = {name: own for (name, of), own in sorting.own.items() if of == lesson and not own.missing}
    # If two members of one group each handed in, this lesson was not group work.
    individual = any(sum(name in alone for name in names) > 1 for names in sorting.members.values())
    counted: dict[str, Submission] = {}
    for group, names in sorting.members.items():
        given = [one for one in sorting.of_group.get((group, lesson), []) if not one.missing]
        single = [name for name in names if name in alone]
        worked = [name for name in single if not _is_blank(alone[name])]
        if len(worked) == 1 and given and all(map(_is_blank, given)):
            counted[group] = replace(alone[worked[0]], superseded=tuple(one.shown_file for one in given))
            work.doubts.append(
                f"{group}: the file for {lesson} with its name is untouched. That of {worked[0]} counts for all of it."
            )
        elif given:
            counted[group] = _choose_group_file(group, given, work)
        elif len(single) == 1 and len(names) > 1 and not individual:
            counted[group] = alone[single[0]]
            work.notes.append(f"{group}: no file for {lesson} has its name. That of {single[0]} counts for all of it.")
        elif lesson in work.due and len(single) < len(names):
            left = "; ".join(name for name in names if name not in alone)
            work.notes.append(
                f"{group}: no file for {lesson} has its name, and these handed in nothing either: {left}."
            )
    for name, several in sorting.groups_of.items():
        chosen = [group for group in several if group in counted]
        own = alone.get(name)
        if not chosen:
            if own or lesson in work.due:
                nothing = Submission(name, lesson, None, student_id=sorting.numbers.get(name, ""))
                work.submissions.append(own or replace(nothing, elsewhere=sorting.elsewhere(name, lesson)))
            continue
        if len(chosen) > 1:
            listed = "; ".join(chosen)
            work.doubts.append(f"{name} is in groups that all handed in {lesson} ({listed}): {chosen[0]} counts.")
        base = counted[chosen[0]]
        left_out = [counted[group] for group in chosen[1:]]
        if own is not None and (own.origin, own.file) != (base.origin, base.file):
            left_out.append(own)
            if content_hash(own) != content_hash(base):
                also = f"{name} handed in {lesson} alone as well, and differently ({own.shown_file})"
                work.doubts.append(f"{also}: what {chosen[0]} handed in counts.")
        work.groups[name, lesson] = chosen[0]
        work.submissions.append(_for_member(base, name, sorting.numbers.get(name, ""), left_out))


def _choose_group_file(group: str, given: Sequence[Submission], work: GroupWork) -> Submission:
    """The group's file that counts: if there are several, the latest in which somebody worked, or else the latest."""
    latest_first = sorted(
        given, key=lambda one: (not _is_blank(one), one.file is not None, one.handed_in, -one.late), reverse=True
    )
    different: dict[str, Submission] = {}
    for one in latest_first:  # Moodle repeats the same file for each member, each with their own deadline
        different.setdefault(content_hash(one), one)
    counts, *others = different.values()
    if others:
        files = ", ".join(one.shown_file for one in others)
        work.doubts.append(
            f"{group} has several files for {counts.lesson}: {counts.shown_file} counts, and not {files}."
        )
    return replace(counts, superseded=(*counts.superseded, *(one.shown_file for one in others)))


def _is_blank(submission: Submission) -> bool:
    """Whether nobody worked in a file, or it cannot be read."""
    return submission.file is None or Lessons([submission.lesson]).is_untouched(submission.file, submission.lesson)


def content_hash(submission: Submission) -> str:
    """The SHA-256 of a file; its name instead when it cannot be read, so that it differs from all others."""
    try:
        return hashlib.sha256(read_bytes(submission.file)).hexdigest() if submission.file else submission.shown_file
    except Unreadable:
        return submission.shown_file


def _for_member(base: Submission, name: str, number: str, left_out: Iterable[Submission]) -> Submission:
    superseded = (*base.superseded, *(file for one in left_out for file in (one.shown_file, *one.superseded)))
    return replace(base, student=name, student_id=number, superseded=superseded)


def without_copies(submissions: Sequence[Submission]) -> list[Submission]:
    """One submission for each file and lesson, so that what a group shares runs only once."""
    return list({_run_key(one): one for one in reversed(submissions)}.values())[::-1]


def with_copies(results: Iterable[SubmissionResult], submissions: Sequence[Submission]) -> tuple[SubmissionResult, ...]:
    """A result for every submission, given those of `without_copies(submissions)`: copies share a result."""
    found = {(result.student, result.lesson): result for result in results}
    shared = {_run_key(one): found[one.student, one.lesson] for one in without_copies(submissions)}
    named = (replace(shared[_run_key(one)], student=one.student) for one in submissions)
    return tuple(sorted(named, key=lambda result: (name_sort_key(result.student), result.lesson)))


def _run_key(submission: Submission) -> tuple[Path | str, str]:
    """The same for two submissions that need only one run."""
    return submission.file or submission.student, submission.lesson
