"""The page for people who write a lesson of their own, followed to the letter in a copy of the course."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "graders/author/your-own-lesson.md"


def parts() -> dict[str, str]:
    """The files of the page: path to content."""
    return dict(re.findall(r"^## \d\. [^\n`]*`([^\n`]+)`\n.*?^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S))


def hookwork(course: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(course), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "graders.cli", *arguments],
        cwd=course,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_the_page_names_the_files() -> None:
    assert list(parts()) == [
        "solutions/20_doubling.py",
        "graders/scenes/stories/double_grad.py",
        "graders/exercises/lesson_20_doubling/test_double_grad.py",
        "tests/answers/lesson_20_doubling/double_grad.py",
    ]  # fmt: skip


@pytest.mark.slow
def test_following_the_page_makes_a_lesson_that_holds(tmp_path: Path) -> None:
    course = tmp_path / "course"
    course.mkdir()
    left_out = shutil.ignore_patterns("__pycache__", "*.ipynb", "*0[2-9]_*", "*1[0-9]_*")
    for name in ("graders", "solutions", "lessons", "tests/answers"):
        shutil.copytree(ROOT / name, course / name, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", course)
    made = hookwork(course, "new", "20-double-grad", "--topic", "doubling", "--args", "t")
    assert made.returncode == 0, made.stdout + made.stderr
    # What was made is in order, and what is missing is told.
    subprocess.run([sys.executable, "-m", "ruff", "check", "-q", "."], cwd=course, check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", "--check", "."], cwd=course, check=True)
    incomplete = hookwork(course, "build", "--check", "20")
    assert incomplete.returncode == 1
    for path in parts():
        assert f"{path}, line" in incomplete.stderr
    assert "Traceback" not in incomplete.stderr
    for path, text in parts().items():
        (course / path).write_text(text)
    built = hookwork(course, "build", "20")
    assert built.returncode == 0, built.stdout + built.stderr
    proved = hookwork(course, "build", "--check", "20")
    assert proved.returncode == 0, proved.stdout + proved.stderr
    assert "The course holds." in proved.stdout
    for option in ("--mutate", "--ablate"):
        tried = hookwork(course, "build", option, "20")
        assert (tried.returncode, tried.stderr) == (0, "")
    (programs,) = re.findall(r"20-double-grad: (\d+) wrong programs tried", tried.stdout)
    assert int(programs) > 20
