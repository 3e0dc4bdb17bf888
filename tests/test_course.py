"""The course itself: exercises are complete, notebooks as built, and each is marked as it should be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from graders.author import build, prove
from graders.author.answers import Answer, answers_to, unanswered
from graders.core import course
from graders.core.exercise import Exercise, Mistake
from graders.run.runner import BoxRunner
from graders.run.warm import WarmProcess

LESSONS = course.lessons()
EXERCISES = course.every_exercise()


def exercise(key: str) -> Exercise:
    return course.find_exercise(key)


def test_the_names_are_unique() -> None:
    assert prove.unique_names() == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_notebooks_are_what_their_source_builds(lesson: str) -> None:
    assert build.stale(lesson) == []


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.key)
def test_the_exercise_is_well_formed_and_its_mistakes_are_recognised(exercise: Exercise) -> None:
    # A wrong answer for every third mistake, on one seed. `hookwork build --check` takes every answer, and more seeds.
    answers = answers_to(exercise)
    assert [*prove.well_formed(exercise), *prove.well_answered(exercise, answers)] == []
    mistaken = {answer.mistake: answer for answer in answers.every if answer.mistake}
    assert list(prove.come_out_right(exercise, [answers.right[0], *mistaken.values()][::3], [1000])) == []


@pytest.mark.parametrize("lesson", LESSONS[:3])  # and all of them in `hookwork build --check`
def test_the_lesson_runs_and_is_marked_in_a_box(lesson: str, kit: Path, warm: WarmProcess) -> None:
    # In an ordinary kernel, where its checks are shown, `hookwork build --check` runs it, too.
    assert prove.marked_in_a_box(lesson, BoxRunner(kit, warm=warm)) == []


def test_a_lesson_runs_through_in_an_ordinary_kernel() -> None:
    assert prove.runs_through(LESSONS[0]) == []


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_through_on_an_older_processor(lesson: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rounding differs there. A net whose training is chaotic may then end elsewhere than its lesson says.
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert prove.runs_through(lesson) == []


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
        for exercise in course.exercises(lesson):
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
    spare = Mistake("unheard-of", lambda seen: False, "Nobody does this.")
    bare = replace(exercise("13-signal-report"), mistakes=(spare,))
    assert list(unanswered(bare, [])) == [
        "13-signal-report: tests/answers has no right answer in another style",
        "13-signal-report: tests/answers has no wrong answer for the mistake unheard-of",
    ]


EMPTY = "def branch_grads(w, x): return {}"
WATCHES = "def record_grad(t, store):\n    return t.register_hook(lambda g: store.append(g.detach().clone()))"


@pytest.mark.parametrize(
    ("key", "answer", "problem"),
    [
        (
            "01-branch-grads",
            Answer("an answer", EMPTY, mistake="unheard-of"),
            "an answer is taken for None: the result: the key 'w' is missing; there are []",
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
    assert list(prove.come_out_right(exercise(key), [answer], range(3))) == [f"{key}, seed 0: {problem}"]


def test_numbers_that_an_oracle_leaves_out_are_reported() -> None:
    asked = exercise("13-signal-report")
    right = answers_to(asked).right[0]
    assert list(prove.certain(asked, right, [0])) == []
    problems = list(prove.certain(replace(asked, oracle=None), right, [0]))
    assert problems
    assert all(problem.startswith("13-signal-report, seed 0, case ") for problem in problems)


def test_an_exercise_that_lacks_something_is_reported() -> None:
    bare = replace(exercise("12-count-macs"), title=" ", hints=("one",), contract="Short.", why="Because.", minutes=0)
    assert list(prove.well_formed(bare)) == [
        "12-count-macs has no title",
        "12-count-macs has fewer than two hints",
        "12-count-macs does not say how long it takes and how hard it is: minutes=10, difficulty=1",
        "12-count-macs: its why has two sentences or more (why this way, what else would do) in 400 characters",
        "12-count-macs has no contract with an example in its docstring",
    ]


def test_a_probe_that_reaches_for_what_judges_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "test_signal_report.py"
    text = exercise("13-signal-report").file.read_text()
    file.write_text(re.sub(r"(def probe\(.*\n)", r"\1        expect(student)\n", text))
    bad = replace(exercise("13-signal-report"), file=file)
    assert "the probe uses 'expect' of graders.core.expect, which is not in the box" in "".join(prove.well_formed(bad))


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
    assert build.stale_in(tmp_path / f"lessons/{lesson}.ipynb", lesson, solved=False) == [
        f"lessons/{lesson}.ipynb is not what solutions/{lesson}.py builds: run `hookwork build`"
    ]
    (bare,) = build.stale_in(tmp_path / f"solutions/{lesson}.ipynb", lesson, solved=True)
    assert "figures without alt text" in bare


def test_a_missing_notebook_is_reported(tmp_path: Path) -> None:
    assert build.stale_in(tmp_path / "a.ipynb", LESSONS[0], solved=False) == [
        f"{tmp_path.name}/a.ipynb is missing: run `hookwork build`"
    ]
