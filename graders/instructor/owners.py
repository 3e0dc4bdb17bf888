"""Says whose the work is when DIR is that of a single student, and `--out` holds the results of others."""

from __future__ import annotations

from dataclasses import replace

from graders.core.results import Batch
from graders.instructor.kept import did_you_mean
from graders.instructor.naming import find_person
from graders.instructor.request import BadRequest, Request
from graders.run.lms import Owner
from graders.run.submissions import FoundSubmissions, Submission


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
