"""Says whose work DIR holds, by what stands in `--out` from earlier commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graders.core.results import Batch
from graders.instructor.group_work import content_hash
from graders.instructor.naming import did_you_mean, find_person
from graders.instructor.request import BadRequest, Request
from graders.submissions.finding import FoundSubmissions, Submission
from graders.submissions.lms import Owner
from graders.submissions.roster import Person, Roster


def under_earlier_names(submissions: Sequence[Submission], before: Batch) -> tuple[list[Submission], list[str]]:
    """The submissions under the names of earlier results, where the same file and another spelling of the name show it.

    So nobody is two people when `--roster` is forgotten. The second part are sentences that say who is who.
    """
    there = {submission.student for submission in submissions}
    known = {result.student for result in before.submissions}
    earlier: dict[tuple[str, str], set[str]] = {}
    for result in before.submissions:
        if result.sha256 and result.student not in there:
            earlier.setdefault((result.lesson, result.sha256), set()).add(result.student)
    names: dict[str, str] = {}
    for submission in submissions:
        if earlier and submission.file and submission.student not in known:
            owners = earlier.get((submission.lesson, content_hash(submission)), set())
            if person := Roster(map(Person, sorted(owners))).find(submission.student):
                names[submission.student] = person.name
    names = {student: name for student, name in names.items() if [*names.values()].count(name) == 1}
    said = [f"{student} is {name}, who handed in the same file before." for student, name in sorted(names.items())]
    return [replace(one, student=names.get(one.student, one.student)) for one in submissions], said


def owned_by_somebody_known(
    found: FoundSubmissions, before: Batch | None, request: Request
) -> tuple[FoundSubmissions, list[str]]:
    """What was found, in the name of its owner, and doubts about who that is.

    A notebook or a folder that lies anywhere has the name of its folder, which need not be anybody's. `--student` says
    whose it is. Raises `BadRequest` for a notebook of nobody who is known, since it would become another student.
    """
    students = {submission.student for submission in found.submissions}
    known = {result.student for result in before.submissions} if before else set()
    listed = {person.name for person in request.roster.people} if request.roster else set()
    if found.is_class or len(students) != 1 or students <= known:
        return found, []
    (student,) = students
    if len(request.students) == 1 and request.students[0] in known | listed:
        own = [_given_to(request.students[0], submission, request) for submission in found.submissions]
        return replace(found, submissions=own), []
    number = found.submissions[0].student_id
    if not known or (request.roster and find_person(student, number, request.roster)):
        return found, []
    how = f"{student} is not among the students in {request.out}. {did_you_mean(student, known)}".strip()
    if found.submissions[0].file == request.where and not (request.confirm_files or student in request.students):
        raise BadRequest(
            f"{how} --student NAME says whose notebook it is; for a new student called {student}, --confirm-files."
        )
    return found, [f"{how} They are added as a new student. If it is somebody else's work: --student NAME."]


def _given_to(student: str, submission: Submission, request: Request) -> Submission:
    """The submission as this student's, with their own deadline."""
    late = submission.late
    if submission.handed_in:
        late = max(0.0, submission.handed_in - request.deadline_for(Owner(student)))
    return replace(submission, student=student, late=late)
