"""Joins new results with those that stand in `--out` from earlier commands.

DIR may be a part of the class: a section, a late student, one notebook. So an earlier result stays, as it was marked,
unless DIR has another for the same student and lesson, or the student is taken out by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.text import format_points, shorten_text
from graders.instructor.naming import did_you_mean, find_person
from graders.instructor.request import BadRequest
from graders.submissions.roster import Person, Roster
from graders.submissions.student_names import name_sort_key

SHOWN_NAMES = 30
"""The most names in one sentence, which says how many more there are."""


@dataclass
class Joined:
    """All results, and sentences for the instructor.

    `kept` is on what DIR does not have and stays, `doubts` on what should be checked, and `notes` on anything else.
    """

    batch: Batch
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def join_results(
    before: Batch | None, new: Batch, exercises: Sequence[str] = (), roster: Roster | None = None
) -> Joined:
    """The earlier results, with new ones in place of those for the same student and lesson.

    What was graded does not give way to a file that is missing, nor to our own failure to mark the same file again.
    With `exercises` only the results of these keys are replaced, unless the notebook has changed since then.
    """
    if before is None:
        return Joined(new)
    new = _with_namesakes_apart(before, new, roster)
    joined = Joined(new)
    found = {_who(result): _with_seed(result, before) for result in before.submissions}
    for student in _read_under_another_name(before, new, joined):
        found = {who: result for who, result in found.items() if who[0] != student or _is_only_here(result, new)}
    fresh, other_files = set(), list[str]()
    again: dict[str, list[str]] = {}
    for result in new.submissions:
        replaced = found.get(_who(result))
        counts = result if replaced is None else _result_that_counts(replaced, result, exercises)
        if counts is replaced and result.status is SubmissionStatus.NOT_GRADED:
            again.setdefault(result.message, []).append(f"{shorten_text(result.student, 40)}, {result.lesson[:2]}")
        moved = replaced and replaced.file != result.file and replaced.sha256 != result.sha256
        if replaced and counts is result and replaced.exercises and moved:
            other_files.append(f"{shorten_text(result.student, 40)}, {result.lesson[:2]}")
        if counts is not replaced or result.status is not SubmissionStatus.MISSING:
            fresh.add(_who(result))
        found[_who(result)] = counts
    joined.kept += [f"Another file than before counts now: {_listed(other_files)}."] if other_files else []
    joined.notes += [
        f"Not marked again, so the earlier mark stays: {_listed(names)}. {why}" for why, names in again.items()
    ]
    joined.batch = replace(new, submissions=tuple(found[who] for who in sorted(found, key=_place)))
    kept = [result for who, result in found.items() if who not in fresh]
    _tell_kept(kept, {result.lesson for result in new.submissions}, joined)
    joined.doubts = [*_points_doubts(kept, new), *_same_person_doubts(joined.batch, new, roster)]
    return joined


def _with_namesakes_apart(before: Batch, new: Batch, roster: Roster | None) -> Batch:
    """The new results, with the platform's number after a name that is another person's in the earlier results.

    So two people of one name in two sections stay two. A roster tells them apart itself, and groups have no numbers.
    """
    listed = {person.name for person in roster.people} if roster else set()
    numbers = {_who(one): one.student_id for one in before.submissions if one.student_id and not one.group}
    names = {one.student for one in before.submissions}

    def name_of(result: SubmissionResult) -> str:
        number, apart = result.student_id, f"{result.student} ({result.student_id})"
        if not number or result.group or result.student in listed:
            return result.student
        return apart if apart in names or numbers.get(_who(result), number) != number else result.student

    return replace(new, submissions=tuple(replace(one, student=name_of(one)) for one in new.submissions))


def _who(result: SubmissionResult) -> tuple[str, str]:
    return result.student, result.lesson


def _place(who: tuple[str, str]) -> tuple[str, str, str]:
    """Where a result stands among all: by name as people sort names, then by lesson."""
    return *name_sort_key(who[0]), who[1]


def _with_seed(result: SubmissionResult, before: Batch) -> SubmissionResult:
    """The result with its own seed: results of earlier versions have only that of their batch."""
    return replace(result, seed=before.seed) if result.seed is None and result.exercises else result


def _result_that_counts(
    replaced: SubmissionResult, result: SubmissionResult, exercises: Sequence[str]
) -> SubmissionResult:
    if result.status is SubmissionStatus.MISSING:
        return result if replaced.status is SubmissionStatus.MISSING else replaced
    if replaced.sha256 != result.sha256 or not replaced.exercises:
        return result
    if replaced.graded and not result.graded:
        return replaced
    return _merge_exercises(replaced, result, exercises) if exercises and result.exercises else result


def _merge_exercises(
    replaced: SubmissionResult, submission: SubmissionResult, exercises: Sequence[str]
) -> SubmissionResult:
    """The new result of a submission for these exercises, combined with the earlier one for all others."""
    fresh = {exercise.key: exercise for exercise in submission.exercises if exercise.key in exercises}
    results = tuple(fresh.get(exercise.key, exercise) for exercise in replaced.exercises)
    lost = submission.penalty / (submission.score + submission.penalty) if submission.penalty else 0.0
    reached = round(sum(exercise.score for exercise in results), 4)
    penalty = round(reached * lost, 4)
    failed = submission.status is SubmissionStatus.NOT_GRADED
    return replace(
        submission,
        exercises=results,
        status=SubmissionStatus.NOT_GRADED if failed else SubmissionStatus.GRADED,
        penalty=penalty,
        score=round(reached - penalty, 4),
        max_score=round(sum(exercise.max_score for exercise in results), 4),
    )


def _read_under_another_name(before: Batch, new: Batch, joined: Joined) -> list[str]:
    """Earlier students whose file is now read as somebody else's, as after `--names` or `--groups`: nobody is twice.

    What a group handed in is not taken from its members when `--groups` was only forgotten.
    """
    owners = {(result.lesson, result.file, result.sha256): result.student for result in new.submissions if result.file}
    there = {result.student for result in new.submissions}
    now: dict[str, str] = {}
    for result in before.submissions:
        owner = owners.get((result.lesson, result.file, result.sha256))
        if owner and result.student not in there and not result.group:
            now.setdefault(result.student, owner)
    joined.notes += [f"What stood under {student} is now under {owner}." for student, owner in sorted(now.items())]
    return sorted(now)


def _is_only_here(result: SubmissionResult, new: Batch) -> bool:
    """Whether an earlier result is of a file that the new results do not have."""
    known = any((one.lesson, one.file) == (result.lesson, result.file) for one in new.submissions)
    return result.status is not SubmissionStatus.MISSING and not known


def _tell_kept(kept: Iterable[SubmissionResult], lessons: Collection[str], joined: Joined) -> None:
    """Say whose marks stay although DIR does not have them, for the lessons that were marked, and which others stay."""
    names: dict[str, list[str]] = {}
    for result in kept:
        if result.status is not SubmissionStatus.MISSING:
            names.setdefault(result.lesson, []).append(shorten_text(result.student, 40))
    for lesson, students in sorted(names.items()):
        if lesson in lessons:
            joined.kept.append(f"{lesson}: kept from before, as DIR has nothing of theirs: {_listed(students)}.")
    if others := sorted(set(names) - set(lessons)):
        joined.kept.append(f"Kept from before: {', '.join(others)}.")
    if set(names) & set(lessons):
        joined.kept.append("Has somebody left? --forget NAME takes them out.")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return "; ".join(sorted(names)[:SHOWN_NAMES]) + (f"; and {more} more, see class.html" if more > 0 else "")


def _points_doubts(kept: Iterable[SubmissionResult], new: Batch) -> list[str]:
    """Doubts where one lesson has two maxima, because `--points` was not the same."""
    now = {result.lesson: result.max_score for result in new.submissions if result.exercises}
    other = {
        result.lesson: result.max_score
        for result in kept
        if result.exercises and abs(now.get(result.lesson, result.max_score) - result.max_score) > 0.005
    }
    return [
        f"{lesson} has {format_points(now[lesson])} points now, and {format_points(most)} in the results from before. "
        "Give --points as before, or mark the whole class again."
        for lesson, most in sorted(other.items())
    ]


def under_roster_names(before: Batch, roster: Roster) -> Batch:
    """The earlier results under the names on the roster, by the rules for folders (`naming.named_by_roster`).

    A name stays when two could be the same person, or when that person has a mark for the lesson already. Moodle's
    numbers are others in each assignment, so with those only names are compared.
    """
    numbered = any(person.participant for person in roster.people)
    claims: dict[str, set[str]] = {}
    people: dict[str, str] = {}
    for student, number in {(one.student, one.student_id) for one in before.submissions}:
        person = find_person(student, "", roster) or (None if numbered else find_person(student, number, roster))
        if person is not None and person.name != student:
            people[student] = person.name
            claims.setdefault(person.name, set()).add(student)
    taken = {_who(one) for one in before.submissions if one.status is not SubmissionStatus.MISSING}
    found: dict[tuple[str, str], SubmissionResult] = {}
    for result in sorted(before.submissions, key=lambda one: one.status is not SubmissionStatus.MISSING):
        name = people.get(result.student, result.student)
        if name != result.student and (len(claims[name]) > 1 or (name, result.lesson) in taken):
            name = result.student
        found[name, result.lesson] = replace(result, student=name)
    return replace(before, submissions=tuple(found[who] for who in sorted(found, key=_place)))


def without_students(before: Batch | None, names: Sequence[str], handed_in: Collection[str]) -> Batch | None:
    """The earlier results without these students. Raises `BadRequest` for somebody who is not there, or is in DIR."""
    known = {result.student for result in before.submissions} if before else set()
    for name in names:
        if name in handed_in:
            raise BadRequest(f"--forget {name!r}: DIR has work of theirs, which would only be marked again. Remove it.")
        if name not in known:
            raise BadRequest(f"--forget {name!r}: there is no such student in --out. {did_you_mean(name, known)}")
    left = tuple(result for result in before.submissions if result.student not in names) if before else ()
    return replace(before, submissions=left) if before else None


def _same_person_doubts(joined: Batch, new: Batch, roster: Roster | None) -> list[str]:
    """Doubts about new students whose name is that of one who is not in DIR, written another way."""
    listed = {person.name for person in roster.people} if roster else set()
    now = {result.student for result in new.submissions}
    others = Roster(map(Person, sorted({result.student for result in joined.submissions} - now)))
    pairs = [(name, other) for name in sorted(now - listed) if (other := others.find(name))]
    return [
        f"{name} may be {other.name}, who stands in the results from before. If so, give --roster CSV with one of "
        "these names, or take one out with --forget."
        for name, other in pairs
    ]
