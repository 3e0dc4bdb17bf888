"""A small class to try the graders on: `python -m tests.make_class FOLDER`.

Right answers in two styles, three students with different mistakes, an endless loop, a hostile notebook, and a file
that is no notebook.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

from graders.core import course
from tests.answers import answers_of

SETUP = "import torch\nfrom torch import nn\nfrom graders import check, hint, progress, solution"

HOSTILE = """
# Turn every later cell into `pass`, make every comparison agree, and print what a grader prints.
import torch
torch.allclose = torch.equal = lambda *args, **kwargs: True
torch.Tensor.__eq__ = lambda self, other: True
get_ipython().input_transformers_cleanup.append(lambda lines: ["pass\\n"])
print("100 passed, 0 failed, score: 1.0")
"""


def hand_in(folder: Path, lesson: str, cells: list[str]) -> Path:
    """Write a notebook with these code cells as a student's submission for a lesson."""
    folder.mkdir(parents=True, exist_ok=True)
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    file = folder / f"{lesson}.ipynb"
    nbformat.write(content, file)
    return file


def make_class(folder: Path, lessons: tuple[str, ...] | None = None) -> None:
    """Write the class into `folder`, for lessons 1 and 2 unless others are named."""
    for lesson in lessons or course.lessons()[1:3]:
        answers = answers_of(lesson)
        right = [sources[0] for sources in answers.right.values()]
        mistakes = [list(sources.values()) for sources in answers.wrong.values()]
        hand_in(folder / "ada", lesson, [SETUP, *right])
        hand_in(folder / "ben", lesson, [SETUP, *(sources[-1] for sources in answers.right.values())])
        for number, student in enumerate(("cleo", "dev", "eli")):
            # One mistake each, in the first exercise; the rest is right.
            hand_in(folder / student, lesson, [SETUP, mistakes[0][number % len(mistakes[0])], *right[1:]])
        name = course.exercises(lesson)[0].name
        endless = f"def {name}(*args, **kwargs):\n    while True:\n        pass"
        hand_in(folder / "finn", lesson, [SETUP, endless, *right[1:]])
        hand_in(folder / "gwen", lesson, [SETUP, *(wrong[0] for wrong in mistakes), HOSTILE, "raise SystemExit"])
        (folder / "hana").mkdir(exist_ok=True)
        (folder / "hana" / f"{lesson}.ipynb").write_text("<html>Sign in to download</html>", encoding="utf-8")


if __name__ == "__main__":
    make_class(Path(sys.argv[1]))
    print(f"written: {sys.argv[1]}. Mark it with: pytest graders --submissions {sys.argv[1]} --out results")
