"""Checks of `hookwork build --check` that need the scene of an exercise."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from graders.core.contract import FINE_PRINT_WORDS, TASK_WORDS, count_words
from graders.core.exercise import Inputs
from graders.core.results import Status
from graders.differential.exercise import NotInTheBox, SceneExercise
from graders.differential.explaining import NOTHING_DONE
from graders.notebook.commands import check_namespace


def contract_problems(exercise: SceneExercise) -> Iterator[str]:
    """What is wrong with the contract of an exercise, or with the options that it gives its scene."""
    written = exercise.written
    for what, text, most in (
        ("task", written.task, TASK_WORDS),
        ("fine print", written.fine_print, FINE_PRINT_WORDS),
    ):
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
    """One problem for each wrong program that passes, or is taken for another mistake than its own."""
    left = list(exercise.subject.stage.players[exercise.subject.mistakes.start :])
    for seed, drawn in draws.items():
        for program in [program for program in left if program is not NOTHING_DONE]:
            result = check_namespace(exercise, {exercise.name: program.fresh_copy().function}, seed, draws=drawn)
            problem = ""
            if result.status is Status.PASSED:
                problem = "passes"
            elif result.mistake != program.id:
                problem = f"is taken for {result.mistake}: {result.message}"
            if problem:
                left.remove(program)
                yield f"{exercise.key}, seed {seed}: the mistake {program.function.__name__} {problem}"


def seed_independent_cases(exercise: SceneExercise, draws: Mapping[int, list[Inputs]]) -> Iterator[str]:
    """A problem if in some case a right answer shows the same for two successive seeds: it could be hard-coded then."""
    subject = exercise.subject
    for one, other in itertools.pairwise(draws):
        for index, (draw, next_draw) in enumerate(zip(draws[one], draws[other])):
            shown = subject.outcome(None, 0, next_draw).seen
            if shown is not None and not subject.differences(shown, draw):
                yield f"{exercise.key}, case {index}: a right answer shows the same for the seeds {one} and {other}"
                return
