"""Where an exercise is probed: grading says what a check right below the answer says."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from graders.core import course
from graders.core.cells import defining_cell_by_name
from graders.marking.in_process import check_namespace
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from tests.sandbox.outside.one_notebook import results_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked")

EXERCISES = [
    replace(course.find_exercise(key), cases=course.find_exercise(key).cases[:2])
    for key in ("03-scale-grad", "03-clamp-grad")
]

SCALE = "def scale_grad(t, s):\n    return t.register_hook(make_hook(s))"
CLAMP = "def clamp_grad(t, lo, hi):\n    return t.register_hook(make_hook(lo, hi))"
SCALING = "def make_hook(s):\n    return lambda grad: grad * s"
CLAMPING = "def make_hook(lo, hi):\n    return lambda grad: grad.clamp(lo, hi)"
DROPPING = "def make_hook(*bounds):\n    return lambda grad: None"
PLAIN_SCALE = "def scale_grad(t, s):\n    return t.register_hook(lambda grad: grad * s)"
PLAIN_CLAMP = "def clamp_grad(t, lo, hi):\n    return t.register_hook(lambda grad: grad.clamp(lo, hi))"
NO_SCALE = "def scale_grad(t, s):\n    return t.register_hook(lambda grad: None)"
STUB = "def scale_grad(t, s):\n    raise NotImplementedError"
CRASH = "import os\nos._exit(1)"


@dataclass(frozen=True)
class Case:
    """Cells; what `check` says right below each of the two answers, and what grading says."""

    cells: tuple[str, ...]
    checked: tuple[str, str]
    graded: tuple[str, str]


def agree(*cells: str, both: tuple[str, str] = ("passed", "passed")) -> Case:
    """A notebook of which checks and grading say the same."""
    return Case(cells, both, both)


CASES = {
    "two helpers of one name": agree(SCALING + "\n" + SCALE, CLAMPING + "\n" + CLAMP),
    "the same in cells of their own": agree(SCALING, SCALE, CLAMPING, CLAMP),
    "in another order": agree(CLAMPING, CLAMP, SCALING, SCALE),
    "a later cell breaks an answer": agree(SCALING, SCALE, PLAIN_CLAMP, DROPPING),
    "a later cell takes an answer away": agree(PLAIN_SCALE, PLAIN_CLAMP, "del scale_grad"),
    "a later cell repairs an answer": agree(DROPPING, SCALE, PLAIN_CLAMP, SCALING, both=("wrong", "passed")),
    "right, then wrong": agree(PLAIN_SCALE, NO_SCALE, PLAIN_CLAMP, both=("wrong", "passed")),
    "wrong, then right": agree(NO_SCALE, PLAIN_CLAMP, PLAIN_SCALE),
    "right, then a cell that fails above the second": agree(PLAIN_SCALE, PLAIN_CLAMP, "1 / 0\n" + NO_SCALE),
    "a helper further down": Case((SCALE, PLAIN_CLAMP, SCALING), ("raised", "passed"), ("passed", "passed")),
    "a wrong helper further down": Case((SCALE, PLAIN_CLAMP, DROPPING), ("raised", "passed"), ("wrong", "passed")),
    "no helper at all": agree(SCALE, PLAIN_CLAMP, both=("raised", "passed")),
    "a stub": agree(STUB, PLAIN_CLAMP, both=("not-attempted", "passed")),
    "no cell is seen to define it": Case(
        (f"exec({PLAIN_SCALE!r})", PLAIN_CLAMP), ("not-attempted", "passed"), ("passed", "passed")
    ),
    "a stub, and an answer that no cell is seen to define": Case(
        (STUB, PLAIN_CLAMP, "globals().update(scale_grad=lambda t, s: t.register_hook(lambda grad: grad * s))"),
        ("not-attempted", "passed"),
        ("passed", "passed"),
    ),
    "a kernel that is lost later": agree(PLAIN_SCALE, CRASH, PLAIN_CLAMP),
    "a kernel that is lost in the last cell": agree(SCALING, SCALE, CLAMPING, CLAMP, CRASH),
    "kernels that are lost for ever": agree(
        PLAIN_SCALE, CRASH, CRASH, CRASH, CRASH, PLAIN_CLAMP, both=("passed", "not-attempted")
    ),
}


def checked(cells: Sequence[str]) -> tuple[str, ...]:
    """What `check` says right below each answer, in a notebook that is run from top to bottom.

    A cell that would end the process does nothing, and with four of them the rest is not run: as if the learner had
    started the kernel anew each time.
    """
    names: dict[str, Any] = {}
    found = {exercise.key: "not-attempted" for exercise in EXERCISES}
    for index, cell in enumerate(cells):
        if list(cells[:index]).count(CRASH) == 4:
            break
        with contextlib.suppress(ZeroDivisionError):
            exec(compile("" if cell == CRASH else cell, "<cell>", "exec"), names)
        found |= {
            exercise.key: check_namespace(exercise, names).status.value
            for exercise in EXERCISES
            if defining_cell_by_name(cells).get(exercise.name) == index
        }
    return tuple(found.values())


def graded(cells: Sequence[str], box_modules: Path, **options: Any) -> tuple[str, ...]:
    """What grading says."""
    results = results_of(list(cells), BoxRunner(box_modules, **options), EXERCISES)
    return tuple(result.status.value for result in results)


@pytest.mark.parametrize("name", CASES)
def test_a_check_below_the_answer_says_what_is_expected(name: str) -> None:
    assert checked(CASES[name].cells) == CASES[name].checked


@pytest.mark.parametrize(
    ("name", "fork"),
    # Where a probe runs decides over no cell before it, so some of the cases will do for the second way.
    [*((name, True) for name in CASES), *((name, False) for name in list(CASES)[::3])],
    ids=lambda value: {True: "forked probes", False: "probes in the kernel"}.get(value, value),
)
def test_grading_says_the_same(box_modules: Path, warm: WarmProcess, name: str, fork: bool) -> None:
    assert graded(CASES[name].cells, box_modules, fork=fork, warm=warm) == CASES[name].graded


EVERYTHING = (SCALING, SCALE, CRASH, CLAMPING, CLAMP, DROPPING)


@pytest.mark.slow  # kernels are started anew. `test_warm_process.py` marks a lesson in a started one that forks.
def test_grading_in_a_started_kernel_that_does_not_fork_says_the_same(box_modules: Path) -> None:
    assert graded(EVERYTHING, box_modules, fork=False) == ("passed", "passed")


@pytest.mark.parametrize("tier", ["A", "B"])
def test_grading_in_isolation_says_the_same(box_modules: Path, warm: WarmProcess, tier: str) -> None:
    if reason := missing_for_tier(tier, warm=True):
        pytest.skip(f"tier {tier} cannot be tried here: {reason}")
    assert graded(EVERYTHING, box_modules, tier=tier, warm=warm) == ("passed", "passed")


LITTERING = """\
import os, sys, torch
import matplotlib.pyplot as plt

def scale_grad(t, s):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    torch.nn.modules.module.register_module_forward_hook(lambda *_: 1 / 0)
    plt.figure()
    print("litter")
    return t.register_hook(lambda grad: grad * s)
state = torch.get_rng_state()"""
CLEAN = """\
assert torch.get_default_dtype() is torch.float32
assert torch.equal(torch.get_rng_state(), state)
assert torch.nn.Linear(1, 1)(torch.ones(1)).shape == (1,)
assert plt.get_fignums() == []
assert "probe" not in sys.modules
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    """


@pytest.mark.parametrize("fork", [True, False], ids=["forked probes", "probes in the kernel"])
def test_nothing_of_a_probe_reaches_the_next_cell(box_modules: Path, warm: WarmProcess, fork: bool) -> None:
    answer = PLAIN_CLAMP.replace("\n", "\n    ")
    # An answer that leaves another default dtype breaks rule 2; the exercise of the next cell does not notice.
    assert graded((LITTERING, CLEAN + answer), box_modules, fork=fork, warm=warm) == ("wrong", "passed")
