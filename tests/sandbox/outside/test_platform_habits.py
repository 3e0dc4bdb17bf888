"""What notebooks from Colab, Vertex and Kaggle do as a matter of course, in the best tier that holds here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from graders.core import course
from graders.core.results import ExerciseResult
from graders.core.transcript import Cell, Run, read_transcript
from graders.marking.questions import LessonQuestions
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from graders.verdict.judge_submission import judge_submission
from tests.notebooks import BRANCH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pip and kernels as they are on Linux")

EXERCISE = course.find_exercise("01-branch-grads")
ASKED = LessonQuestions.for_seed([replace(EXERCISE, cases=EXERCISE.cases[:1])], 20)
IMPORTS = "import torch\nfrom torch import nn"
ANSWER = BRANCH.replace("    a = w + x\n", "    a = torch.add(w, x)\n", 1)
"""A right answer that needs the import."""


@dataclass(frozen=True)
class Marked:
    """What became of a notebook: its run, what cells printed, and the result of `ANSWER` where it stands."""

    run: Run
    printed: str
    result: ExerciseResult

    @property
    def verdict(self) -> tuple[str, str]:
        """Status and message."""
        return self.result.status.value, self.result.message


Mark = Callable[..., Marked]


@pytest.fixture(scope="module")
def tier() -> str:
    return next(tier for tier in "ABD" if not missing_for_tier(tier, warm=True))


@pytest.fixture(scope="module")
def mark(box_modules: Path, warm: WarmProcess, tier: str) -> Mark:
    """Run these cells in a box, and judge."""

    def run_cells(*cells: str) -> Marked:
        frames = BoxRunner(box_modules, tier, warm=warm, keep_outputs=True).run(cells, ASKED.probes).frames
        run = read_transcript(frames)
        (result,) = judge_submission(ASKED.exercises, ASKED.verdicts, cells, run)
        shown = [json.loads(frame.body) for frame in frames if frame.type == "output"]
        return Marked(run, "".join(output.get("text", "") for output in shown), result)

    return run_cells


def statuses(run: Run) -> list[str]:
    return [cell.status for cell in run.cells]


RESTARTS = {
    "do_shutdown": "get_ipython().kernel.do_shutdown(True)",
    "do_shutdown of the application": "import IPython\nIPython.Application.instance().kernel.do_shutdown(True)",
    "exit_now of the kernel": "get_ipython().kernel.exit_now = True",
    "exit_now of the shell": "get_ipython().kernel.shell.exit_now = True",
    "ask_exit": "get_ipython().ask_exit()",
    "exit": "exit()",
    "quit": "quit",
    "the end of the loop": "import asyncio\nasyncio.get_running_loop().stop()",
    "the end of tornado's loop": "from tornado.ioloop import IOLoop\nIOLoop.current().stop()",
    "a script": "from IPython.display import HTML\nHTML('<script>Jupyter.notebook.kernel.restart()</script>')",
}
"""With these a process stays what it was, so that nothing has to run again."""


def test_a_restart_in_a_cell_costs_nothing(mark: Mark) -> None:
    tries = [cell for restart in RESTARTS.values() for cell in (restart, "import time; time.sleep(0.3)", "before")]
    found = mark(IMPORTS, "before = 1", *tries, ANSWER)
    assert found.verdict == ("passed", "")
    after = iter(statuses(found.run)[2:-1])
    assert dict(zip(RESTARTS, zip(after, after, after), strict=True)) == dict.fromkeys(RESTARTS, ("ok", "ok", "ok"))


def test_no_cell_can_end_all_processes_of_its_box_at_once(mark: Mark, tier: str) -> None:
    if tier == "D":
        pytest.skip("without walls this would end the tests")
    found = mark(IMPORTS, "!kill -9 -1", "import os\nos.kill(-1, 9)", ANSWER)
    assert found.verdict == ("passed", "")
    assert statuses(found.run) == ["ok", "ok", "raised", "ok"]


# Packages that are not there.

WITHOUT_PACKAGE = {
    "above": ("import no_such_package as nsp\n" + IMPORTS, ANSWER),
    "in one line": ("import no_such_package, torch", ANSWER),
    "a name that a package does not have": ("from torch import no_such_name, nn\nimport torch", ANSWER),
    "used above": ("import no_such_package as nsp\nframe = nsp.f()\nframe.head()\n" + IMPORTS, ANSWER),
    "used in another cell": ("import no_such_package as nsp", "nsp.f(1)\n" + IMPORTS, ANSWER),
    "everything of it": ("from no_such_package.all import *\nlearn = Learner()\n" + IMPORTS, ANSWER),
    "a class made of it": ("import no_such_package as p\nclass A(p.B):\n    pass\na = A()\n" + IMPORTS, ANSWER),
    "within a statement": ("if True:\n    import no_such_package\n" + IMPORTS, ANSWER),
    "under a magic": ("%%capture\nimport no_such_package\n" + IMPORTS, ANSWER),
    "all in one cell": ("import no_such_package\n" + IMPORTS + "\n" + ANSWER,),
}


@pytest.mark.parametrize("case", WITHOUT_PACKAGE)
def test_a_package_that_is_not_there_costs_what_needs_it_and_is_told(mark: Mark, case: str) -> None:
    found = mark(*WITHOUT_PACKAGE[case])
    assert found.verdict == ("passed", "")
    assert "raised" in statuses(found.run)
    assert found.run.missing_modules == (() if "a name" in case else ("no_such_package",))


def test_another_error_still_ends_its_cell(mark: Mark) -> None:
    found = mark("import no_such_package\nassert 1 > 2\n" + IMPORTS, ANSWER)
    why = "ModuleNotFoundError: No module named 'no_such_package'; AssertionError"
    assert found.run.cells[0] == Cell(0, "raised", why)
    assert found.verdict == (
        "raised",
        f"`branch_grads` needs `torch`, which was not defined, because code cell 1 failed with {why}.",
    )


def test_a_name_that_is_simply_not_there_ends_its_cell(mark: Mark) -> None:
    found = mark("import no_such_package as nsp", "not_mentioned_before\n" + IMPORTS, ANSWER)
    assert found.verdict == (
        "raised",
        "`branch_grads` needs `torch`, which was not defined, because code cell 2 failed with NameError: "
        "name 'not_mentioned_before' is not defined.",
    )


def test_an_answer_that_needs_the_package_itself_says_so(mark: Mark) -> None:
    found = mark(IMPORTS, "import no_such_package as nsp", ANSWER.replace("torch.add(w, x)", "nsp.add(w, x)"))
    assert found.verdict == (
        "raised",
        "`branch_grads` needs `nsp`, which was not defined, because code cell 2 failed with ModuleNotFoundError: "
        "No module named 'no_such_package'.",
    )
    inside = mark(IMPORTS, ANSWER.replace("    a = ", "    import no_such_package\n    a = ", 1))
    assert inside.result.message.startswith("`branch_grads` raised ModuleNotFoundError: No module named")
    assert inside.run.missing_modules == ("no_such_package",)


def test_a_notebook_that_asks_whether_a_package_is_there_is_told_that_it_is_not(mark: Mark) -> None:
    asking = "try:\n    import no_such_package\nexcept ImportError:\n    import torch"
    found = mark(asking, ANSWER)
    assert found.verdict == ("passed", "")
    assert (statuses(found.run), found.run.missing_modules) == (["ok", "ok"], ())


COLAB = """\
import os
from google.colab import drive, files, output, userdata
import google.colab.auth as auth
from google.colab.patches import cv2_imshow
drive.mount("/content/drive", force_remount=True)
auth.authenticate_user()
os.environ["TOKEN"] = userdata.get("TOKEN")
for name, data in files.upload().items():
    print(name, len(data))
output.enable_custom_widget_manager()
with output.use_tags("figures"):
    cv2_imshow([1])
files.download("model.pt")
drive.flush_and_unmount()
"""


def test_what_a_notebook_wants_of_colab_does_nothing(mark: Mark) -> None:
    found = mark(COLAB + IMPORTS, ANSWER, "assert 'google.colab' in __import__('sys').modules")
    assert found.verdict == ("passed", "")
    assert statuses(found.run) == ["ok"] * 3
    assert found.run.missing_modules == ()


def test_a_notebook_that_asks_whether_this_is_colab_is_told_that_it_is_not(mark: Mark) -> None:
    asking = "try:\n    import google.colab\n    IN_COLAB = True\nexcept ImportError:\n    IN_COLAB = False"
    setup = (
        "if IN_COLAB:\n    from google.colab import drive\n    1 / 0\nassert 'google.colab' not in str(get_ipython())"
    )
    found = mark(f"{asking}\n{setup}\n{IMPORTS}", ANSWER)
    assert (found.verdict, statuses(found.run)) == (("passed", ""), ["ok", "ok"])


# Installing.

SAID = "No network: nothing can be installed while a notebook is marked."
PIP = {
    "!pip": "!pip install {}",
    "%pip": "%pip install -q {}",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-m', 'pip', 'install', '{}']))",
    "what pip has to understand": "!python -m pip install '{}>=0'",
}


def test_pip_says_at_once_that_there_is_no_network(mark: Mark) -> None:
    clock = "import time; since = time.monotonic()", "assert time.monotonic() - since < 60"  # on a busy machine, too
    tries = [way.format("no-such-package") for way in PIP.values()]
    found = mark(clock[0], *tries, clock[1], IMPORTS, ANSWER)
    assert found.verdict == ("passed", "")
    assert statuses(found.run) == ["ok"] * (len(PIP) + 4)
    assert found.printed.count(SAID) == len(PIP)
    assert found.printed.count("ERROR: ") >= len(PIP)
    assert found.printed.count("no-such-package") >= len(PIP)


def test_pip_finds_what_is_there(mark: Mark) -> None:
    found = mark(*(PIP[way].format("torch") for way in ("!pip", "subprocess")))
    if "No module named pip" in found.printed:
        pytest.skip("there is no pip")
    assert found.printed.count("Requirement already satisfied: torch") == 2
    assert "ERROR: " not in found.printed
