from __future__ import annotations

import json
from pathlib import Path

import pytest

from graders.core import course
from graders.learner.folder import LearnerError, copy_lessons, lesson_notebooks, shipped_notebook
from graders.learner.reset import restore_stub
from tests.learner.answers import FIRST, answer, cell_of, cells

KEY = "01-chain-grads"
STUB = cell_of(shipped_notebook("01_where_gradients_live"), KEY)["source"]
MINE = "def chain_grads(fns, x):\n    return 'mine'"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A notebook of lesson 1 in which two exercises were worked on."""
    copy_lessons(tmp_path)
    answer(tmp_path / FIRST, chain_grads=MINE, branch_grads="def branch_grads(w, x):\n    return 'ü'")
    return tmp_path / FIRST


def without(file: Path, key: str = KEY) -> list[object]:
    return [cell for cell in cells(file) if cell["metadata"].get("hookwork", {}).get("exercise") != key]


def test_the_stub_is_back_and_everything_else_is_as_it_was(file: Path) -> None:
    before, rest = file.read_bytes(), without(file)
    done = restore_stub(file, KEY)
    cell = cell_of(file, KEY)
    assert (cell["source"], cell["outputs"], cell["execution_count"]) == (STUB, [], None)
    assert without(file) == rest
    assert done.backup.read_bytes() == before
    assert (done.backup.parent, done.inserted, done.others) == (file.parent / "hookwork-backups", False, ())


def test_half_a_surrogate_pair_in_another_cell_does_no_harm(file: Path) -> None:
    answer(file, branch_grads="broken = '\ud800'")
    restore_stub(file, KEY)
    assert cell_of(file, "01-branch-grads")["source"] == "broken = '\ud800'"


def test_a_backup_is_no_notebook_of_the_lesson_and_none_is_replaced(file: Path) -> None:
    backups = {restore_stub(file, KEY).backup for _ in range(3)}
    assert len(backups) == 3
    assert lesson_notebooks(file.parent)["01_where_gradients_live"] == file


def test_an_untouched_notebook_stays_the_same_byte_by_byte(tmp_path: Path) -> None:
    copy_lessons(tmp_path)
    before = (tmp_path / FIRST).read_bytes()
    for key in course.exercise_keys("01_where_gradients_live"):
        restore_stub(tmp_path / FIRST, key)
    assert (tmp_path / FIRST).read_bytes() == before


def change(file: Path, edit: object) -> None:
    content = json.loads(file.read_text())
    edit(content)  # type: ignore[operator]
    file.write_text(json.dumps(content))


def test_without_metadata_the_cell_is_found_by_what_it_defines(file: Path) -> None:
    change(file, lambda content: [cell["metadata"].clear() for cell in content["cells"]])
    assert not restore_stub(file, KEY).inserted
    assert MINE not in [cell["source"] for cell in cells(file)]
    assert STUB in [cell["source"] for cell in cells(file)]


def test_a_cell_that_was_deleted_comes_back_below_its_contract(file: Path) -> None:
    change(file, lambda content: content.update(cells=without(file)))
    assert restore_stub(file, KEY).inserted
    found = cells(file)
    place = found.index(cell_of(file, KEY))
    assert f"Exercise `{KEY}`" in "".join(found[place - 1]["source"])
    assert "".join(found[place + 1]["source"]) == f'check("{KEY}")'


def test_without_contract_and_check_it_comes_last(file: Path) -> None:
    change(file, lambda content: content.update(cells=content["cells"][:3]))
    assert restore_stub(file, KEY).inserted
    assert cells(file)[-1]["source"] == STUB


def test_other_cells_that_define_the_name_are_named_and_left(file: Path) -> None:
    extra = {"cell_type": "code", "metadata": {}, "source": MINE, "outputs": [], "execution_count": None}
    change(file, lambda content: content["cells"].insert(0, extra))
    done = restore_stub(file, KEY)
    assert done.others == (1,)
    assert cells(file)[0] == extra
    assert cell_of(file, KEY)["source"] == STUB


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "it is not JSON"),
        ("", "empty"),
        ('{"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code"}]}]}', "nbformat 3"),
    ],
)
def test_what_is_no_notebook_is_left_alone(file: Path, text: str, part: str) -> None:
    file.write_text(text)
    with pytest.raises(LearnerError, match=part):
        restore_stub(file, KEY)
    assert file.read_text() == text
    assert not (file.parent / "hookwork-backups").exists()


def test_without_a_backup_nothing_is_changed(file: Path) -> None:
    (file.parent / "hookwork-backups").write_text("in the way")
    before = file.read_bytes()
    with pytest.raises(LearnerError, match="nothing was changed"):
        restore_stub(file, KEY)
    assert file.read_bytes() == before
