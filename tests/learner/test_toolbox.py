"""`hookwork toolbox`: what it collects, what it leaves alone, and what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graders.learner.folder import LearnerError
from graders.learner.notebook.record import Record
from graders.learner.toolbox import FILE_NAME, Toolbox, fill_toolbox
from tests import notebooks

RECORD_GRAD = "def record_grad(t, store):\n    return t.register_hook(lambda grad: store.append(grad.clone()))"
SCALE = "def scale_output(module, s):\n    return module.register_forward_hook(lambda m, a, output: output * s)"
LESSONS = {"02-record-grad": "02_watching_gradients", "06-scale-output": "06_changing_the_forward"}


def write_notebook(folder: Path, lesson: str, *cells: str) -> Path:
    file = folder / f"{lesson}.ipynb"
    file.write_text(notebooks.text(*cells))
    return file


def filled(folder: Path, *passed: str) -> Toolbox:
    return fill_toolbox(folder, Record(exercises=dict.fromkeys(passed, "passed")))


def both(folder: Path) -> Toolbox:
    write_notebook(folder, "02_watching_gradients", RECORD_GRAD)
    write_notebook(folder, "06_changing_the_forward", SCALE)
    return filled(folder, *LESSONS)


def test_answers_that_passed_make_a_module_that_imports(tmp_path: Path) -> None:
    done = both(tmp_path)
    file = tmp_path / FILE_NAME
    assert done.names == {"02": ["record_grad"], "06": ["scale_output"]}
    assert done.lines()[-1] == f"Written: {file}. In a program beside it: from my_hooks import record_grad"
    program = "import my_hooks; print(my_hooks.record_grad.__name__, my_hooks.scale_output.__name__)"
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == "record_grad scale_output\n"
    assert "# From lesson 6: 06-scale-output.\ndef scale_output" in file.read_text()


def test_what_has_not_passed_is_not_collected(tmp_path: Path) -> None:
    both(tmp_path)
    assert filled(tmp_path, "06-scale-output").names == {"06": ["scale_output"]}
    nothing = filled(tmp_path)
    assert nothing.lines() == ["Nothing to collect yet: pass an exercise of lessons 2, 5, 6, 7, 9, 11."]
    assert "record_grad" not in (tmp_path / FILE_NAME).read_text()


def test_a_stub_below_or_in_place_of_an_answer_is_no_tool(tmp_path: Path) -> None:
    stub = "def record_grad(t, store):\n    raise NotImplementedError"
    write_notebook(tmp_path, "02_watching_gradients", RECORD_GRAD, stub)
    assert filled(tmp_path, "02-record-grad").names == {"02": ["record_grad"]}
    write_notebook(tmp_path, "02_watching_gradients", stub)
    assert filled(tmp_path, "02-record-grad").lines()[0] == (
        "02-record-grad is left out: no cell of the notebook defines `record_grad`."
    )


def test_a_broken_or_missing_notebook_costs_only_its_own_answers(tmp_path: Path) -> None:
    write_notebook(tmp_path, "06_changing_the_forward", SCALE)
    done = filled(tmp_path, *LESSONS)
    assert done.left_out == ("02-record-grad: 02_watching_gradients.ipynb is not in this folder.",)
    broken = tmp_path / "02_watching_gradients.ipynb"
    broken.write_text("{")
    done = filled(tmp_path, *LESSONS)
    assert done.names == {"06": ["scale_output"]}
    assert done.left_out[0].startswith(f"{broken}: The file is not a notebook: it is not JSON")


def test_a_changed_file_is_never_overwritten(tmp_path: Path) -> None:
    both(tmp_path)
    mine = tmp_path / FILE_NAME
    mine.write_text(mine.read_text() + "\nMINE = 1\n")
    done = both(tmp_path)
    new = tmp_path / f"{FILE_NAME}.new"
    assert done.file == new
    assert done.lines()[-1] == f"You have changed {mine}, so it stays as it is. The new one: {new}"
    assert mine.read_text().endswith("\nMINE = 1\n")
    new.write_text("mine, too")
    with pytest.raises(LearnerError, match="neither was touched"):
        both(tmp_path)
    assert new.read_text() == "mine, too"


def test_a_module_that_does_not_import_is_not_written(tmp_path: Path) -> None:
    write_notebook(tmp_path, "06_changing_the_forward", SCALE.replace("s)", "s=1 / 0)", 1))
    with pytest.raises(LearnerError, match="do not import: ZeroDivisionError: division by zero"):
        filled(tmp_path, "06-scale-output")
    assert not (tmp_path / FILE_NAME).exists()
