"""There is one way to read a file that strangers may have made, and one to start a Python of our own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import graders

PACKAGE = Path(graders.__file__).parent

READ_OTHERWISE = {
    "core/files.py": "is that way",
    "core/course.py": "the course",
    "instructor/autograders.py": "the course and its templates",
    "instructor/cluster.py": "the scheduler's file, which --cluster names",
    "instructor/lock.py": "opens what it creates",
    "instructor/request.py": "tables that options name",
    "learner/explain.py": "our messages",
    "learner/folder.py": "the course",
    "learner/paper.py": "a page that we wrote",
    "learner/reset.py": "the course",
    "learner/toolbox.py": "a module that we wrote",
    "learner/notebook/record.py": "locks a folder",
    "nets/lite0.py": "the weights of a package, whose hash is known",
    "report/pages.py": "our templates",
    "report/results_json.py": "our schema",
    "sandbox/outside/box_modules.py": "our modules",
    "sandbox/outside/box_users.py": "/etc",
    "sandbox/outside/leftovers.py": "locks our own folders",
    "submissions/members.py": "members of an open archive; new files",
    "sandbox/outside/memory.py": "/proc",
    "sandbox/outside/memory_cgroup.py": "/proc and /sys",
    "sandbox/outside/process_memory.py": "/proc",
    "sandbox/outside/processor.py": "/proc",
    "sandbox/outside/tiers.py": "creates a file",
    "sandbox/outside/visible.py": "/etc",
}
"""Files of ours that open or read something in another way, and what it is: nothing that was handed in."""
OF_THE_COURSE_OR_A_BOX = ("author/", "sandbox/inside/", "course/", "exercises/", "instructor/templates/")
"""Authors read the course alone; what is inside a box runs where everything is the notebook's."""


def reads_a_file(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id == "open"
    if not isinstance(function, ast.Attribute) or function.attr not in ("open", "read_text", "read_bytes"):
        return False
    own = isinstance(function.value, ast.Attribute) and function.value.attr == "stage"  # no file
    return not own


def test_nothing_that_was_handed_in_is_read_in_another_way() -> None:
    found = {
        name
        for file in PACKAGE.rglob("*.py")
        if not (name := file.relative_to(PACKAGE).as_posix()).startswith(OF_THE_COURSE_OR_A_BOX)
        and any(
            isinstance(node, ast.Call) and reads_a_file(node) for node in ast.walk(ast.parse(file.read_text("utf-8")))
        )
    }
    assert found == set(READ_OTHERWISE)


def commands() -> Iterator[str]:
    """The files of ours with a command line in which Python is given a program or a module."""
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            parts = node.elts if isinstance(node, ast.List | ast.Tuple) else []
            if any(isinstance(part, ast.Constant) and part.value in ("-c", "-m") for part in parts):
                yield file.relative_to(PACKAGE).as_posix()


def test_python_is_started_in_one_way_and_for_boxes_in_their_own_folders() -> None:
    outside = {f"sandbox/outside/{name}.py" for name in ("container", "launch", "tiers", "warm_process")}
    assert set(commands()) == {"learner/own_python.py", "sandbox/inside/client.py", *outside}


def test_processes_are_started_by_multiprocessing_in_our_own_folder_alone() -> None:
    """It starts Python in the current folder, which is searched for every module."""
    seen = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if any(word in file.read_text("utf-8") for word in ("import multiprocessing", "from multiprocessing"))
    }
    # The latter is about how tensors travel between a notebook's own processes.
    assert seen == {"author/workers.py", "sandbox/inside/tensor_sharing.py"}
