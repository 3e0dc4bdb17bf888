"""Judges one exercise: applies every check to every case, and turns the outcomes into points and a message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from graders.core.difference import Difference
from graders.core.errors import ExerciseDefect
from graders.core.exercise import Ask, Check, Exercise, Inputs, Told
from graders.core.expect import Mismatch
from graders.core.explanations import BY_CIRCUMSTANCE, Findings
from graders.core.results import CheckResult, ExerciseResult, Status
from graders.core.text import MESSAGE_LIMIT, shorten_text
from graders.core.transcript import Outcome
from graders.verdict.diagnose import diagnose_answer
from graders.wire.threads import one_thread

# When the cases of an exercise end differently, the exercise gets the status that comes first here.
Tell = Callable[[Sequence[Inputs], Sequence[Outcome], Collection[str]], Told]
_GRAVEST = (
    Status.SUSPECT,
    Status.NOT_GRADED,
    Status.CRASHED,
    Status.OVER_LIMIT,
    Status.TIMED_OUT,
    Status.RAISED,
    Status.NOT_ATTEMPTED,
)


def judge_exercise(
    exercise: Exercise,
    draws: Sequence[Inputs],
    outcomes: Sequence[Outcome],
    *,
    with_program: bool = True,
    ask: Ask | None = None,
) -> ExerciseResult:
    """The result of one exercise; `draws` and `outcomes` have one entry for each case.

    Expected values are computed with one thread, as in a box, so that rounding is the same. The program that shows why
    an answer is refused takes as long as the rest, and may be left out; `ask`, as in `Exercise.tell`, is for it.
    """
    tell = partial(exercise.tell, ask=ask) if with_program else lambda draws, outcomes, causes: Told()
    with one_thread():
        return _judge_checks(exercise, draws, outcomes, tell)


def answer_holds(exercise: Exercise, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> bool:
    """Whether an answer is right. Faster than `judge_exercise`, since it looks for no explanation."""
    with one_thread():
        return all(outcome.seen for outcome in outcomes) and not any(
            failure for check in exercise.checks for failure in _check_failures(check, draws, outcomes)
        )


def _judge_checks(
    exercise: Exercise, draws: Sequence[Inputs], outcomes: Sequence[Outcome], tell: Tell
) -> ExerciseResult:
    unseen = [outcome for outcome in outcomes if outcome.seen is None]
    if unseen:
        worst = min(unseen, key=lambda outcome: _GRAVEST.index(_status_of(outcome)))
        return _without_numbers(exercise, draws, outcomes, worst, tell)
    try:
        failures = [_check_failures(check, draws, outcomes) for check in exercise.checks]
    except _Unjudged as error:
        return suspect_result(exercise, str(error))
    held = [not any(by_draw) for by_draw in failures]
    share = exercise.points / len(exercise.checks)
    by_name = {check.sentence: by_draw for check, by_draw in zip(exercise.checks, failures)}
    found = Findings() if all(held) else diagnose_answer(exercise, draws, outcomes, by_name)
    told = Told() if all(held) else tell(draws, outcomes, [cause.id for cause in found.causes])
    if told.case and any(cause in BY_CIRCUMSTANCE.values() for cause in found.causes):  # it may go wrong without that
        found = diagnose_answer(exercise, draws, outcomes, by_name, told.case)
    checks = tuple(
        replace(
            _check_result(check, share, _first_difference(check, by_draw, told), first_held=held[0]),
            follows=check.sentence in found.follows,
        )
        for check, by_draw in zip(exercise.checks, failures)
    )
    if all(held):
        return ExerciseResult(
            key=exercise.key,
            status=Status.PASSED,
            score=exercise.points,
            max_score=exercise.points,
            checks=checks,
            printed=outcomes[0].printed,
        )
    first = next(check.difference for check in checks if check.difference)
    cause, second = (*found.causes, None, None)[:2]
    return ExerciseResult(
        key=exercise.key,
        status=Status.WRONG,
        score=round(share * sum(held), 4) if held[0] else 0.0,
        max_score=exercise.points,
        mistake=cause.id if cause else None,
        message=cause.message if cause else first.sentence,
        second_mistake=second.id if second else None,
        second_message=second.message if second else "",
        checks=checks,
        printed=next(outcome.printed for outcome, met in zip(outcomes, zip(*failures)) if any(met)),
        program=told.program,
    )


def _first_difference(check: Check, by_draw: Sequence[Difference | None], told: Told) -> Difference | None:
    """The first difference, or that of the case which the program shows: a learner reads the same numbers twice."""
    shown = told.difference if told.program and check.sentence == told.check else None
    return shown or next(filter(None, by_draw), None)


def _check_result(check: Check, share: float, difference: Difference | None, *, first_held: bool) -> CheckResult:
    """A check's result from the first `difference` it found, None if it held. No points unless the first check held."""
    return CheckResult(
        name=check.sentence,
        passed=difference is None,
        score=round(share if difference is None and first_held else 0.0, 4),
        max_score=round(share, 4),
        message=difference.text if difference else "",
        difference=difference,
    )


def _check_failures(check: Check, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> list[Difference | None]:
    """For each case the difference that the check found; None where it holds."""
    found: list[Difference | None] = []
    for draw, outcome in zip(draws, outcomes):
        try:
            check.run(outcome.seen, draw)
            found.append(None)
        except Mismatch as mismatch:
            found.append(mismatch.difference)
        except ExerciseDefect:  # the fault is ours, so the answer is not suspect
            raise
        except Exception as error:
            what = ": ".join(part for part in (type(error).__name__, shorten_text(error, 100)) if part)
            raise _Unjudged(f"the check whether {check.sentence} failed on it with {what}") from error
    return found


class _Unjudged(Exception):
    """A check failed with an exception on data from a notebook, which may be an attack: somebody has to look at it."""


def suspect_result(exercise: Exercise, why: str) -> ExerciseResult:
    """The result of an exercise that was answered, but whose answer cannot be judged."""
    message = f"The answer could not be judged: {why}. An instructor should look at it."
    return unjudged_result(exercise, Status.SUSPECT, message)


def unjudged_result(exercise: Exercise, status: Status, message: str) -> ExerciseResult:
    """The result of an exercise whose checks were not judged: no points, and `message` says why."""
    share = round(exercise.points / len(exercise.checks), 4)
    return ExerciseResult(
        key=exercise.key,
        status=status,
        score=0.0,
        max_score=exercise.points,
        message=message,
        checks=tuple(
            CheckResult(name=check.sentence, passed=False, score=0.0, max_score=share, message="not judged")
            for check in exercise.checks
        ),
    )


def _status_of(outcome: Outcome) -> Status:
    return outcome.status or Status.NOT_GRADED


def _without_numbers(
    exercise: Exercise, draws: Sequence[Inputs], outcomes: Sequence[Outcome], worst: Outcome, tell: Tell
) -> ExerciseResult:
    """The result if at least one probe did not finish; `worst` is the gravest of their outcomes."""
    # Where nothing was attempted there is no mistake to find, and looking for one takes time.
    untouched = worst.status is Status.NOT_ATTEMPTED
    found = next(iter(() if untouched else diagnose_answer(exercise, draws, outcomes).causes), None)
    message = f"{found.message} ({worst.error}: {worst.message})" if found else describe_outcome(exercise, worst)
    return replace(
        unjudged_result(exercise, _status_of(worst), message),
        mistake=found.id if found else None,
        defined=worst.defined,
        printed=next(outcome.printed for outcome in outcomes if outcome.seen is None),
        program="" if untouched else tell(draws, outcomes, [found.id] if found else ()).program,
    )


def describe_outcome(exercise: Exercise, outcome: Outcome) -> str:
    """One sentence for a probe that did not finish."""
    match outcome.status:
        case Status.NOT_ATTEMPTED:
            missing = "" if outcome.defined else f": {outcome.message}"
            return f"`{exercise.name}` is not attempted yet{missing}."
        case Status.RAISED:
            where = f" at {shorten_text(outcome.line, 80)}" if outcome.line else ""
            call = f" The call was {shorten_text(outcome.call, 100)}." if outcome.call else ""
            place = f"{where}.{call}"
            # A long message from torch must not push out the learner's own line.
            return what_was_raised(exercise, outcome, MESSAGE_LIMIT - len(place)) + place
        case Status.TIMED_OUT:
            return f"`{exercise.name}` did not finish: {outcome.message}."
        case Status.OVER_LIMIT:
            return f"`{exercise.name}` went over a limit: {outcome.message}."
        case Status.CRASHED:
            return f"`{exercise.name}` gave no result: {outcome.message}."
        case Status.SUSPECT:
            return f"The answer did not follow the protocol ({outcome.message}). An instructor should look at it."
        case _:
            return f"This could not be graded, through no fault of the learner: {outcome.message}."


def what_was_raised(exercise: Exercise, outcome: Outcome, length: int = 2 * MESSAGE_LIMIT) -> str:
    """A phrase on the learner's exception, of about `length` characters at most: a longer message is cut."""
    if outcome.error == "KeyboardInterrupt":
        return f"`{exercise.name}` was interrupted before it finished"
    what = f"`{exercise.name}` raised {shorten_text(outcome.error, 60)}: "
    return what + shorten_text(outcome.message, max(40, length - len(what)))
