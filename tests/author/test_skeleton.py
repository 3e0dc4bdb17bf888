"""`hookwork new`, and the way from a key to its files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from graders.author.places import exercise_files, find_todos, is_meant
from graders.author.skeleton import new_exercise
from graders.core import course
from graders.core.exercise import Exercise
from graders.core.source import SourceError, exercise_cells, make_stub

GRADER = "graders/exercises/lesson_20_doubling/test_double_grad.py"
ANSWERS = "tests/answers/lesson_20_doubling/double_grad.py"
SOURCE = "solutions/20_doubling.py"
STORIES = "graders/scenes/stories/double_grad.py"


@pytest.mark.parametrize("exercise", course.every_exercise(), ids=lambda exercise: exercise.key)
def test_a_key_leads_to_its_three_files(exercise: Exercise) -> None:
    found = exercise_files(exercise.key, exercise.lesson)
    assert found.grader == exercise.file
    assert f'"{exercise.key}",' in found.grader.read_text()
    assert "RIGHT" in names_of(found.answers)
    assert exercise.key in exercise_cells(found.source.read_text())


@pytest.mark.parametrize(
    ("name", "meant"),
    [("0", ["00_three", "00_more"]), ("1", ["01_where"]), ("10", ["10_maps"]), ("01_w", ["01_where"]), ("9", [])],
)
def test_a_lesson_is_meant_by_its_number_or_the_beginning_of_its_stem(name: str, meant: list[str]) -> None:
    lessons = ["00_three", "00_more", "01_where", "10_maps", "11_leaks"]
    assert [lesson for lesson in lessons if is_meant(lesson, name)] == meant


@pytest.mark.parametrize("lesson", course.lesson_stems())
def test_a_lesson_has_no_file_without_an_exercise(lesson: str) -> None:
    wanted = {exercise_files(key, lesson) for key in course.exercise_keys(lesson)}
    folder = course.EXERCISES / f"lesson_{lesson}"
    assert {file.grader for file in wanted} == set(folder.glob("test_*.py"))
    answers = set(next(iter(wanted)).answers.parent.glob("*.py"))
    assert {file.stem for file in answers} - {"__init__", "shared"} == {file.answers.stem for file in wanted}


@pytest.mark.parametrize("lesson", course.lesson_stems())
def test_exercises_import_only_the_authors_face_and_scenes(lesson: str) -> None:
    folder = course.EXERCISES / f"lesson_{lesson}"
    scenes = {f"graders.scenes.{file.stem}" for file in course.PACKAGE.glob("scenes/*.py")}
    allowed = {
        *scenes,
        "graders.scenes.stories",
        *(f"graders.scenes.stories.{file.stem}" for file in course.PACKAGE.glob("scenes/stories/*.py")),
        "graders.exercises.authoring",
        *(
            f"graders.exercises.lesson_{other}.programs" for other in course.lesson_stems()
        ),  # families reach over lessons
        f"graders.exercises.lesson_{lesson}",
        *(f"graders.exercises.lesson_{lesson}.{file.stem}" for file in folder.glob("*.py")),
    }
    for file in folder.glob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        imported = {node.module or "." for node in nodes}
        assert {module for module in imported if module.startswith("graders")} <= allowed, file


def names_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """An empty clone: no lesson yet."""
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def test_a_new_lesson_is_made_with_its_exercise(clone: Path) -> None:
    written = [str(file.relative_to(clone)) for file in new_exercise("20-double-grad", "doubling", root=clone)]
    assert written == [
        GRADER,
        ANSWERS,
        STORIES,
        SOURCE,
        "graders/exercises/lesson_20_doubling/__init__.py",
        "tests/answers/lesson_20_doubling/__init__.py",
    ]
    grader = (clone / GRADER).read_text()
    assert '@exercise(\n    "20-double-grad",' in grader
    assert "class TestDoubleGrad:" in grader
    assert "promises=[double_grad.result_is_right, double_grad.left_alone]" in grader
    assert "def result_is_right(" in (clone / STORIES).read_text()
    assert "@" not in grader.replace("@exercise(", "")
    source = (clone / SOURCE).read_text()
    assert source.startswith("# %% [markdown]\n# # Lesson 20. Doubling: TODO:")
    assert make_stub(exercise_cells_with_marks(source)) == "def double_grad(x):\n    raise NotImplementedError"
    assert (clone / "graders/exercises/lesson_20_doubling/__init__.py").read_text() == '"""Lesson 20. Doubling."""\n'


def exercise_cells_with_marks(source: str) -> str:
    """The one exercise cell of a source, with the marks of its solution."""
    return source.partition('exercise="20-double-grad"\n')[2].partition("\n\n\n# %%")[0]


def test_what_is_still_to_be_written_is_told_by_file_and_line(clone: Path) -> None:
    new_exercise("20-double-grad", "doubling", root=clone)
    told = list(find_todos("20_doubling", clone))
    assert f"{SOURCE}, line 2: still to be written: what it is about" in told
    assert f"{GRADER}, line 14: still to be written: what the learner makes, in a few words" in told
    assert f"{ANSWERS}, line 5: still to be written: right answers in other styles than that of the lesson" in told
    assert len(told) == (clone / SOURCE).read_text().count("TODO:") + 16
    for file in (SOURCE, GRADER, ANSWERS, STORIES):
        (clone / file).write_text((clone / file).read_text().replace("TODO:", ""))
    assert list(find_todos("20_doubling", clone)) == []


def test_the_function_has_its_own_arguments_everywhere(clone: Path) -> None:
    new_exercise("20-double-grad", "doubling", "module, limit", clone)
    assert "def double_grad(module, limit):\n" in (clone / SOURCE).read_text()
    assert (clone / ANSWERS).read_text().count("def double_grad(module, limit):\n") == 2
    assert "    limit = draw.number(-3, 3)\n    result = call(module, limit)\n" in (clone / STORIES).read_text()
    grader = (clone / GRADER).read_text()
    assert ">>> double_grad(torch.tensor([1.0]), 2.0)\n" in grader
    assert "def reference(module, limit):\n" in grader


@pytest.mark.parametrize("arguments", ["", "a,", "a b", "a, a", "a, lambda", "a=1", "*a"])
def test_arguments_are_names(clone: Path, arguments: str) -> None:
    with pytest.raises(SourceError, match="does not name the arguments of a function: it looks like 'module, limit'"):
        new_exercise("20-double-grad", "doubling", arguments, clone)
    assert list(clone.iterdir()) == [clone / "pyproject.toml"]


def test_an_exercise_joins_its_lesson_before_the_recap(clone: Path) -> None:
    new_exercise("20-double-grad", "doubling", root=clone)
    before = (clone / SOURCE).read_text()
    written = new_exercise("20-halve-grad", None, root=clone)
    assert [file.name for file in written] == ["test_halve_grad.py", "halve_grad.py", "halve_grad.py", "20_doubling.py"]
    after = (clone / SOURCE).read_text()
    assert list(exercise_cells(after)) == ["20-double-grad", "20-halve-grad"]
    start, end = before.split("# %% [markdown]\n# ## Recap")
    assert after.startswith(start.rstrip("\n"))
    assert after.endswith("# ## Recap" + end)


def test_an_exercise_goes_to_the_end_of_a_lesson_without_a_recap(clone: Path) -> None:
    new_exercise("20-double-grad", "doubling", root=clone)
    (clone / SOURCE).write_text("# %% [markdown]\n# # Lesson 20. Doubling\n")
    (clone / "graders/exercises/lesson_20_doubling/test_double_grad.py").unlink()
    new_exercise("20-halve-grad", None, root=clone)
    assert (clone / SOURCE).read_text().endswith("    return 2 * x.detach()\n    ### END SOLUTION\n")


@pytest.mark.parametrize(
    ("key", "topic", "message"),
    [
        ("double-grad", "doubling", "'double-grad' is not an exercise key: it looks like 03-scale-grad"),
        ("20-Double", "doubling", "'20-Double' is not an exercise key"),
        ("30-more", None, "there is no lesson 30 yet: name its topic, as in --topic watching_gradients"),
        ("30-more", "No Topic", "'No Topic' is not a topic: it looks like watching_gradients"),
        ("20-more", "other", "lesson 20 is 20_doubling: leave --topic out, or take another number"),
        ("20-double-grad", None, "solutions/20_doubling.py has a cell for 20-double-grad"),
        ("20-taken", None, "tests/answers/lesson_20_doubling/taken.py exists: choose another key, or edit that"),
    ],
)
def test_what_cannot_be_made_is_said_and_nothing_is_written(
    clone: Path, key: str, topic: str | None, message: str
) -> None:
    new_exercise("20-double-grad", "doubling", root=clone)
    (clone / "tests/answers/lesson_20_doubling/taken.py").touch()
    before = sorted(clone.rglob("*"))
    with pytest.raises(SourceError, match=message):
        new_exercise(key, topic, root=clone)
    assert sorted(clone.rglob("*")) == before


def test_an_installed_course_is_not_written_into(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="written in a clone of the course"):
        new_exercise("20-double-grad", "doubling", root=tmp_path)
