"""The course itself: its exercises are complete, and the proof of the rest is able to fail."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from graders.author import build, prove
from graders.author.answers import Answer, Answers
from graders.core import course
from graders.verdict.scene_exercise import SceneExercise, find_scene_exercise

LESSONS = course.lesson_stems()
EXERCISES = course.every_exercise()


def exercise(key: str) -> SceneExercise:
    return find_scene_exercise(key)


def test_the_names_are_unique() -> None:
    assert prove.unique_names() == []


def test_an_interrupt_comes_wherever_something_may_raise() -> None:
    seen = set()
    for one in EXERCISES:
        found = exercise(one.key)
        for place in found.scene.axes.get("raised_in", ()):
            interrupt = {"failure": "KeyboardInterrupt", "raised_in": place}
            assert any(interrupt.items() <= case.items() for case in found.cases), (one.key, place)
            seen.add(one.key)
    assert len(seen) > 15


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_through_on_an_older_processor(lesson: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rounding differs there. A net whose training is chaotic may then end elsewhere than its lesson says.
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert prove.solution_problems(lesson) == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_notebooks_are_what_the_source_builds(lesson: str) -> None:
    assert build.stale_notebooks(lesson) == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_nbgrader_metadata_is_complete(lesson: str) -> None:
    for file in build.notebook_files(lesson):
        content = nbformat.read(file, as_version=4)
        nbformat.validate(content)
        assert (content.nbformat, content.nbformat_minor) == (4, 5)
        marked = {
            cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader
            for cell in content.cells
            if "nbgrader" in cell.metadata
        }
        for exercise in course.lesson_exercises(lesson):
            assert marked[exercise.key] == {
                "schema_version": 3,
                "grade_id": exercise.key,
                "solution": True,
                "grade": True,
                "locked": False,
                "task": False,
                "points": exercise.points,
            }
        ids = [cell["id"] for cell in content.cells]
        assert len(set(ids)) == len(ids)


# The proof must be able to fail.


def test_missing_answers_are_reported() -> None:
    solution = Answers((Answer("the solution", "", passes=True),))
    assert list(prove.missing_answers(exercise("12-count-macs"), solution)) == [
        "12-count-macs: tests/answers has no right answer in another style"
    ]


EMPTY = "def branch_grads(w, x): return {}"
WATCHES = "def record_grad(t, store):\n    return t.register_hook(lambda g: store.append(g.detach().clone()))"


@pytest.mark.parametrize(
    ("key", "answer", "problem"),
    [
        (
            "01-branch-grads",
            Answer("an answer", EMPTY, mistake="unheard-of"),
            "an answer is taken for nothing-recorded: Nothing was recorded, and something should be. If a hook should "
            "have done it: it has not run (was it on another module, on a copy, or off again before the run or the "
            "pass?), or it writes to another object than you return.",
        ),
        (
            "01-branch-grads",
            Answer("the solution", EMPTY, passes=True),
            "the solution is wrong: the result: the key 'w' is missing; there are []",
        ),
        ("02-record-grad", Answer("a wrong answer", WATCHES), "a wrong answer passes"),
    ],
)
def test_an_answer_that_does_not_come_out_right_is_reported_once(key: str, answer: Answer, problem: str) -> None:
    draws = prove.draws_by_seed(exercise(key), range(3))
    assert list(prove.wrong_outcomes(exercise(key), [answer], draws)) == [f"{key}, seed 0: {problem}"]


def test_an_exercise_that_lacks_something_is_reported() -> None:
    bare = replace(exercise("12-count-macs"), title=" ", hints=("one",), contract="Short.", why="Because.", minutes=0)
    assert list(prove.missing_parts(bare)) == [
        "12-count-macs has no title",
        "12-count-macs has fewer than two hints",
        "12-count-macs does not say how long it takes and how hard it is: minutes=10, difficulty=1",
        "12-count-macs: its why has two sentences or more (why this way, what else would work), 400 characters",
        "12-count-macs has no contract with an example in its docstring",
    ]


def test_a_scene_that_is_given_what_is_not_in_the_box_is_reported() -> None:
    found = find_scene_exercise("03-scale-grad")
    scene = replace(found.scene, given={**found.scene.given, "arguments": math.sqrt})
    (problem,) = prove.missing_parts(replace(found, scene=scene))
    assert (
        problem == "03-scale-grad: <built-in function sqrt> cannot be written into the box: give the scene plain values"
    )


def test_an_edited_notebook_is_reported(tmp_path: Path) -> None:
    lesson = LESSONS[0]
    learners, solved = (nbformat.read(file, as_version=4) for file in build.notebook_files(lesson))
    learners.cells[0].source += " edited"
    for cell in solved.cells:
        for output in cell.get("outputs", []):
            output.get("metadata", {}).pop("image/png", None)
    for folder, content in (("lessons", learners), ("solutions", solved)):
        (tmp_path / folder).mkdir()
        nbformat.write(content, tmp_path / folder / f"{lesson}.ipynb")
    assert build.stale_notebook(tmp_path / f"lessons/{lesson}.ipynb", lesson, solved=False) == [
        f"lessons/{lesson}.ipynb is not what solutions/{lesson}.py builds: run `hookwork build`"
    ]
    (bare,) = build.stale_notebook(tmp_path / f"solutions/{lesson}.ipynb", lesson, solved=True)
    assert "figures without alt text" in bare


def test_a_missing_notebook_is_reported(tmp_path: Path) -> None:
    assert build.stale_notebook(tmp_path / "a.ipynb", LESSONS[0], solved=False) == [
        f"{tmp_path.name}/a.ipynb is missing: run `hookwork build`"
    ]
