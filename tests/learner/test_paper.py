"""`hookwork export`: pages for paper, and what is said when one cannot be written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graders.cli import app
from graders.core import course
from graders.learner.folder import LearnerError
from graders.learner.paper import write_page

pytest.importorskip("nbconvert", reason="the extra [lab] is not installed")
LESSON = "02_watching_gradients"


def lesson(folder: Path) -> Path:
    file = folder / f"{LESSON}.ipynb"
    file.write_bytes((course.solutions_folder() / file.name).read_bytes())
    return file


def test_a_page_has_no_folded_code_no_scripts_and_wraps_its_lines(tmp_path: Path) -> None:
    page = write_page(lesson(tmp_path))
    text = page.read_text(encoding="utf-8")
    assert page == tmp_path / f"{LESSON}.html"
    assert f"<title>{LESSON}</title>" in text
    assert "<img" in text  # the figures, without the code that draws them
    code = re.sub(r"<[^>]*>", "", text)
    assert "arrow(axes" not in code
    assert "%pip install" not in code
    assert "def record_grad(t, store):" in code
    assert "<script" not in text
    assert "white-space: pre-wrap !important" in text
    assert "<details>" not in text


def test_a_page_is_written_again_and_another_file_is_left_alone(tmp_path: Path) -> None:
    page = write_page(lesson(tmp_path))
    assert write_page(tmp_path / f"{LESSON}.ipynb") == page
    page.write_text("mine")
    with pytest.raises(LearnerError, match="hookwork export did not write it"):
        write_page(tmp_path / f"{LESSON}.ipynb")
    assert page.read_text() == "mine"


def test_a_broken_notebook_costs_only_its_own_page(tmp_path: Path) -> None:
    lesson(tmp_path)
    broken = tmp_path / "03_changing_gradients.ipynb"
    broken.write_text("{")
    done = CliRunner().invoke(app, ["export", str(tmp_path)])
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert f"Written: {tmp_path / LESSON}.html" in said
    assert f"✗ {broken}: The file is not a notebook" in said
