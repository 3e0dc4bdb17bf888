"""A check of `hookwork build --check`: the program that each wrong answer gets shows what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from graders.author.answers import Answer, run_answer
from graders.author.in_child import run_in_child
from graders.author.workers import WHOLE, Part
from graders.core.exercise import Inputs
from graders.core.shown import MISSING
from graders.core.transcript import Outcome
from graders.marking.in_process import probe_outcomes
from graders.verdict.explaining import NOTHING_DONE, keeps_something, mistake_outcomes
from graders.verdict.implementations import Implementation
from graders.verdict.printed import short_texts
from graders.verdict.reducing import alike, shown_by
from graders.verdict.refusing import Refusal
from graders.verdict.scene_exercise import SceneExercise
from graders.verdict.telling_in_child import SAME_WORDS

_LEFT_OUT = (
    "\nIs a line of the story missing above? One whose value is not shown is left out; a call that has to stay stands "
    "alone: `model(x)`, not `y = model(x)`"
)


def unshown_programs(
    exercise: SceneExercise, answers: Sequence[Answer], draws: list[Inputs], part: Part = WHOLE
) -> Iterator[str]:
    """A problem for each program that is missing or does not show what it says.

    Every mistake and every wrong answer of this `part` is marked on these draws, and its program runs after it and
    after a right one. Left out are answers that give a reason why no program shows what is wrong with them.
    """
    comparison = exercise.comparison
    programs = comparison.stage.programs
    right = {exercise.name: programs[0].function}
    checks: dict[str, Callable[[], str]] = {}
    with comparison.stage.open() as play:
        for index in comparison.mistakes:
            one = programs[index]
            if one is not NOTHING_DONE:
                every = () if keeps_something(one) else mistake_outcomes(comparison, play, index, draws)
                shown = list(takewhile(lambda outcome: outcome.seen is not None, every))
                make = partial(_namespace, exercise.name, one)
                checks[f"the mistake {one.function.__name__}"] = partial(
                    _problem_with, exercise, draws, make, right, one.id, shown
                )
    for answer in answers:
        if not (answer.passes or answer.unshown):
            run = partial(run_answer, answer.source)
            checks[answer.what] = partial(_problem_with, exercise, draws, run, right, answer.mistake)
    for what, check in list(checks.items())[part[0] :: part[1]]:
        if problem := run_in_child(check):
            yield f"{exercise.key}: {what} {problem}"
        elif problem is None:
            yield f"{exercise.key}: {what} ends its child"


def _namespace(name: str, program: Implementation) -> Mapping[str, Any]:
    return {name: program.fresh_copy().function}


def _problem_with(
    exercise: SceneExercise,
    draws: list[Inputs],
    make: Callable[[], Mapping[str, Any]],
    right: Mapping[str, Any],
    mistake: str | None,
    shown: Sequence[Outcome] = (),
) -> str:
    """What is wrong with the program of an answer, which `make` defines; "" if it shows what it says.

    `mistake` is the one as which it is recognised, if that is known. `shown` is what the answer showed on the first of
    these draws; unless that is known of all, it is asked anew.
    """
    if len(shown) < len(draws):
        shown = probe_outcomes(exercise, make(), 0, draws)
    namespace = make()
    ask = lambda draw: probe_outcomes(exercise, namespace, 0, [draw])[0]  # noqa: E731 - as a notebook asks
    refusal = exercise.refusal(draws, shown, [mistake] if mistake else [], ask)
    if refusal is None:
        return "is not told in a program"
    return program_problem(refusal, make(), right)


def program_problem(refusal: Refusal, wrong: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    """How what a program shows after a wrong and after a right answer is not what it says; "" if it is."""
    (by_wrong, error), (by_right, trouble) = (shown_by(refusal.program, names) for names in (wrong, right))
    told = f"has a program that does not show it:\n{refusal.program}"
    if trouble:
        return f"{told}after a right answer it ends with {trouble}"
    if refusal.error or error:
        same = _first_words(error) == _first_words(refusal.error)
        return "" if same else f"{told}it ends with {error or 'nothing'}"
    if refusal.expected is not MISSING and not alike(by_right, refusal.expected):
        return f"{told}after a right answer it shows {by_right}"
    if refusal.seen is not MISSING and not alike(by_wrong, refusal.seen):
        return f"{told}it shows {by_wrong}{_LEFT_OUT}"
    # Some answers are wrong in digits that only float64 has.
    fine = refusal.seen is not MISSING and alike(refusal.seen, refusal.expected)
    same = short_texts(by_right, by_wrong) is None if fine else alike(by_wrong, by_right)
    return f"{told}it shows the same after a right answer" if same else ""


def _first_words(text: str) -> str:
    return " ".join(text.split())[:SAME_WORDS]
