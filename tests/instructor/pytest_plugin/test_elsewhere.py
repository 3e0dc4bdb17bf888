from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from graders.instructor.pytest_plugin import elsewhere

ROOT = Path(__file__).parents[3]


def test_outside_a_clone_the_message_names_the_command_and_no_code_of_a_student_runs(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    (tmp_path / "class/conftest.py").write_text('open("it-ran", "w")')
    command = [sys.executable, "-m", "pytest", "-p", elsewhere.__name__, "graders", "--submissions", "class"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert f"Elsewhere it is `pytest -p {elsewhere.OPTIONS} --pyargs graders --submissions DIR`." in done.stderr
    assert not (tmp_path / "it-ran").exists()


def test_every_pytest_loads_it_where_hookwork_is_installed() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'[project.entry-points.pytest11]\n"{elsewhere.__name__}" = "{elsewhere.__name__}"\n' in project
    assert f'addopts = "-p {elsewhere.OPTIONS} ' in project
