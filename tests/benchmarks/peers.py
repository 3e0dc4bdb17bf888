"""The graders that are compared: an environment for those of others, a class for each, and what marks it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from graders.author.lesson import INSTALL_CELL
from graders.core import course
from tests.benchmarks.comparison import HOOKWORK, KEPT, LIMIT, NBCLIENT, NBGRADER, NOT_DRAWN, OTTER

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
REQUIREMENTS = HERE / "peers.txt"
SEED = 20_24
SET_UP = "from graders.core import course\nfrom graders.marking.in_process import check_namespace"
CHECK = """\
result = check_namespace(course.find_exercise({key!r}), {names}, {seed})
assert result.score == {points}, result.message"""


def environment(folder: Path) -> Path:
    """The Python of an environment with the peers; made where it is not there.

    It borrows what is installed here, torch and Jupyter above all, and installs only what is missing.
    """
    python, done = folder / "bin" / "python", folder / "installed"
    wanted = REQUIREMENTS.read_text(encoding="utf-8") + sys.prefix
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing the peers into {folder}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    borrowed = dict.fromkeys(path for path in sys.path if path.endswith("site-packages"))
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n", encoding="utf-8")
    constraints = REPOSITORY / "constraints.txt"
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS, "-c", constraints], check=True)
    done.write_text(wanted, encoding="utf-8")
    return python


def variables(python: Path) -> dict[str, str]:
    """The environment in which every command runs: this checkout's graders, compiled files, threads as they come."""
    left_out = {"OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS", "MPLBACKEND"}
    own = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**own, "PYTHONPATH": str(REPOSITORY), "PATH": f"{python.parent}{os.pathsep}{own.get('PATH', '')}"}


def class_notebook(lesson: str, student: str) -> NotebookNode:
    """The solved lesson as a student hands it in: every cell of it but those that install, check and show progress."""
    notebook = nbformat.read(course.solutions_folder() / f"{lesson}.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if not _is_ours(cell)]
    for cell in notebook.cells:
        cell.metadata.pop("nbgrader", None)
        if cell.cell_type == "code":
            cell.source = f"# {student}\n{cell.source}"
    return notebook


def _is_ours(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and (cell.source == INSTALL_CELL or cell.source.startswith(("check(", "progress(")))


def with_checks(notebook: NotebookNode, lesson: str) -> NotebookNode:
    """The notebook with a cell for each exercise that checks it, as nbgrader knows such cells."""
    added = [nbformat.v4.new_code_cell(SET_UP, metadata=_nbgrader(grade_id="set-up", grade=False))]
    for exercise in course.lesson_exercises(lesson):
        source = CHECK.format(key=exercise.key, names="globals()", seed=SEED, points=exercise.points)
        added.append(
            nbformat.v4.new_code_cell(
                source, metadata=_nbgrader(grade_id=exercise.key, grade=True, points=exercise.points)
            )
        )
    notebook.cells += added
    return notebook


def _nbgrader(**parts: object) -> dict[str, object]:
    return {"nbgrader": {"schema_version": 3, "solution": False, "locked": True, "task": False, **parts}}


@dataclass
class Class:
    """A class of so many submissions in a folder, in the shape that each grader wants; made anew for each marking."""

    folder: Path
    lesson: str
    size: int

    def __post_init__(self) -> None:
        self.students = [f"student{number:03}" for number in range(self.size)]

    def plain(self) -> list[Path]:
        """`class/<student>/<lesson>.ipynb`."""
        return [
            self._write(f"class/{one}/{self.lesson}.ipynb", class_notebook(self.lesson, one)) for one in self.students
        ]

    def checked(self) -> list[Path]:
        """The same with the checks in the last cells."""
        return [
            self._write(
                f"checked/{student}/{self.lesson}.ipynb", with_checks(class_notebook(self.lesson, student), self.lesson)
            )
            for student in self.students
        ]

    def nbgrader_course(self, python: Path) -> None:
        """A course of nbgrader with one assignment, generated and handed in by everybody."""
        name = f"{self.lesson}.ipynb"
        self._write(f"course/source/lesson/{name}", with_checks(class_notebook(self.lesson, "source"), self.lesson))
        (self.folder / "course" / "nbgrader_config.py").write_text(
            "c = get_config()\nc.CourseDirectory.course_id = 'course'\nc.ExecutePreprocessor.timeout = 300\n"
            "c.ClearSolutions.enforce_metadata = False\n"
        )
        for student, file in zip(self.students, self.checked(), strict=True):
            target = self.folder / "course" / "submitted" / student / "lesson" / name
            target.parent.mkdir(parents=True)
            shutil.copyfile(file, target)
        command = [str(python), "-m", "nbgrader", "generate_assignment", "lesson"]
        subprocess.run(command, cwd=self.folder / "course", env=variables(python), check=True, capture_output=True)

    def otter_zip(self) -> None:
        """`autograder.zip` for otter: a test file for each exercise."""
        with zipfile.ZipFile(self.folder / "autograder.zip", "w") as archive:
            archive.writestr("otter_config.json", "{}")
            for exercise in course.lesson_exercises(self.lesson):
                check = CHECK.format(key=exercise.key, names="env", seed=SEED, points=exercise.points)
                lines = "\n    ".join(f"{SET_UP}\n{check}".split("\n"))
                archive.writestr(
                    f"tests/{exercise.key}.py",
                    f"from otter.test_files import test_case\nOK_FORMAT = False\nname = {exercise.key!r}\n"
                    f"points = {exercise.points}\n\n@test_case()\ndef test_it(env):\n    {lines}\n",
                )
        for student in self.students:
            (self.folder / "otter" / student).mkdir(parents=True)

    def _write(self, name: str, notebook: NotebookNode) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, file)
        return file


@dataclass(frozen=True)
class Method:
    """How a class is marked: what is laid out beforehand, the command, and what shows that it marked everybody."""

    prepare: Callable[[Class, Path], object]
    command: Callable[[Class, Path, int], Sequence[str]]
    full_marks: Callable[[Class], bool]
    parallel: bool = True


def _hookwork(group: Class, _: Path, workers: int) -> list[str]:
    return [
        sys.executable, "-m", "pytest", str(REPOSITORY / "graders"), "--submissions", "class", "--out", "out",
        "--jobs", str(workers), "--seed", str(SEED), "-p", "no:cacheprovider", f"--rootdir={REPOSITORY}",
        "-c", str(REPOSITORY / "pyproject.toml"),
    ]  # fmt: skip


def _hookwork_marks(group: Class) -> bool:
    found = json.loads((group.folder / "out" / "results.json").read_text(encoding="utf-8"))["submissions"]
    return len(found) == group.size and all(submission["score"] == submission["max_score"] for submission in found)


def _limit(drawn: str) -> Callable[[Class, Path, int], list[str]]:
    def command(group: Class, _: Path, workers: int) -> list[str]:
        files = [f"class/{student}/{group.lesson}.ipynb" for student in group.students]
        one_thread = ["env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"]
        program = [sys.executable, "-m", "tests.benchmarks.limit"]
        return [*one_thread, *program, group.lesson, str(SEED), str(workers), drawn, *files]

    return command


def _nbclient(group: Class, python: Path, workers: int) -> list[str]:
    files = [f"checked/{student}/{group.lesson}.ipynb" for student in group.students]
    return [str(python), str(HERE / "fresh_kernels.py"), str(workers), *files]


def _nbgrader_autograde(group: Class, python: Path, _: int) -> list[str]:
    return ["env", "-C", "course", str(python), "-m", "nbgrader", "autograde", "lesson", "--create"]


def _nbgrader_marks(group: Class) -> bool:
    files = [
        group.folder / "course" / "autograded" / who / "lesson" / f"{group.lesson}.ipynb" for who in group.students
    ]
    return all(_executed_without_errors(file) for file in files)


def _executed_without_errors(file: Path) -> bool:
    cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
    failed = any(output.output_type == "error" for cell in cells for output in cell.outputs)
    return not failed and all(cell.execution_count for cell in cells)


def _otter(group: Class, python: Path, workers: int) -> list[str]:
    files = [f"class/{student}/{group.lesson}.ipynb" for student in group.students]
    return [sys.executable, str(HERE / "otter_runs.py"), str(python), str(workers), *files]


def _otter_marks(group: Class) -> bool:
    most = sum(exercise.points for exercise in course.lesson_exercises(group.lesson))

    def score(student: str) -> float:
        found = json.loads((group.folder / "otter" / student / "results.json").read_text(encoding="utf-8"))
        return sum(test.get("score") or 0 for test in found["tests"])

    return all(score(student) == most for student in group.students)


METHODS = {
    HOOKWORK: Method(lambda group, _: group.plain(), _hookwork, _hookwork_marks),
    KEPT: Method(lambda *_: None, _hookwork, _hookwork_marks),
    LIMIT: Method(lambda group, _: group.plain(), _limit("drawn"), lambda _: True),
    NOT_DRAWN: Method(lambda group, _: group.plain(), _limit("not-drawn"), lambda _: True),
    NBCLIENT: Method(
        lambda group, _: group.checked(), _nbclient,
        lambda group: all(
            _executed_without_errors(file) for file in group.folder.glob("checked/*/*.executed")
        ),
    ),
    NBGRADER: Method(Class.nbgrader_course, _nbgrader_autograde, _nbgrader_marks, parallel=False),
    OTTER: Method(lambda group, _: (group.plain(), group.otter_zip()), _otter, _otter_marks),
}  # fmt: skip
