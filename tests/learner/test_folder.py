from __future__ import annotations

from pathlib import Path

import pytest

from graders.core import course, rules
from graders.learner.folder import (
    LearnerError,
    begun_notebooks,
    copy_lessons,
    find_folder,
    lesson_notebooks,
    next_lesson,
    notebook_of,
    shipped_notebook,
)
from graders.learner.notebook.record import Record
from tests.learner.answers import FIRST, answer

LESSONS = course.lesson_stems()


def test_all_lessons_are_copied_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "course"
    assert copy_lessons(folder) == [folder / f"{lesson}.ipynb" for lesson in LESSONS]
    assert {lesson: file.read_bytes() for lesson, file in lesson_notebooks(folder).items()} == {
        lesson: shipped_notebook(lesson).read_bytes() for lesson in LESSONS
    }


def test_the_page_of_rules_to_which_contracts_link_lies_beside_the_lessons(tmp_path: Path) -> None:
    copy_lessons(tmp_path)
    page = tmp_path / "rules.md"
    assert page.read_text(encoding="utf-8") == rules.rules_page()
    assert "](rules.md)" in (tmp_path / FIRST).read_text(encoding="utf-8")
    page.write_text("with my notes")
    assert copy_lessons(tmp_path) == []
    assert page.read_text() == "with my notes"
    page.unlink()
    assert copy_lessons(tmp_path) == []
    assert page.exists()


def test_work_that_is_there_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_text("my work, half written")
    (tmp_path / "02_mine.ipynb").write_text("another name for lesson 2")
    (tmp_path / f"{LESSONS[0]}.ipynb").symlink_to(tmp_path / "nowhere")
    before = {file.name: file.lstat().st_mtime_ns for file in tmp_path.iterdir()}
    new = copy_lessons(tmp_path)
    assert [file.stem for file in new] == list(LESSONS[3:])
    assert (tmp_path / FIRST).read_text() == "my work, half written"
    assert before == {name: (tmp_path / name).lstat().st_mtime_ns for name in before}
    assert copy_lessons(tmp_path) == []


def test_the_folder_is_this_one_or_the_one_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_folder() == Path()
    copy_lessons(Path("hookwork"))
    assert find_folder() == Path("hookwork")
    assert find_folder(Path("other")) == Path("other")
    monkeypatch.chdir("hookwork")
    assert find_folder() == Path()


def test_a_lesson_is_begun_when_its_code_changed(tmp_path: Path) -> None:
    copy_lessons(tmp_path)
    assert begun_notebooks(tmp_path) == {}
    answer(tmp_path / FIRST, branch_grads="def branch_grads(w, x):\n    pass")
    (tmp_path / f"{LESSONS[2]}.ipynb").write_text("broken")
    assert list(begun_notebooks(tmp_path)) == list(LESSONS[1:3])


def test_the_next_lesson_is_the_first_that_is_not_done() -> None:
    first = dict.fromkeys(course.exercise_keys(LESSONS[0]), "passed")
    assert next_lesson(Record()) == LESSONS[0]
    assert next_lesson(Record(first)) == LESSONS[1]
    assert next_lesson(Record({key: "passed" for lesson in LESSONS for key in course.exercise_keys(lesson)})) is None


def test_what_is_missing_or_in_the_way_is_said_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(LearnerError, match=r"contains no notebook of lesson 1 .*hookwork start"):
        notebook_of(tmp_path, LESSONS[1])
    (tmp_path / "file").write_text("")
    with pytest.raises(LearnerError, match=r"file is a file\. Name a folder"):
        copy_lessons(tmp_path / "file")
