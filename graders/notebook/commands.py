"""The commands of a notebook: `check`, `hint`, `solution`, `progress` and `rules`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graders.box.known_state import known_state
from graders.box.probing import answer_probe
from graders.core import course
from graders.core.cells import bound_names
from graders.core.errors import ExerciseDefect, HookworkError
from graders.core.exercise import Exercise, Inputs
from graders.core.expect import Seen
from graders.core.results import ExerciseResult, Status
from graders.core.rules import INTRODUCTION, RULES
from graders.core.seeds import new_seed
from graders.judge.exercise import answer_holds, judge_exercise
from graders.notebook import record, render
from graders.notebook.standing import build_standing
from graders.run.transcript import Outcome, printed_text, raised_outcome
from graders.wire.data import DataError, arrays_to_tensors, decode, encode


def check(key: str, *, more: bool = False) -> None:
    """Check your answer to an exercise on inputs drawn just now, and show what was measured.

    `key` is the exercise's key, for example `"03-scale-grad"`. If your mistake is recognised, the check that shows it
    best comes first and the others are folded away; `more=True` shows them all.
    """
    exercise = _find_exercise(key)
    if exercise is None:
        return
    try:
        names = _learners_names()
        result, outcomes = mark_answer(exercise, names, new_seed())
        result = with_invalid_cell(exercise, result, names.get("_ih", ()))
    except ExerciseDefect as error:
        render.display_panel(render.note_panel(error.message_line()))
        return
    with record.edit_record() as notes:
        notes.note(key, result.status)
    after = render.next_steps(exercise, result, len(outcomes), build_standing(course.every_exercise(), notes))
    render.display_panel(render.result_panel(exercise, result, outcomes[-1], after, more=more))
    _show_trouble(notes)


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


def check_namespace(
    exercise: Exercise,
    namespace: Mapping[str, Any],
    seed: int | None = None,
    *,
    draws: list[Inputs] | None = None,
    quiet: bool = True,
) -> ExerciseResult:
    """The result of an exercise for the definitions in `namespace`, run in this process.

    `seed` None draws a new one. `draws` are those of `seed`, if the caller has made them already. With `quiet`, nothing
    that the answer prints is shown.
    """
    return mark_answer(exercise, namespace, new_seed() if seed is None else seed, draws, quiet=quiet)[0]


def probe_outcomes(exercise: Exercise, namespace: Mapping[str, Any], seed: int, draws: list[Inputs]) -> list[Outcome]:
    """The outcome of the probe on each of these draws of a seed, with the definitions in `namespace`."""
    with known_state(seed):
        return _run_probe(exercise, namespace, seed, draws, quiet=True)


def is_right_answer(exercise: Exercise, namespace: Mapping[str, Any], seed: int, draws: list[Inputs]) -> bool:
    """Whether the definitions in `namespace` pass on these draws of a seed."""
    with known_state(seed):
        return answer_holds(exercise, draws, _run_probe(exercise, namespace, seed, draws, quiet=True))


def mark_answer(
    exercise: Exercise,
    namespace: Mapping[str, Any],
    seed: int,
    draws: list[Inputs] | None = None,
    *,
    quiet: bool = True,
) -> tuple[ExerciseResult, list[Outcome]]:
    """The result of an exercise as `check` finds it, and the outcome of the probe on each draw.

    Everything runs in a known state, so that a mode the notebook left switched on changes neither draws nor verdict.
    """
    with known_state(seed, quiet=quiet):
        draws = exercise.draws(seed) if draws is None else draws
        outcomes = _run_probe(exercise, namespace, seed, draws, quiet=quiet)
        return judge_exercise(exercise, draws, outcomes), outcomes


def _run_probe(
    exercise: Exercise, namespace: Mapping[str, Any], seed: int, draws: list[Inputs], *, quiet: bool
) -> list[Outcome]:
    """The outcome of the probe on each draw. An exception or a time limit ends the run, and stands for the rest."""
    outcomes: list[Outcome] = []
    for draw in draws:
        tree, body = encode(draw)  # the probe gets a copy, so that its changes don't reach the judge
        found = answer_probe(exercise.probe, namespace, arrays_to_tensors(decode(tree, body)), seed, quiet=quiet)
        outcomes.append(_outcome_of_answer(found.head, found.body))
        if outcomes[-1].seen is None:  # one message is enough, and a time limit should not be waited for again
            break
    return outcomes + [outcomes[-1]] * (len(draws) - len(outcomes))


def _outcome_of_answer(head: dict[str, Any], body: bytes) -> Outcome:
    if head["type"] != "seen":
        return raised_outcome(head)
    try:
        return Outcome(seen=Seen(decode(head["tree"], body)), printed=printed_text(head))
    except DataError as error:
        return Outcome(status=Status.OVER_LIMIT, message=str(error))


def hint(key: str) -> None:
    """Show the next hint for an exercise; after the last one, they start over."""
    exercise = _find_exercise(key)
    if exercise is None:
        return
    with record.edit_record() as notes:
        given = notes.next_hint(key)
    render.display_panel(render.hint_panel(exercise, given))
    _show_trouble(notes)


def solution(key: str) -> None:
    """Show the worked answer, once your check has passed or you ask a second time."""
    exercise = _find_exercise(key)
    if exercise is None:
        return
    with record.edit_record() as notes:
        opened = notes.ask_for_solution(key)
    render.display_panel(
        render.solution_panel(exercise, course.worked_answer(exercise)) if opened else render.not_yet_panel(exercise)
    )
    _show_trouble(notes)


def progress() -> None:
    """Show which exercises have passed, and what comes next."""
    notes = record.load_record()
    titles = {lesson: course.lesson_title(lesson) for lesson in course.lesson_stems()}
    render.display_panel(render.progress_panel(build_standing(course.every_exercise(), notes), titles))
    _show_trouble(notes)


def rules() -> None:
    """Show the rules that apply to every exercise."""
    render.display_panel(render.rules_panel(RULES, INTRODUCTION))


def _show_trouble(notes: record.Record) -> None:
    """Show what went wrong with the progress file, if anything did."""
    if notes.trouble:
        render.display_panel(render.note_panel(notes.trouble))


def _find_exercise(key: str) -> Exercise | None:
    """The exercise with this key; None, after a message, if there is none: a typo should not end in a traceback."""
    try:
        return course.find_exercise(key)
    except HookworkError as error:
        render.display_panel(render.note_panel(error.message_line()))
        return None


def _learners_names() -> Mapping[str, Any]:
    """The namespace of the notebook, or outside of IPython, of the main program."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell.user_ns if shell is not None else vars(sys.modules["__main__"])
