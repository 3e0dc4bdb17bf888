"""`hookwork build --ablate`: finds what an exercise could do without.

An observation of a scene is needed when some wrong program shows itself in no other one. A set of observations that can
all go is named, beginning with those in which the fewest programs show themselves. A wrong answer in `tests/answers` is
needed unless some mistake or mutant shows itself in nothing but observations in which the answer shows itself as well:
then whatever refuses that one refuses the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from graders.author.answers import answers_to, run_answer
from graders.author.in_child import run_in_child
from graders.author.mutate.score import every_mutant
from graders.author.workers import WHOLE, Part, worker_pool
from graders.core.exercise import Inputs
from graders.marking.in_process import probe_outcomes
from graders.scenes.scene import EXAMPLE
from graders.verdict.explaining import NOTHING_DONE
from graders.verdict.implementations import Implementation
from graders.verdict.scene_exercise import SceneExercise, find_scene_exercise
from graders.verdict.telling import observations_of

SEEDS = (4, 5)
Observations = frozenset[str]
"""The observations in which a wrong program shows itself, each as "section: name"."""


@dataclass(frozen=True)
class AblatedExercise:
    """Where the wrong programs of one exercise show themselves."""

    stories: str
    """The name of the file of its stories, which several exercises may share."""
    observations: tuple[str, ...]
    programs: tuple[Observations, ...]
    unneeded: tuple[str, ...]
    """Wrong answers that could go."""


def ablate_exercises(keys: Sequence[str], part: Part, report: Callable[[str], None]) -> Iterator[str]:
    """Yield sentences on what the exercises with these keys could do without; `report` gets a line for each key.

    A part (K, N) tries every N-th mutant, beginning with number K: what is named then may be needed for another one.

    An observation belongs to a file of stories, and is needed if one of the exercises that share it needs it.
    """
    by_file: dict[str, list[AblatedExercise]] = {}
    with worker_pool(__name__) as pool:
        for key, job in [(key, pool.submit(ablate_exercise, key, part)) for key in keys]:
            tried = job.result()
            report(f"{key}: {len(tried.programs)} wrong programs tried")
            by_file.setdefault(tried.stories, []).append(tried)
            yield from (f"{key}: {what} shows nothing that a mistake or a mutant does not" for what in tried.unneeded)
    for file, members in by_file.items():
        observations = list(dict.fromkeys(name for tried in members for name in tried.observations))
        for name in superfluous_observations(observations, [shown for tried in members for shown in tried.programs]):
            yield f"{file}: no wrong program shows itself in this observation alone: {name}"


def ablate_exercise(key: str, part: Part = WHOLE) -> AblatedExercise:
    """Find out where the wrong programs of an exercise show themselves."""
    torch.set_num_threads(1)  # so that this process can be forked
    exercise = find_scene_exercise(key)
    answers = answers_to(exercise)
    draws = {seed: exercise.draws(seed) for seed in SEEDS}
    comparison = exercise.comparison
    # Computed once here, and not again in each child.
    expected = [
        comparison.outcome(None, one, draw).seen for draw in chain(*draws.values()) for one in comparison.references
    ]
    programs = comparison.stage.programs[comparison.mistakes.start :]
    mistakes = [_revealing_observations(exercise, one, draws) for one in programs if one is not NOTHING_DONE]
    tried = every_mutant(exercise, answers)[part[0] :: part[1]]
    mutants = [_revealing_observations(exercise, mutant.source, draws) for mutant in tried]
    wrong = {one.what: _revealing_observations(exercise, one.source, draws) for one in answers.every if not one.passes}
    known = [shown for shown in (*mistakes, *mutants) if shown]  # a mutant that is right shows itself nowhere
    sections = [(section, shown[section]) for shown in expected if shown for section in shown.keys]
    seen = [(section, name) for section, values in sections if section != EXAMPLE for name in values.keys]
    return AblatedExercise(
        stories=exercise.scene.stories[0][1].__module__.rpartition(".")[2],
        observations=tuple(dict.fromkeys(_observation_name(exercise, f"{section}: {name}") for section, name in seen)),
        programs=(*known, *filter(None, wrong.values())),
        unneeded=tuple(unneeded_answers(wrong, known)),
    )


def superfluous_observations(observations: Sequence[str], programs: Sequence[Observations]) -> list[str]:
    """Observations that can all go while every program still shows itself in one that stays."""
    count = {name: sum(name in shown for shown in programs) for name in observations}
    gone: set[str] = set()
    for name in sorted(observations, key=count.__getitem__):
        if all(shown - gone - {name} for shown in programs if name in shown):
            gone.add(name)
    return [name for name in observations if name in gone]


def unneeded_answers(wrong: Mapping[str, Observations], known: Sequence[Observations]) -> list[str]:
    """Wrong answers that are refused by whatever refuses a certain one of the known programs."""
    return [what for what, shown in wrong.items() if shown and any(other <= shown for other in known)]


def _revealing_observations(
    exercise: SceneExercise, program: Implementation | str, draws: Mapping[int, list[Inputs]]
) -> Observations:
    """The observations in which a wrong program, or the source of one, shows itself."""

    def look() -> list[str]:
        found: set[str] = set()
        try:
            namespace = (
                {exercise.name: program.function} if isinstance(program, Implementation) else run_answer(program)
            )
            for seed, drawn in draws.items():
                for draw in drawn:
                    (outcome,) = probe_outcomes(exercise, namespace, seed, [draw])
                    if outcome.seen is None:
                        found.add(f"it ends with {outcome.error or outcome.status}")
                    else:
                        found |= {
                            _observation_name(exercise, path)
                            for section in exercise.comparison.sections
                            for path in exercise.comparison.differences(outcome.seen, draw, section)
                        }
        except Exception as error:
            found.add(f"it ends with {type(error).__name__}")
        return sorted(found)

    found = run_in_child(look)
    return frozenset(["it comes to no end"] if found is None else found)


def _observation_name(exercise: SceneExercise, path: str) -> str:
    """The observation that a path such as "the gradient is scaled: x.grad[2]" leads to.

    It begins with the name of the story, or with the section if that is the example.
    """
    section, _, inner = path.partition(": ")
    name = inner.partition("[")[0].partition(": ")[0]
    own = {
        (promise, shown): story.__name__
        for promise, story in exercise.scene.stories
        for shown in observations_of(story)
    }
    return f"{own.get((section, name), section)}: {name}"
