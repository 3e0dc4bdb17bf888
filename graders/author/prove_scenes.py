"""Checks of `hookwork build --check` that need the scene of an exercise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from graders.core.exercise import Inputs
from graders.core.results import Status
from graders.core.transcript import Outcome
from graders.marking.in_process import probe_outcomes
from graders.verdict.contract import FINE_PRINT_WORDS, TASK_WORDS, count_words
from graders.verdict.explaining import NOTHING_DONE, keeps_something, mistake_outcomes
from graders.verdict.judge_exercise import judge_exercise
from graders.verdict.scene_exercise import NotInTheBox, SceneExercise


def contract_problems(exercise: SceneExercise) -> Iterator[str]:
    """What is wrong with the contract of an exercise, or with the options that it gives its scene."""
    written = exercise.contract_source
    for what, text, most in (("task", written.task, TASK_WORDS), ("fine print", written.fine_print, FINE_PRINT_WORDS)):
        if (count := count_words(text)) > most:
            yield f"{exercise.key}: its {what} has {count} words, more than {most}"
    if not any(step.shows for step in written.example):
        yield f"{exercise.key}: its example shows nothing: it needs lines after >>>, and what comes out"
    try:
        _ = exercise.box_source
    except NotInTheBox as error:
        yield f"{exercise.key}: {error}"


def draws_by_seed(exercise: SceneExercise, seeds: Iterable[int]) -> dict[int, list[Inputs]]:
    """The draws of an exercise for each seed. Drawing them takes as long as marking three answers, so share them."""
    return {seed: exercise.draws(seed) for seed in seeds}


def unrecognised_mistakes(exercise: SceneExercise, draws: Mapping[int, list[Inputs]]) -> Iterator[str]:
    """One problem for each wrong program that passes, or is taken for another mistake than its own.

    A program is marked by what it showed in its part as a mistake, and on one draw of each seed, every time another
    one, by what it shows as an answer: if that is something else, it is not recognised.
    """
    comparison = exercise.comparison
    left = [mistake for mistake in comparison.mistakes if comparison.stage.programs[mistake] is not NOTHING_DONE]
    for turn, (seed, drawn) in enumerate(draws.items()):
        with comparison.stage.open() as play:  # one for all: opening takes longer than most programs
            shown = {mistake: _until_it_ends(mistake_outcomes(comparison, play, mistake, drawn)) for mistake in left}
        for mistake, outcomes in shown.items():
            program = comparison.stage.programs[mistake]
            namespace = {exercise.name: program.fresh_copy().function}
            again = (turn + mistake) % len(outcomes)
            if keeps_something(program):  # then it has to see all draws, one after the other
                outcomes = probe_outcomes(exercise, namespace, seed, drawn)
            else:
                (outcomes[again],) = probe_outcomes(exercise, namespace, seed, [drawn[again]])
                outcomes += outcomes[-1:] * (len(drawn) - len(outcomes))  # as it stands for the rest in any run
            result = judge_exercise(exercise, drawn, outcomes, with_program=False)
            problem = ""
            if result.status is Status.PASSED:
                problem = "passes"
            elif result.mistake != program.id:
                problem = f"is taken for {result.mistake}: {result.message}"
            if problem:
                left.remove(mistake)
                yield f"{exercise.key}, seed {seed}: the mistake {program.function.__name__} {problem}"


def _until_it_ends(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes up to the first that shows nothing, such as an exception."""
    found: list[Outcome] = []
    for outcome in outcomes:
        found.append(outcome)
        if outcome.seen is None:
            break
    return found


def seed_independent_cases(exercise: SceneExercise, draws: Mapping[int, list[Inputs]]) -> Iterator[str]:
    """A problem if in some case a right answer shows the same for all seeds: it could be hard-coded then.

    Two seeds may show the same by chance, where little is drawn.
    """
    comparison = exercise.comparison
    if exercise.planted.axes:  # what is planted decides what is right, and each case has another fault
        return
    for index, (first, *others) in enumerate(zip(*draws.values())):
        shown = [comparison.outcome(None, 0, draw).seen for draw in others]
        if shown and not any(
            seen is None or comparison.differences(seen, first, section)
            for seen in shown
            for section in comparison.sections
        ):
            yield f"{exercise.key}: a right answer shows the same for every seed in case {index}, {first['case']}"
            return
