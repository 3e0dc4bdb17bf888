"""`hookwork build --mutate`: marks every mutant in a child process, and reports those that the graders let pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from graders.author.answers import Answers, answers_to, run_answer
from graders.author.in_child import run_in_child
from graders.author.mutate.mutants import Mutant, operator_mutants, wrapper_mutants
from graders.author.places import is_meant
from graders.author.prove import mark_source
from graders.author.workers import WHOLE, Part, worker_pool
from graders.core import course
from graders.core.exercise import Exercise, Inputs
from graders.marking.in_process import is_right_answer
from graders.marking.jobs import default_jobs

SEED = 4
"""One seed is enough: every marking covers all that the contract promises."""
PASSED, IDLE, REFUSED = "passed", "idle", "refused"


@dataclass
class Score:
    """How many mutants of one exercise were refused, passed as listed, or did nothing; and those that survived.

    `needed` are the entries of `SURVIVORS` that list one of them.
    """

    key: str
    refused: int = 0
    listed: int = 0
    idle: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        """One line, with the share of wrong mutants that were refused, in percent."""
        wrong = self.refused + len(self.survivors)
        percent = 100 * self.refused / wrong if wrong else 100.0
        return (
            f"{self.key}: {percent:.1f} % ({self.refused} of {wrong} mutants refused; {self.listed} more are "
            f"listed as right, and {self.idle} did nothing wrong here)"
        )

    def __add__(self, other: Score) -> Score:
        """The sum of the scores of two parts of the mutants."""
        return Score(
            key=self.key,
            refused=self.refused + other.refused,
            listed=self.listed + other.listed,
            idle=self.idle + other.idle,
            survivors=self.survivors + other.survivors,
            needed=self.needed | other.needed,
        )


def choose_keys(names: Sequence[str]) -> list[str]:
    """The keys that begin with one of these names, or belong to a lesson that is meant; without names, all keys.

    Raises `UnknownLesson` when there are none.
    """
    every = [(lesson, key) for lesson in course.lesson_stems() for key in course.exercise_keys(lesson)]
    found = [
        key
        for lesson, key in every
        if not names or any(is_meant(lesson, name) or ("-" in name and key.startswith(name)) for name in names)
    ]
    if not found:
        raise course.UnknownLesson(f"There is no lesson and no key {' or '.join(names)}")
    return found


def score_exercises(keys: Sequence[str], part: Part, report: Callable[[str], None]) -> Iterator[str]:
    """Yield each survivor, as a headline and a diff; `report` gets the score of each exercise.

    A part (K, N) marks every N-th mutant, beginning with number K. The whole, (0, 1), also yields what is listed as
    right although no mutant needs it.
    """
    jobs = default_jobs()
    with worker_pool(__name__) as pool:
        shares = [(part[0] + part[1] * job, part[1] * jobs) for job in range(jobs)]
        work = {key: [pool.submit(score_exercise, key, share) for share in shares] for key in keys}
        for key, parts in work.items():
            found = sum((job.result() for job in parts), Score(key))
            report(str(found))
            for mutant in found.survivors:
                yield f"{key} lets pass: {mutant.headline}\n{mutant.diff}\n"
            if part == WHOLE:
                for entry in sorted(answers_to(course.find_exercise(key)).survivors.keys() - found.needed):
                    yield f"{key} lists as right what no mutant shows: {entry}"


def score_exercise(key: str, part: Part = WHOLE) -> Score:
    """Mark a part of the mutants of an exercise: (K, N) are every N-th of them, from the K-th, counted from 0."""
    torch.set_num_threads(1)  # so that this process can be forked
    exercise = course.find_exercise(key)
    answers = answers_to(exercise)
    found, draws = Score(key), exercise.draws(SEED)
    mark_source(exercise, answers.right[0].source, SEED, draws)  # imports what each child would: 1.5 s
    for mutant in every_mutant(exercise, answers)[part[0] :: part[1]]:
        verdict = mutant_verdict(exercise, mutant.source, draws)
        if verdict == REFUSED:
            found.refused += 1
        elif verdict == IDLE and mutant.may_be_idle:
            found.idle += 1
        elif listings := answers.listings(mutant.headline):
            found.listed += 1
            found.needed.update(listings)
        else:
            found.survivors.append(mutant)
    return found


def every_mutant(exercise: Exercise, answers: Answers) -> list[Mutant]:
    """The solution in each of `WRAPPERS`, and each right answer with one thing changed, without duplicates."""
    found = {mutant.source: mutant for mutant in wrapper_mutants(answers.right[0].source, exercise.name)}
    for answer in answers.right:
        found |= {mutant.source: mutant for mutant in operator_mutants(answer.source)}
    return list(found.values())


def mutant_verdict(exercise: Exercise, source: str, draws: list[Inputs]) -> str:
    """`PASSED`, `IDLE` or `REFUSED` for the source of an answer, found out in a child process.

    An answer that raises or takes too long is refused. Most mutants are refused on the first draw.
    """

    def mark() -> str:
        namespace = run_answer(source)
        if not all(is_right_answer(exercise, namespace, SEED, [draw]) for draw in draws):
            return REFUSED
        return PASSED if namespace["_did"] else IDLE

    return run_in_child(mark) or REFUSED
