"""The commands of a notebook: `check`, `hint`, `solution`, `replay`, `progress`, `toolbox` and `rules`."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec

from graders.core import course
from graders.core.cells import bound_names
from graders.core.errors import HookworkError
from graders.core.exercise import Exercise
from graders.core.results import ExerciseResult, Status
from graders.core.rules import INTRODUCTION, RULES
from graders.core.seeds import new_seed
from graders.learner.notebook import record, render
from graders.learner.notebook.standing import build_standing
from graders.marking.in_process import mark_answer
from graders.marking.replaying import NoInput, replay_program

P = ParamSpec("P")
_refused: dict[str, list[str]] = {}
"""By key, the programs of the answers that were refused while this kernel has been running."""
LATER = "What is wrong with the model is for you to find. If another answer is refused, you will see the model."


def without_tracebacks(command: Callable[P, None]) -> Callable[P, None]:
    """Show a `HookworkError` of a command as a panel: a typo in a key should not end in a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except HookworkError as error:
            render.show_note(error.message_line())

    return run


@without_tracebacks
def check(key: str, *, more: bool = False) -> None:
    """Check your answer to an exercise on inputs drawn just now, and show what was measured.

    `key` is the exercise's key, for example `"03-scale-grad"`. If your mistake is recognised, the check that shows it
    best comes first and the others are folded away; `more=True` shows them all.
    """
    exercise = course.find_exercise(key)
    is_early = False
    names = _learners_names()
    result, outcomes = mark_answer(exercise, names, new_seed())
    result = with_invalid_cell(exercise, result, names.get("_ih", ()))
    if result.status not in (Status.PASSED, Status.NOT_ATTEMPTED):
        refused = _refused.setdefault(key, [])
        if is_early := bool(result.program) and len(refused) + 1 < exercise.program_after:
            result = replace(result, program="")
        refused.append(result.program)
    with record.edit_record() as notes:
        notes.note(key, result.status)
    after = render.next_steps(exercise, result, len(outcomes), build_standing(course.every_exercise(), notes))
    after += [LATER] if is_early else []
    render.display_panel(render.result_panel(exercise, result, outcomes[-1], after, more=more))
    render.show_note(notes.trouble)


def with_invalid_cell(exercise: Exercise, result: ExerciseResult, inputs: Any) -> ExerciseResult:
    """The result; if only a stub or nothing was found, and an answer that was run is not valid Python, that is said.

    `inputs` are all cells that were run, as IPython keeps them.
    """
    cells = [text for text in inputs if type(text) is str] if type(inputs) is list else []
    answers = [text for text in cells if exercise.name in bound_names(text)]
    if result.status is not Status.NOT_ATTEMPTED or not answers:
        return result
    try:
        ast.parse(answers[-1])
    except SyntaxError as error:
        what = f"{type(error).__name__}: {error.msg} (line {error.lineno})"
    except ValueError as error:  # a null character, before Python 3.12
        what = f"{type(error).__name__}: {error}"
    else:
        return result
    message = f"`{exercise.name}` was not defined, because its cell failed with {what}."
    return replace(result, status=Status.SYNTAX_ERROR, message=message)


@without_tracebacks
def hint(key: str) -> None:
    """Show the next hint for an exercise; after the last one, they start over."""
    exercise = course.find_exercise(key)
    with record.edit_record() as notes:
        given = notes.next_hint(key)
    render.display_panel(render.hint_panel(exercise, given))
    render.show_note(notes.trouble)


@without_tracebacks
def solution(key: str) -> None:
    """Show the worked answer, once your check has passed or you ask a second time."""
    exercise = course.find_exercise(key)
    with record.edit_record() as notes:
        opened = notes.ask_for_solution(key)
    render.display_panel(
        render.solution_panel(exercise, course.worked_answer(exercise)) if opened else render.not_yet_panel(exercise)
    )
    render.show_note(notes.trouble)


@without_tracebacks
def replay(key: str, *, stop: bool = False) -> None:
    """Run the program that your last refused check showed, with your function as it is now.

    With `stop=True`, Python's debugger stops where your function and your hooks begin. Your names stay as they are.
    """
    exercise = course.find_exercise(key)
    names = _learners_names()
    if exercise.name not in names or not _refused.get(key, [""])[-1]:
        render.display_panel(
            render.nothing_to_replay_panel(exercise, defined=exercise.name in names, checked=key in _refused)
        )
        return
    if stop:
        render.show_note(render.HOW_TO_GO_ON)
    try:
        found = replay_program(_refused[key][-1], key, names, stop=stop)
    except SyntaxError:  # it was too long to be kept whole
        render.display_panel(render.nothing_to_replay_panel(exercise, defined=True, checked=True))
        return
    except NoInput:
        render.show_note(f'Nothing can be typed here. Use `replay("{key}")` without `stop`.')
        return
    if not found.stopped:
        render.display_panel(render.replayed_panel(exercise, found))


@without_tracebacks
def progress(way: str | None = None) -> None:
    """Show which exercises have passed, and what comes next.

    `way` chooses a way through the course, such as "core" or "transformers", which *Next* follows from now on.
    """
    notes = record.choose_way(way)
    titles = {lesson: course.lesson_title(lesson) for lesson in course.lesson_stems()}
    render.display_panel(render.progress_panel(build_standing(course.every_exercise(), notes), titles))
    render.show_note(notes.trouble)


def toolbox() -> None:
    """Collect your answers that have passed into `my_hooks.py`, beside your notebooks. Save this notebook first."""
    from graders.learner.toolbox import fill_toolbox

    notes = record.load_record()
    try:
        said = fill_toolbox(record.HERE, notes).lines()
    except HookworkError as error:
        said = [error.message_line()]
    render.show_note("Your toolbox", said)
    render.show_note(notes.trouble)


def rules() -> None:
    """Show the rules that apply to every exercise."""
    render.display_panel(render.rules_panel(RULES, INTRODUCTION))


def _learners_names() -> dict[str, Any]:
    """The namespace of the notebook, or outside of IPython, of the main program."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell.user_ns if shell is not None else vars(sys.modules["__main__"])
