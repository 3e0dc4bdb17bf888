"""Files that are broken, hostile or odd, each marked beside a neighbour whose work has to come out right.

What is unreadable is never run, so these cases belong to the ordinary tests. The notebooks that run are slow.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from graders.core.results import SubmissionResult
from graders.marking.batch import Marking
from graders.marking.questions import Questions
from graders.report import gradebook, results_json
from graders.sandbox.outside.leftovers import temporary_folder
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import find_submissions
from tests.notebooks import LESSON
from tests.sandbox.outside.structures import EXECUTED, FILE, FULL, GOOD, UNREADABLE, Case

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, links and limits are those of Linux")


def hand_in(folder: Path, cases: dict[str, Case]) -> None:
    """A folder for each case, and the neighbour's."""
    for case, what in {"neighbour": Case(GOOD, FULL), **cases}.items():
        student = folder / case.removeprefix("nb_name_")
        student.mkdir(parents=True)
        if callable(what.content):
            what.content(student / what.name)
        else:
            content = what.content.encode("utf-8", "replace") if isinstance(what.content, str) else what.content
            (student / what.name).write_bytes(content)


def mark(folder: Path, tier: str, warm: WarmProcess) -> dict[str, SubmissionResult]:
    """All submissions of a class, as `pytest graders --submissions` marks them; their reports carry no trap."""
    with temporary_folder("unpacked") as scratch:
        submissions = find_submissions(folder, [LESSON], scratch).submissions
        marking = Marking(Questions(5), BoxRunner(warm.box_modules, tier, warm=warm), jobs=2)
        marking.start(submissions, lambda result: None)
        batch = marking.batch()
        marking.close()
    for report in (results_json.render(batch), gradebook.render(batch)):
        assert all(character.isprintable() or character in "\n\u3000" for character in report)
    return {result.student: result for result in batch.submissions}


@pytest.fixture(scope="module")
def unread(tmp_path_factory: pytest.TempPathFactory, warm: WarmProcess) -> tuple[dict[str, SubmissionResult], set[str]]:
    """Results of all unreadable cases, and what appeared on the disk beside them."""
    folder = tmp_path_factory.mktemp("unreadable") / "class"
    hand_in(folder, UNREADABLE)
    before = set(folder.parent.rglob("*"))
    results = mark(folder, "D", warm)
    return results, {str(path) for path in set(folder.parent.rglob("*")) - before}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_notebook_is_unreadable(unread: tuple[dict[str, SubmissionResult], set[str]], case: str) -> None:
    result = unread[0][case]
    assert (result.status.value, result.score, result.max_score, result.exercises) == ("unreadable", 0, 4, ())
    assert result.graded
    assert UNREADABLE[case].expected in result.message
    assert "root:" not in result.message
    assert result.message.endswith(".")


def test_unreadable_work_costs_the_neighbour_nothing(unread: tuple[dict[str, SubmissionResult], set[str]]) -> None:
    results, appeared = unread
    assert [exercise.status.value for exercise in results["neighbour"].exercises] == FULL
    assert len(results) == len(UNREADABLE) + 1
    assert appeared == set()
    assert not any(
        Path(folder, name).exists() for folder in ("/tmp", tempfile.gettempdir()) for name in (FILE, f"hookwork-{FILE}")
    )


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory, warm: WarmProcess) -> dict[str, SubmissionResult]:
    """Results of all cases that run, in the best tier that there is."""
    folder = tmp_path_factory.mktemp("executed")
    folder.chmod(0o755)
    hand_in(folder / "class", EXECUTED)
    results = mark(folder / "class", next(tier for tier in "ABD" if not missing_for_tier(tier, warm=True)), warm)
    assert sorted(path.name for path in folder.iterdir()) == ["class"]
    return results


@pytest.mark.slow
@pytest.mark.parametrize("case", ["neighbour", *EXECUTED])
def test_an_odd_notebook_is_marked_for_what_it_does(executed: dict[str, SubmissionResult], case: str) -> None:
    result = executed[case.removeprefix("nb_name_")]
    expected = EXECUTED[case].expected if case in EXECUTED else FULL
    assert result.status.value == "graded", result.message
    assert [exercise.status.value for exercise in result.exercises] == expected, result.exercises
    assert result.score == sum(points for points, status in zip((1, 1, 2), expected) if status == "passed")
    for exercise in result.exercises:
        assert exercise.message.isprintable()


@pytest.mark.slow
def test_nothing_was_installed_or_left(executed: dict[str, SubmissionResult]) -> None:
    assert len(executed) == len(EXECUTED) + 1
    assert not Path("x").exists()
