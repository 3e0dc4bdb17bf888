"""What the learner's commands lay out for a terminal."""

from __future__ import annotations

import io

import pytest

from graders.core.results import ExerciseResult, Status
from graders.core.terminal import Terminal
from graders.learner import screens
from tests.batches import exercise, graded
from tests.notebooks import LESSON
from tests.test_hostile_text import TRAPS, traps


def shown(found: ExerciseResult, width: int = 60) -> list[str]:
    out = io.StringIO()
    Terminal(out, width=width).print(screens.result_screen(graded("ann", found, lesson=LESSON)), crop=False)
    return [line.rstrip() for line in out.getvalue().split("\n")]


def test_a_program_is_printed_at_the_edge_and_no_line_of_it_is_broken_or_cut() -> None:
    program = ["if w:", f"    print(w)  # expected {'long ' * 40}value[1]", "# yours: [bold]x[/bold]"]
    lines = shown(exercise("01-a", Status.WRONG, 0, message="Return it. " * 20, program="\n".join(program) + "\n"))
    start = lines.index("  Run this below your answer to see it:")
    assert lines[start + 1 : start + 6] == ["", *program, ""]
    assert max(len(line) for line in lines if line not in program) <= 60
    assert not any("Run this" in line for line in shown(exercise("01-a", Status.WRONG, 0)))


@pytest.mark.parametrize("trap", TRAPS)
def test_no_trap_in_a_program_reaches_the_terminal(trap: str) -> None:
    assert not traps("".join(shown(exercise("01-a", Status.WRONG, 0, program=f"a = 1  # {TRAPS[trap]}"))))
