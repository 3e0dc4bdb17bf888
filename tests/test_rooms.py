"""Which room of `graders/` may import which: data flows in one direction, and there is no circle."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import graders

PACKAGE = Path(graders.__file__).parent

MAY_IMPORT = {
    "wire": set(),
    "nets": set(),
    "figures": set(),
    "probing": {"wire"},
    "core": {"wire"},
    "scenes": {"wire", "probing", "nets"},
    "sandbox": set(),
    "sandbox/inside": {"wire", "probing", "scenes"},  # the warm process imports scenes in advance
    "sandbox/outside": {"core", "wire", "submissions", "sandbox/inside"},  # of the inside, what can be confined here
    "submissions": {"core", "wire"},
    "verdict": {"core", "wire", "probing", "scenes"},
    "exercises": {"wire", "verdict", "scenes"},
    "marking": {"core", "wire", "probing", "submissions", "sandbox/outside", "verdict", "scenes"},
    "report": {"core", "submissions"},
    "learner": {"core", "submissions", "sandbox/outside", "marking", "verdict"},
    "instructor": {"core", "wire", "submissions", "sandbox/outside", "marking", "report"},
    "author": {"core", "wire", "sandbox/outside", "scenes", "verdict", "marking", "learner"},
    "conftest": {"instructor"},
    "cli": {"core", "sandbox/outside", "learner", "instructor", "author"},
    "__init__": {"learner"},
}
"""For each room, those that it may import, from the ground up. A room of a single file has its name."""


def room_of(parts: tuple[str, ...]) -> str:
    return "/".join(parts[:2]) if parts[0] == "sandbox" and parts[1:] != ("__init__",) else parts[0]


@functools.cache
def imports() -> dict[str, dict[str, list[str]]]:
    """For each room, the rooms that it imports, and where."""
    found: dict[str, dict[str, list[str]]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        module = file.relative_to(PACKAGE).with_suffix("").parts
        if module[0] == "course":  # copies of lessons in an installation
            continue
        seen = found.setdefault(room_of(module), {})
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for name in imported(node):
                if name and room_of(name) != room_of(module):
                    seen.setdefault(room_of(name), []).append("/".join(module))
    return found


def imported(node: ast.AST) -> list[tuple[str, ...]]:
    """The modules of ours that a statement imports, as the parts of their names below `graders`."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        whole = node.module == "graders"
        names = [f"graders.{alias.name}" for alias in node.names] if whole else [node.module]
    else:
        return []
    return [tuple(name.split(".")[1:]) for name in names if name.split(".")[0] == "graders"]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_what_it_may_and_the_table_says_no_more(room: str) -> None:
    seen = imports().get(room, {})
    strangers = {other: files for other, files in seen.items() if other not in MAY_IMPORT[room]}
    assert strangers == {}
    assert MAY_IMPORT[room] - set(seen) == set()


def test_every_room_is_in_the_table() -> None:
    assert set(imports()) == set(MAY_IMPORT)


def test_there_is_no_circle() -> None:
    order = list(TopologicalSorter(MAY_IMPORT).static_order())
    assert order.index("sandbox/outside") < order.index("marking")
    assert order.index("verdict") < order.index("marking")


def test_no_files_import_each_other_in_a_circle() -> None:
    modules = {file.relative_to(PACKAGE).with_suffix("").parts: file for file in PACKAGE.rglob("*.py")}
    graph: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for module, file in modules.items():
        names = [name for node in ast.walk(ast.parse(file.read_text("utf-8"))) for name in imported_files(node)]
        graph[module] = {name for name in names if name in modules and name != module}
    assert len(list(TopologicalSorter(graph).static_order())) == len(modules)


def imported_files(node: ast.AST) -> list[tuple[str, ...]]:
    """As `imported`, and what is imported from a package may be a file of it."""
    names = imported(node)
    if isinstance(node, ast.ImportFrom):
        names += [(*name, alias.name) for name in names for alias in node.names]
    return names


def test_no_test_patches_an_attribute() -> None:
    """What a test wants otherwise is an argument, a real file or a process of its own."""
    patching = re.compile(r"\bmonkeypatch\.(set|del)attr\b|\bpatch\.(set|del)attr\b|\bmock\b")
    tests = Path(__file__).parent
    files = [file for file in sorted(tests.rglob("*.py")) if file != Path(__file__)]
    answers = tests / "answers"  # a learner may patch what they like
    assert [
        str(file) for file in files if answers not in file.parents and patching.search(file.read_text("utf-8"))
    ] == []


def test_the_way_of_a_notebook_names_files_and_functions_that_exist() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    way = page.partition("## One notebook, from folder to gradebook")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. (.*(?:\n +.*)*)", way, re.M)
    assert len(steps) > 20
    for step in steps:
        names = re.findall(r"`([\w/]+(?:\.py)?)`", step)
        files = [PACKAGE / name for name in names if name.endswith(".py")]
        assert [file for file in files if not file.is_file()] == []
        defined = {name for file in files for name in names_defined(file)}
        assert [name for name in names if not name.endswith(".py") and name not in defined] == []


def names_defined(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_every_room_stands_on_the_page() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8").partition("## The rooms")[2]
    folders = {room.partition("/")[0] for room in MAY_IMPORT if (PACKAGE / room).is_dir()}
    assert folders - set(re.findall(r"`(\w+)`", page)) == set()


AT_THE_TOP = {
    ".ci", ".editorconfig", ".gitattributes", ".github", ".gitignore", ".pre-commit-config.yaml", "LICENSE",
    "README.md", "constraints.txt", "docs", "graders", "lessons", "noxfile.py", "pyproject.toml", "solutions", "tests",
}  # fmt: skip


def test_nothing_else_lies_at_the_top() -> None:
    if not (PACKAGE.parent / ".git").exists() or not shutil.which("git"):
        pytest.skip("without a checkout and git it is not known what of all that lies here is the project's")
    # A checkout may belong to another user, whom git would distrust.
    command = ["git", "-c", "safe.directory=*", "ls-files"]
    listed = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True).stdout
    assert {name.partition("/")[0] for name in listed.splitlines()} == AT_THE_TOP
