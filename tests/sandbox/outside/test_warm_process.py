"""Boxes forked from the warm process: the same results as from started ones, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from graders.author.answers import answers_to
from graders.core import course
from graders.core.results import ExerciseResult
from graders.core.transcript import read_transcript
from graders.marking.questions import LessonQuestions
from graders.sandbox.outside.boxes import prestarted_boxes
from graders.sandbox.outside.memory import process_tree
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import WARM_TIERS, missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from graders.verdict.judge_submission import Verdicts, judge_submission
from graders.wire.forking import ForkerDied
from graders.wire.launch import BoxPlan, BoxRequest, LaunchPlan

ONE_OF = 48
"""So many answers of a file there is one that is tried with and without pictures."""
TIERS = [tier for tier in WARM_TIERS if not missing_for_tier(tier, warm=True)]


def statuses(cells: list[str], box_modules: Path, warm: WarmProcess | None, tier: str = "D") -> list[tuple[str, str]]:
    run = read_transcript(BoxRunner(box_modules, tier, warm=warm).run(cells, []).frames)
    assert run.ended == "finished", run.message
    return [(cell.status, cell.message) for cell in run.cells]


@pytest.mark.slow
def test_a_lesson_is_marked_alike_warm_and_cold(box_modules: Path, warm: WarmProcess) -> None:
    lesson = course.lesson_stems()[-1]
    content = nbformat.read(course.solutions_folder() / f"{lesson}.ipynb", as_version=4)
    cells = [cell.source for cell in content.cells if cell.cell_type == "code"]
    asked = LessonQuestions.for_seed(course.lesson_exercises(lesson), 3)
    marks = [marks_of(cells, asked, BoxRunner(box_modules, TIERS[0], warm=process)) for process in (warm, None)]
    assert marks[0] == marks[1]
    assert {result.status.value for result in marks[0][2]} == {"passed"}


def marks_of(
    cells: list[str], asked: LessonQuestions, runner: BoxRunner
) -> tuple[str, list[str], list[ExerciseResult]]:
    """How the run and each cell ended, and the results of all exercises."""
    run = read_transcript(runner.run(cells, asked.probes).frames)
    results = list(judge_submission(asked.exercises, Verdicts(asked.verdicts.draws), cells, run))
    return run.ended, [cell.status for cell in run.cells], results


@pytest.mark.slow  # many notebooks for each lesson
@pytest.mark.parametrize(
    "lesson", [lesson for lesson in course.lesson_stems() if "plt." in course.lesson_source(lesson)]
)
def test_all_answers_are_marked_alike_with_and_without_pictures(
    lesson: str, box_modules: Path, warm: WarmProcess
) -> None:
    content = nbformat.read(course.solutions_folder() / f"{lesson}.ipynb", as_version=4)
    solved = [cell.source for cell in content.cells if cell.cell_type == "code"]
    asked = LessonQuestions.for_seed(course.lesson_exercises(lesson), 3)
    answers = [[answer.source for answer in answers_to(exercise).every] for exercise in asked.exercises]
    # A notebook holds an answer to each exercise below the solved lesson. All of them would take half an hour.
    for number in range(1, max(map(len, answers)), ONE_OF):
        cells = [*solved, *(sources[number % len(sources)] for sources in answers)]
        plain, drawn = (
            marks_of(cells, asked, BoxRunner(box_modules, TIERS[0], warm=warm, keep_outputs=keep))
            for keep in (False, True)
        )
        assert plain == drawn


@pytest.mark.slow  # in each tier two kernels are started anew, for comparison
@pytest.mark.parametrize("tier", TIERS)
def test_notebooks_behave_as_in_a_started_box(tier: str, box_modules: Path, warm: WarmProcess) -> None:
    cells = [
        "import matplotlib\nmatplotlib.pyplot",  # forgotten imports fail as they do at home
        "import torch\ntorch.utils.checkpoint.nonsense",
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0).step()",
        "import torch.utils.data\nassert list(torch.utils.data.DataLoader(range(4), num_workers=2))",
        "import os\nopen('x.txt', 'w').write('1')\nassert os.getcwd().endswith('work')",
        "assert 'graders.sandbox.inside.session' not in __import__('sys').argv[0]\n!echo hello",
        "import random\nfirst = random.random()",
        "assert torch.initial_seed() == 67280421310721\nraise ValueError(torch.rand(2))",
        "import sys\nassert not {'safetensors', 'graders.nets'} & set(sys.modules)",
        "from graders.nets.shapes import shapes_net\nimport safetensors\nassert safetensors.torch",
        "import threading\nassert not any('History' in type(one).__name__ for one in threading.enumerate())",
        "assert 'import threading' in In[-2]\n%history -n 1",
        "import os\nos._exit(3)",
        "later = 1",
    ]
    started = (
        "D" if missing_for_tier(tier) else tier
    )  # without bubblewrap, tier A is to be had from the warm process alone
    assert statuses(cells, box_modules, warm, tier) == statuses(cells, box_modules, None, started)


def test_forked_kernels_draw_numbers_of_their_own(box_modules: Path, warm: WarmProcess) -> None:
    cells = ["import random, numpy\nraise ValueError(f'{random.random()} {numpy.random.rand()}')"]
    (first,), (second,) = statuses(cells, box_modules, warm), statuses(cells, box_modules, warm)
    assert first[0] == "raised"
    assert all(number != other for number, other in zip(first[1].split()[1:], second[1].split()[1:]))


@pytest.mark.parametrize("tier", TIERS)
def test_nothing_is_left_when_a_box_ends(tier: str, box_modules: Path, warm: WarmProcess) -> None:
    cells = ["import subprocess\nsubprocess.Popen(['sleep', '1000'])"]
    BoxRunner(box_modules, tier, warm=warm).run(cells, [])
    assert warm._process is not None
    deadline = time.monotonic() + 5
    while (left := process_tree(warm._process.pid)[1:]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes here")
def test_files_that_are_none_are_not_waited_for(tmp_path: Path) -> None:
    names = ("sparse", "pipe", "zeros", "itself", "gone")
    sparse, pipe, zeros, itself, gone = files = [tmp_path / f"{name}.ipynb" for name in names]
    sparse.touch()
    os.truncate(sparse, 6 << 30)
    os.mkfifo(pipe)
    zeros.symlink_to("/dev/zero")
    itself.symlink_to(itself.name)
    assert not gone.exists()
    with prestarted_boxes(now=True, files=files) as boxes:
        assert boxes.warm._modules == ()


def test_it_begins_early_is_replaced_when_it_was_killed_and_boxes_end_with_it(files: list[Path]) -> None:
    with prestarted_boxes(now=True, files=files[:2]) as boxes:
        process, box_modules = boxes.warm, boxes.warm.box_modules
        assert process._process is not None
        pid = process._process.pid
        assert statuses(["x = 1"], box_modules, process) == [("ok", "")]
        for name, needs in (("._dynamo", OPTIMIZES), (".pyplot", DRAWS)):
            # A module is imported when the first notebook that seems to need it comes.
            is_there = IS_THERE(name)
            assert statuses([is_there], box_modules, process) == [("raised", "AssertionError")]
            assert statuses([is_there, needs], box_modules, process) == [("ok", ""), ("ok", "")]
            assert statuses([is_there], box_modules, process) == [("ok", "")]
        assert process._process.pid == pid
        os.kill(pid, signal.SIGKILL)
        process._process.wait()
        assert statuses(["x = 1"], box_modules, process) == [("ok", "")]
        pid = process._process.pid
        forked = process.fork(
            BoxRequest(LaunchPlan(tier="D", box=BoxPlan("/nonexistent")), "/", {}),
            [os.open(os.devnull, os.O_RDWR) for _ in range(3)],
        )
        assert forked.wait(10) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "module", ["conftest", "instructor.machines", "instructor.command", "instructor.request", "learner.commands"]
)
def test_it_begins_before_torch_is_imported_here(module: str) -> None:
    slow = "{'torch', 'numpy', 'nbformat'}"
    program = (
        f"import sys, graders.sandbox.outside.warm_process, graders.{module}\nassert not {slow} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


IS_THERE = (
    "import sys\nassert any(name.endswith({!r}) for group in sys.meta_path[0]._groups for name in group.modules)".format
)
OPTIMIZES = "import torch\ntorch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0).step()"
DRAWS = "import matplotlib.pyplot as plt\nplt.plot([1.0, 2.0])"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Notebooks that were handed in: one that is missing, a plain one, and one that makes an optimizer and draws."""
    found = [tmp_path / name for name in ("missing.ipynb", "plain.ipynb", "both.ipynb")]
    found[1].write_text("loss.backward()")
    found[2].write_text(OPTIMIZES + DRAWS)
    return found


def test_what_notebooks_will_need_is_imported_beside_the_first_boxes(files: list[Path]) -> None:
    with prestarted_boxes(now=True, files=files) as boxes:
        for cell in ("pass", IS_THERE("._dynamo"), IS_THERE(".pyplot")):
            assert statuses([cell], boxes.warm.box_modules, boxes.warm) == [("ok", "")]


def test_prestarted_boxes_have_their_modules_and_ends_what_nobody_waited_for() -> None:
    with prestarted_boxes(now=True) as boxes:
        process = boxes.warm
        assert process.box_modules.joinpath("graders/sandbox/inside/fork_server.py").exists()
        begun = process._process
    assert begun is not None
    assert begun.returncode == -signal.SIGKILL  # nobody waits until it has imported everything
    assert not process.box_modules.exists()
    with prestarted_boxes(now=False) as boxes:
        assert list(boxes.warm.box_modules.iterdir()) == []
        assert boxes.warm._process is None


@pytest.mark.parametrize("begun", [False, True])
def test_what_cannot_be_started_says_why(tmp_path: Path, begun: bool) -> None:
    (tmp_path / "graders").mkdir()
    (tmp_path / "graders/__init__.py").write_text("raise ImportError('a broken module')")
    with WarmProcess(tmp_path) as process:
        if begun:
            process.start()
        with pytest.raises(ForkerDied, match="ImportError: a broken module"):
            process.fork(BoxRequest(LaunchPlan(tier="D", box=BoxPlan("/nonexistent")), "/", {}), [])
        assert not process.is_available()


def test_where_nothing_can_be_forked_nothing_is_started(box_modules: Path) -> None:
    with WarmProcess(box_modules, can_fork=False) as process:
        process.start()
        assert not process.is_available()
        assert process._process is None
