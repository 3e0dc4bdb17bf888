"""`hookwork build --check`: the course proves itself. Each function returns what is wrong, in sentences."""

from __future__ import annotations

import ast
import importlib.util
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from graders.author.build import execute, stale
from graders.author.lesson import notebook
from graders.box.limits import Limits
from graders.core import course
from graders.core.exercise import Exercise
from graders.core.results import ExerciseResult, Status
from graders.core.source import SourceError, exercise_cells
from graders.judge.submission import judge
from graders.marking import default_jobs, kit_folder
from graders.notebook.commands import check_in
from graders.run.conversation import probes_for, run_notebook
from graders.run.transcript import read_transcript

SEEDS = range(20)
"""Seeds on which solutions have to pass and wrong answers have to fail."""


def prove(lessons: tuple[str, ...], report: Callable[[str], None]) -> list[str]:
    """All that is wrong with these lessons; `report` is told what is being proved."""
    problems = unique_names()
    context = multiprocessing.get_context("spawn")  # a process that has used torch is not forked
    with ProcessPoolExecutor(default_jobs(), mp_context=context) as pool:
        for lesson, found in zip(lessons, pool.map(prove_lesson, lessons)):
            report(f"{lesson}: notebooks, exercises, answers")
            problems += found
    report("every lesson from top to bottom")
    problems += lessons_run(lessons)
    return problems


def prove_lesson(lesson: str) -> list[str]:
    """What is wrong with a lesson's notebooks, exercises and answers."""
    try:
        problems = stale(lesson)
        problems += [problem for exercise in course.exercises(lesson) for problem in well_formed(exercise)]
        problems += answers_come_out_right(lesson)
    except SourceError as error:
        return [str(error)]
    return problems


def unique_names() -> list[str]:
    """Keys, names of functions and titles that are used twice."""
    every = course.every_exercise()
    found = []
    for what, values in (
        ("key", [one.key for one in every]),
        ("function", [one.name for one in every]),
        ("title", [one.title for one in every]),
    ):
        found += [f"the {what} {value!r} is used twice" for value, count in Counter(values).items() if count > 1]
    return found


def well_formed(exercise: Exercise) -> Iterator[str]:
    """What an exercise lacks for a learner."""
    if not exercise.title.strip():
        yield f"{exercise.key} has no title"
    if len(exercise.hints) < 2:
        yield f"{exercise.key} has fewer than two hints"
    if len(exercise.contract) < 80 or "**Example" not in exercise.contract:
        yield f"{exercise.key} has no contract with an example in its docstring"
    if exercise.key[:2] != exercise.lesson[:2]:
        yield f"{exercise.key} is in the grader of lesson {exercise.lesson[:2]}"
    for mistake in exercise.mistakes:
        if len(mistake.message) > 300:
            yield f"{exercise.key}, {mistake.id}: the message has {len(mistake.message)} characters, more than 300"


def answers_come_out_right(lesson: str, seeds: Iterable[int] = SEEDS) -> Iterator[str]:
    """Solutions and other right answers pass, wrong answers fail and are recognised, on many seeds."""
    source = (course.solutions_folder() / f"{lesson}.py").read_text(encoding="utf-8")
    solved, imports = exercise_cells(source), imports_of(source)
    answers = _answers(lesson)
    for exercise in course.exercises(lesson):
        key = exercise.key
        right, wrong = answers.RIGHT.get(key, []), answers.WRONG.get(key, {})
        yield from _passes(exercise, "the solution", f"{imports}\n{solved[key]}", seeds)
        for number, source in enumerate(right, 1):
            yield from _passes(exercise, f"right answer {number}", source, seeds)
        if not right:
            yield f"{key}: tests/answers has no right answer in another style"
        for name in sorted({mistake.id for mistake in exercise.mistakes} - wrong.keys()):
            yield f"{key}: tests/answers has no wrong answer for the mistake {name}"
        for name, source in wrong.items():
            yield from _fails(exercise, f"the wrong answer for {name}", source, name, seeds)
        for number, source in enumerate(answers.ALSO_WRONG.get(key, []), 1):
            yield from _fails(exercise, f"the other wrong answer {number}", source, None, seeds)


def _passes(exercise: Exercise, what: str, source: str, seeds: Iterable[int] = SEEDS) -> Iterator[str]:
    for seed in seeds:
        result = mark_source(exercise, source, seed)
        if result.status is not Status.PASSED:
            first = next((check.message for check in result.checks if not check.passed), result.message)
            yield f"{exercise.key}: {what} is {result.status.value} with seed {seed}: {first}"
            return


def _fails(
    exercise: Exercise, what: str, source: str, mistake: str | None, seeds: Iterable[int] = SEEDS
) -> Iterator[str]:
    """An answer has to fail on every seed, and one for a mistake has to be recognised as that and no other."""
    for seed in seeds:
        result = mark_source(exercise, source, seed)
        if result.status is Status.PASSED:
            yield f"{exercise.key}: {what} passes with seed {seed}"
            return
        if mistake is not None and result.mistake != mistake:
            yield f"{exercise.key}: {what} is taken for {result.mistake} with seed {seed}: {result.message}"
            return


def imports_of(source: str) -> str:
    """The import statements of a lesson, which its exercise cells may rely on."""
    statements = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(ast.unparse(statement) for statement in statements)


def mark_source(exercise: Exercise, source: str, seed: int) -> ExerciseResult:
    """The result of an answer, given as the text of its cell, in this process."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, f"<{exercise.key}>", "exec"), namespace)
    return check_in(exercise, namespace, seed)


def _answers(lesson: str) -> ModuleType:
    """The module `tests/answers/lesson_NN.py` of a clone."""
    file = course.PACKAGE.parent / "tests" / "answers" / f"lesson_{lesson[:2]}.py"
    if not file.exists():
        raise SourceError(f"{file} is missing: it holds a wrong answer for each mistake of lesson {lesson[:2]}")
    return load(file)


def load(file: Path) -> ModuleType:
    """A Python file as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"answers_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise SourceError(f"{file} cannot be imported")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lessons_run(lessons: tuple[str, ...]) -> list[str]:
    """Every solution runs through and gets full marks in a box; every learner's notebook is not attempted."""
    with ThreadPoolExecutor(2) as pool, kit_folder() as kit:
        jobs = [pool.submit(_runs, lesson, kit) for lesson in lessons]
        return [problem for job in jobs for problem in job.result()]


def _runs(lesson: str, kit: Path) -> list[str]:
    try:
        solved = [cell.source for cell in execute(lesson).cells if cell.cell_type == "code"]
    except SourceError as error:
        return [str(error)]
    exercises = course.exercises(lesson)
    draws = {exercise.key: exercise.draws(0) for exercise in exercises}
    stubs = [cell.source for cell in notebook(lesson, solved=False).cells if cell.cell_type == "code"]
    problems = []
    for cells, wanted in ((solved, Status.PASSED), (stubs, Status.NOT_ATTEMPTED)):
        transcript = run_notebook(cells, probes_for(exercises, draws, 0), Limits(), kit)
        for result in judge(exercises, draws, cells, read_transcript(transcript)):
            if result.status is not wanted:
                problems.append(f"{result.key} is {result.status.value} in a box, not {wanted.value}: {result.message}")
    return problems
