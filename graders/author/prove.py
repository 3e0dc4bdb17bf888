"""`hookwork build --check`: proves that the course is consistent. Each function returns the problems as sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from graders.author.answers import Answer, Answers, answers_to, imports_of, run_answer, unfounded_quotes
from graders.author.build import run_with_asserts, stale_notebooks
from graders.author.lesson import lesson_notebook, source_cells
from graders.author.places import exercise_files, find_todos
from graders.author.predictions import NO_GUESS, questions_without_guess
from graders.author.prove_programs import unshown_programs
from graders.author.prove_scenes import contract_problems, draws_by_seed, seed_independent_cases, unrecognised_mistakes
from graders.author.workers import WHOLE, Part, worker_pool
from graders.core import course
from graders.core.exercise import Exercise, Inputs
from graders.core.results import ExerciseResult, Status
from graders.core.source import SourceError, make_stub
from graders.core.transcript import read_transcript
from graders.marking.in_process import check_namespace
from graders.marking.jobs import default_jobs
from graders.marking.questions import LessonQuestions
from graders.sandbox.outside.boxes import prestarted_boxes
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import Runner
from graders.verdict.judge_submission import judge_submission
from graders.verdict.scene_exercise import NotInTheBox, SceneExercise, find_scene_exercise

PARTS = 5
"""Jobs into which the proof of one exercise is split."""


def prove_lessons(
    lessons: tuple[str, ...], report: Callable[[str], None], seeds: Sequence[int] = range(20), part: Part = WHOLE
) -> Iterator[str]:
    """Yield every problem of these lessons as it is found; `report` gets a line for each finished part.

    Solutions must pass, and wrong answers must fail, on each of `seeds`. A lesson with TODOs left is not proved. Of the
    programs that show why an answer is refused, this `part` runs.
    """
    yield from unique_names()
    for lesson in lessons:
        yield from find_todos(lesson)
    lessons = tuple(lesson for lesson in lessons if not any(find_todos(lesson)))
    if not lessons:
        return
    with worker_pool(__name__) as pool:
        # A slow exercise is shared among the cores. Each part reads the answers, so parts without seeds would be waste.
        seeds_of_jobs = [seeds[start::PARTS] for start in range(min(PARTS, len(seeds)))]
        work = {}
        for lesson in lessons:
            keys = course.exercise_keys(lesson)
            jobs = [pool.submit(prove_exercise, key, some, part) for key in keys for some in seeds_of_jobs]
            work[lesson] = [pool.submit(prove_notebooks, lesson), *jobs]
        for lesson, jobs in work.items():
            yield from once_each(problem for job in jobs for problem in job.result())
            report(f"{lesson}: notebooks as built, {len(course.exercise_keys(lesson))} exercises on {len(seeds)} seeds")
    yield from lesson_run_problems(lessons)
    report("every lesson run from top to bottom and marked")


def once_each(problems: Iterable[str]) -> Iterable[str]:
    """The problems without those that only tell the same of another seed, or with another program."""
    found: dict[str, str] = {}
    for problem in problems:
        found.setdefault(re.sub(r", seed \d+", "", problem.partition("\n")[0]), problem)
    return found.values()


def prove_notebooks(lesson: str) -> list[str]:
    """The problems of a lesson's notebooks."""
    try:
        return [*stale_notebooks(lesson), *without_guess(lesson, course.lesson_source(lesson))]
    except SourceError as error:
        return [str(error)]


def without_guess(lesson: str, source: str) -> list[str]:
    """A problem for each question of a lesson that has neither a guess nor a reason for having none."""
    return [
        f"solutions/{lesson}.py: no guess follows the question {question!r}: write one, or say why not, as in "
        f'# %% [markdown] {NO_GUESS}="a matter of taste"'
        for question in questions_without_guess(source_cells(source))
    ]


def prove_exercise(key: str, seeds: Sequence[int], part: Part = WHOLE) -> list[str]:
    """What an exercise lacks, and which of its answers are not marked as they should be on each of `seeds`.

    Of the programs that show why an answer is refused, this `part` runs, on the first of them.
    """
    torch.set_num_threads(1)  # so that this process can be forked
    exercise = find_scene_exercise(key)
    try:
        answers = answers_to(exercise)
    except SourceError as error:
        return [*missing_parts(exercise), str(error)]
    draws = draws_by_seed(exercise, seeds)
    return [
        *missing_parts(exercise),
        *missing_answers(exercise, answers),
        *stub_problems(exercise, next(iter(draws.values()))),
        *unrecognised_mistakes(exercise, draws),  # what the mistakes show is kept for the answers
        *wrong_outcomes(exercise, answers.every, draws),
        *seed_independent_cases(exercise, draws),
        *unshown_programs(exercise, answers.every, next(iter(draws.values())), part),
    ]


def unique_names() -> list[str]:
    """Problems with keys, function names and titles that are used more than once in the course."""
    every = course.every_exercise()
    found = []
    for what, values in (
        ("key", [*(exercise.key for exercise in every), *course.all_prediction_keys()]),
        ("function", [exercise.name for exercise in every]),
        ("title", [exercise.title for exercise in every]),
    ):
        found += [f"the {what} {value!r} is used twice" for value, count in Counter(values).items() if count > 1]
    return found


def missing_parts(exercise: SceneExercise) -> Iterator[str]:
    """What an exercise still needs before learners can use it."""
    if not exercise.title.strip():
        yield f"{exercise.key} has no title"
    if len(exercise.hints) < 2:
        yield f"{exercise.key} has fewer than two hints"
    if not exercise.minutes or not exercise.difficulty:
        yield f"{exercise.key} does not say how long it takes and how hard it is: minutes=10, difficulty=1"
    if exercise.why and not (len(re.findall(r"[.?!](?:\s|$)", exercise.why)) >= 2 and len(exercise.why) <= 400):
        yield f"{exercise.key}: its why has two sentences or more (why this way, what else would work), 400 characters"
    if len(exercise.contract) < 80 or "**Example" not in exercise.contract:
        yield f"{exercise.key} has no contract with an example in its docstring"
    if exercise.key[:2] != exercise.lesson[:2]:
        yield f"{exercise.key} is in the grader of lesson {exercise.lesson[:2]}"
    if exercise.file.name != exercise_files(exercise.key, exercise.lesson).grader.name:
        yield f"{exercise.key} is in {exercise.file.name}: call the file test_{course.key_file_stem(exercise.key)}.py"
    yield from contract_problems(exercise)
    for mistake in exercise.mistakes:
        if len(mistake.message) > 300:
            yield f"{exercise.key}, {mistake.id}: the message has {len(mistake.message)} characters, more than 300"


def missing_answers(exercise: Exercise, answers: Answers) -> Iterator[str]:
    """What is missing in the answers to an exercise, and which quote something that does not exist. None is run."""
    if len(answers.right) < 2:
        yield f"{exercise.key}: tests/answers has no right answer in another style"
    yield from unfounded_quotes(exercise, answers)


def stub_problems(exercise: Exercise, draws: list[Inputs]) -> Iterator[str]:
    """A problem if the cell that learners get is marked as anything but not attempted."""
    source = course.lesson_source(exercise.lesson)
    solved = next(cell.source for cell in source_cells(source) if cell.metadata.get("exercise") == exercise.key)
    result = mark_source(exercise, f"{imports_of(source)}\n{make_stub(solved)}", 0, draws)
    if result.status is not Status.NOT_ATTEMPTED:
        yield f"{exercise.key}: the cell that learners get counts as {result.status.value}: {result.message}"


def wrong_outcomes(exercise: Exercise, answers: Sequence[Answer], draws: Mapping[int, list[Inputs]]) -> Iterator[str]:
    """One problem for each right answer that fails and each wrong answer that passes or is not recognised.

    `draws` holds the draws of each seed.
    """
    left = list(answers)
    for seed, drawn in draws.items():
        for answer in tuple(left):
            if problem := _answer_problem(exercise, answer, seed, drawn):
                left.remove(answer)
                yield f"{exercise.key}, seed {seed}: {answer.what} {problem}"


def _answer_problem(exercise: Exercise, answer: Answer, seed: int, draws: list[Inputs]) -> str:
    """What is wrong with the result of this answer; "" if it is as it should be.

    A wrong answer that need not be recognised is tried on one draw after another until the named check refuses it.
    """
    if not answer.passes and answer.mistake is None:
        namespace = run_answer(answer.source)
        results = (check_namespace(exercise, namespace, seed, draws=[draw], with_program=False) for draw in draws)
        if not all(map(answer.problem_with, results)):
            return ""
    return answer.problem_with(mark_source(exercise, answer.source, seed, draws))


def mark_source(exercise: Exercise, source: str, seed: int, draws: list[Inputs] | None = None) -> ExerciseResult:
    """Mark an answer, given as the text of its cell, in this process. `draws` are those of `seed` if None.

    The program that shows why it is refused is proved elsewhere, and not told here.
    """
    return check_namespace(exercise, run_answer(source), seed, draws=draws, with_program=False)


def lesson_run_problems(lessons: tuple[str, ...]) -> list[str]:
    """The problems of these lessons when they are run from top to bottom and marked."""
    with prestarted_boxes(now=True) as boxes, ThreadPoolExecutor(default_jobs()) as pool:
        runner = boxes.runner(RunOptions(isolation="D", own_work=True))
        jobs = [pool.submit(solution_problems, lesson) for lesson in lessons]
        jobs += [pool.submit(box_problems, lesson, runner) for lesson in lessons]
        return [problem for job in jobs for problem in job.result()]


def solution_problems(lesson: str) -> list[str]:
    """What stops the solved notebook, with its asserts, in an ordinary kernel.

    Without the asserts, as readers have it, it runs in a box (`box_problems`).
    """
    try:
        run_with_asserts(lesson)
    except SourceError as error:
        return [str(error)]
    return []


def box_problems(lesson: str, runner: Runner) -> list[str]:
    """Cells of the solution that fail in a box, and exercises that are not passed there."""
    try:
        asked = LessonQuestions.for_seed(course.lesson_exercises(lesson), seed=0)
    except NotInTheBox:
        return []  # reported already by `prove_exercise`
    cells = [cell.source for cell in lesson_notebook(lesson, solved=True).cells if cell.cell_type == "code"]
    run = read_transcript(runner.run(cells, asked.probes).frames)
    return [
        *(f"solutions/{lesson}.py: {cell.message}" for cell in run.cells if cell.status != "ok"),
        *(
            f"{result.key} is {result.status.value} in a box: {result.message}"
            for result in judge_submission(asked.exercises, asked.verdicts, cells, run)
            if result.status is not Status.PASSED
        ),
    ]
