"""The limit: `python -m tests.benchmarks.limit LESSON SEED WORKERS DRAWN NOTEBOOK...` runs cells and probes, no more.

A process with one thread imports all that is needed and forks a child for each notebook, `WORKERS` at a time. The child
passes the cells to `exec`, draws their figures if DRAWN is `drawn`, and calls each probe on each draw. Nothing is
isolated, limited, sent, judged or written.
"""

from __future__ import annotations

import os
import sys
from io import BytesIO
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from graders.core import course
from graders.probing.asking import answer_probe
from graders.sandbox.inside.fork_server import import_late_module, preload_modules
from graders.sandbox.inside.huge_pages import HugePages
from graders.sandbox.inside.kernel import CONFIG, NO_PICTURES
from graders.submissions.intake import read_notebook
from graders.wire.data import arrays_to_tensors, decode, encode
from graders.wire.launch import LATE_MODULES


def main() -> None:
    lesson, seed, workers, drawn, *notebooks = sys.argv[1:]
    os.environ["MPLBACKEND"] = "agg"
    preloaded = preload_modules()
    for name in LATE_MODULES:
        import_late_module(name, preloaded)
    pages = HugePages()
    while pages.move():
        pass
    if drawn != "drawn":  # `show` asks IPython whether anybody looks at pictures
        InteractiveShell.instance(config=Config(CONFIG | NO_PICTURES))
    exercises = course.lesson_exercises(lesson)
    asked = [(exercise.probe, *encode(draw)) for exercise in exercises for draw in exercise.draws(int(seed))]
    running = 0
    for notebook in notebooks:
        if running == int(workers):
            _wait_for_one()
            running -= 1
        running += 1
        if os.fork() == 0:
            code = 1
            try:
                namespace = {"__name__": "__main__"}
                for cell in read_notebook(Path(notebook)).cells:
                    exec(compile(cell, "<cell>", "exec"), namespace)
                    _close_figures(drawn=drawn == "drawn")
                for probe, tree, body in asked:
                    found = answer_probe(probe, namespace, arrays_to_tensors(decode(tree, body)), int(seed))
                    assert found.head["type"] == "seen", found.head
                code = 0
            finally:
                os._exit(code)
    for _ in range(running):
        _wait_for_one()


def _close_figures(*, drawn: bool) -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        if drawn:
            pyplot.figure(number).savefig(BytesIO(), format="png", bbox_inches="tight")
        pyplot.close(number)


def _wait_for_one() -> None:
    if os.wait()[1]:
        sys.exit("a notebook did not run through")


if __name__ == "__main__":
    main()
