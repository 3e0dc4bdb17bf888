"""Matches submissions with the people on the roster, and finds out who is missing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graders.core.text import shorten_text
from graders.instructor.request import BadRequest, lessons_due_for
from graders.submissions.finding import Submission, due_lessons
from graders.submissions.roster import Person, Roster, normalised_name
from graders.submissions.student_names import is_plain_name, name_sort_key


def named_by_roster(
    submissions: Sequence[Submission], roster: Roster, due: Sequence[str] = ()
) -> tuple[list[Submission], list[str]]:
    """The submissions under their names on the roster, and a sorted list of strangers, who are not on it.

    People who handed in nothing get a missing submission for each lesson that is `due`; if none is given, for each
    that several students handed in. When two folders seem to belong to one person and neither has exactly that name,
    both keep their own, so that nobody gets somebody else's marks. Raises `BadRequest` when the roster is Moodle's
    worksheet for another assignment.
    """
    exact = {person.name: person for person in roster.people}
    _refuse_other_numbers(submissions, exact)
    people = {one.student: find_person(one.student, one.student_id, roster) for one in submissions}
    claims: dict[str, list[str]] = {}
    for student, person in people.items():
        claims.setdefault(person.name if person else "", []).append(student)
    names = {claimed[0]: name for name, claimed in claims.items() if name and len(claimed) == 1}
    names |= {name: name for name, claimed in claims.items() if name in claimed}
    # Nobody may get a name that is already the name of somebody else's folder.
    names = {student: name for student, name in names.items() if name == student or name not in people}
    found = [
        replace(submission, student=name, student_id=submission.student_id or _participant_number(exact.get(name)))
        for submission in submissions
        for name in [names.get(submission.student, submission.student)]
    ]
    lessons = lessons_due(submissions, due)
    there = {submission.student for submission in found} | set(names.values())
    there |= {person.name for person in people.values() if person}
    for person in roster.people:
        if person.name not in there or (person.lessons and person.name in names.values()):
            found = _with_missing_lessons(found, person, lessons_due_for(person) or lessons)
    return found, sorted((student for student in people if student not in names), key=name_sort_key)


def lessons_due(submissions: Sequence[Submission], due: Sequence[str]) -> list[str]:
    """The lessons that are `due`; if none is given, those that several students handed in, or else all."""
    handed_in: dict[str, set[str]] = {}
    for one in submissions:
        if not one.missing:
            handed_in.setdefault(one.student, set()).add(one.lesson)
    return due_lessons(handed_in.values(), due) or sorted({one.lesson for one in submissions})


def find_person(student: str, number: str, roster: Roster) -> Person | None:
    """The person on the roster whom a name and a number mean.

    An exact match of the name wins. A name with invisible characters, all of which are shown as the same one, matches
    nobody unless there is a number.
    """
    exact = next((person for person in roster.people if person.name == student), None)
    if "\N{REPLACEMENT CHARACTER}" in student:
        exact = None
    return exact or (roster.find(student, number) if is_plain_name(student) or number else None)


def by_number_alone(submissions: Sequence[Submission], roster: Roster) -> dict[str, str]:
    """The person for each student who was matched by number under another name, which may be that of a group."""
    found = {}
    for student, number in {(one.student, one.student_id) for one in submissions}:
        person = find_person(student, number, roster)
        blind = person is not None and person.participant and person.name.endswith(person.participant)
        if person is not None and not blind and find_person(student, "", roster) is not person:
            found[student] = person.name
    return found


def _refuse_other_numbers(submissions: Sequence[Submission], people: Mapping[str, Person]) -> None:
    """Raises `BadRequest` when no participant number in the file names agrees with the roster.

    Moodle gives everybody a new number in each assignment, so the marks would go to the wrong people.
    """
    numbers = {
        submission.student: (submission.student_id, _participant_number(people.get(submission.student)))
        for submission in submissions
        if submission.student_id and _participant_number(people.get(submission.student))
    }
    if numbers and all(given != listed for given, listed in numbers.values()):
        name, (given, listed) = next(iter(numbers.items()))
        raise BadRequest(
            f"The roster is the worksheet of another assignment: {name} is participant {listed} there, but {given} in "
            "the name of the file. Give the worksheet that belongs to these files."
        )
    given_to = {submission.student_id for submission in submissions} - {""}
    blind = all(person.participant and person.name.endswith(person.participant) for person in people.values())
    if blind and given_to and not given_to & set(map(_participant_number, people.values())):
        raise BadRequest(
            "The roster is the worksheet of another assignment: it has none of the numbers in the names of the files, "
            f"such as {shorten_text(min(given_to), 20)}. Give the worksheet that belongs to these files."
        )


def _participant_number(person: Person | None) -> str:
    return person.participant if person else ""


def _with_missing_lessons(found: list[Submission], person: Person, lessons: Sequence[str]) -> list[Submission]:
    """`found` with one person marked as missing in exactly those of `lessons` that they did not hand in."""
    handed_in = {
        submission.lesson for submission in found if submission.student == person.name and not submission.missing
    }
    others = [submission for submission in found if submission.student != person.name or not submission.missing]
    missing = [lesson for lesson in lessons if lesson not in handed_in]
    elsewhere = {one.lesson: one.elsewhere for one in found if one.student == person.name}
    return others + [
        Submission(person.name, lesson, None, student_id=person.participant, elsewhere=elsewhere.get(lesson, ""))
        for lesson in missing
    ]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names those whom `name` may stand for, the most similar first; empty if there is nobody."""
    people = sorted(set(known))
    person = Roster(map(Person, people)).find(name)
    parts = [one for one in people if name and name.casefold() in one.casefold()]
    close = difflib.get_close_matches(_sorted_words(name), map(_sorted_words, people), n=5, cutoff=0.7)
    alike = [one for spelling in close for one in people if _sorted_words(one) == spelling]
    near = list(dict.fromkeys([*([person.name] if person else []), *parts, *alike]))
    return f"Did you mean {' or '.join(near[:5])}{' or another' if len(near) > 5 else ''}?" if near else ""


def _sorted_words(name: str) -> str:
    """The words of a name, so that it does not matter which comes first."""
    return " ".join(sorted(map(normalised_name, name.split())))
