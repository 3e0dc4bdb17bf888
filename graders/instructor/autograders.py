"""Writes the files for marking elsewhere: on Gradescope, on GitHub, on SLURM, and in containers."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from graders.core import course
from graders.core.files import write_atomically

TEMPLATES = Path(__file__).with_name("templates")
_EXECUTABLE = ("setup.sh", "run_autograder")
_LEFT_OUT = {"__pycache__", "course", ".mypy_cache"}


def write_template(name: str, out: Path) -> None:
    """Write a file that is the same for everybody. Raises `OSError`."""
    write_atomically(out, (TEMPLATES / name).read_bytes())


def write_container(out: Path) -> None:
    """Write the Dockerfile of the image in which tier C runs notebooks. Raises `OSError`.

    The image gets what a notebook may import, in the versions installed here, and nothing of the course.
    """
    text = (TEMPLATES / "container" / "Dockerfile").read_text(encoding="utf-8")
    packages = " \\\n    ".join(f"'{name}'" for name in pinned_requirements())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    write_atomically(out, text.replace("PYTHON", python).replace("PACKAGES", packages))


def write_gradescope(out: Path) -> None:
    """Write the zip file from which Gradescope builds an autograder. Raises `OSError`.

    It contains the course itself, so that only the dependencies are downloaded. The same course always gives the same
    bytes.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(_archive_members()):
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.external_attr = (0o100755 if name in _EXECUTABLE else 0o100644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, content)
    write_atomically(out, packed.getvalue())


def _archive_members() -> Iterator[tuple[str, bytes]]:
    for file in (TEMPLATES / "gradescope").iterdir():
        yield file.name, file.read_bytes()
    yield "requirements.txt", ("\n".join(course_requirements()) + "\n").encode()
    constraints = course.PACKAGE.parent / "constraints.txt"
    yield "constraints.txt", constraints.read_bytes() if constraints.is_file() else b""
    for file in course.PACKAGE.rglob("*"):
        inside = file.relative_to(course.PACKAGE)
        if file.is_file() and not _LEFT_OUT & set(inside.parts):
            yield f"course/graders/{inside.as_posix()}", file.read_bytes()
    for name, folder in (("lessons", course.lessons_folder()), ("solutions", course.solutions_folder())):
        for file in folder.iterdir():
            if file.is_file():
                yield f"course/graders/course/{name}/{file.name}", file.read_bytes()


def course_requirements() -> list[str]:
    """The dependencies of the course as pip requirements, without those of its extras.

    Empty when the course is not installed as a package.
    """
    try:
        found = requires("hookwork") or []
    except PackageNotFoundError:
        found = []
    return sorted(requirement for requirement in found if not re.search(r";.*\bextra\b", requirement))


def pinned_requirements() -> list[str]:
    """The names of the dependencies with the versions installed here, without build labels such as `+cpu`."""
    names = [re.split(r"[^\w.-]", requirement)[0] for requirement in course_requirements()]
    return [f"{name}=={version(name).partition('+')[0]}" for name in names]


AUTOGRADER_WRITERS: dict[str, Callable[[Path], None]] = {
    "gradescope": write_gradescope,
    "github": partial(write_template, "github.yml"),  # the workflow that marks a pull request
    "slurm": partial(write_template, "mark_on_slurm.py"),  # the job that marks a class
    "container": write_container,
}
