"""A small class to try the graders on: `python -m tests.make_class FOLDER`.

Right answers in two styles, three students with different mistakes, an endless loop, a hostile notebook, and a file
that is no notebook.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from graders.core import course
from tests import notebooks
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
    file = folder / f"{lesson}.ipynb"
    file.write_text(notebooks.text(*cells), encoding="utf-8")
    return file


def make_class(folder: Path, lessons: tuple[str, ...] | None = None) -> None:
    """Write the class into `folder`, for lessons 1 and 2 unless others are named."""
    for lesson in lessons or course.lesson_stems()[1:3]:
        answers = answers_of(lesson)
        right = [sources[0] for sources in answers.right.values()]
        mistakes = [list(sources.values()) for sources in answers.wrong.values()]
        hand_in(folder / "ada", lesson, [SETUP, *right])
        hand_in(folder / "ben", lesson, [SETUP, *(sources[-1] for sources in answers.right.values())])
        for number, student in enumerate(("cleo", "dev", "eli")):
            # One mistake each, in the first exercise; the rest is right.
            hand_in(folder / student, lesson, [SETUP, mistakes[0][number % len(mistakes[0])], *right[1:]])
        name = course.lesson_exercises(lesson)[0].name
        endless = f"def {name}(*args, **kwargs):\n    while True:\n        pass"
        hand_in(folder / "finn", lesson, [SETUP, endless, *right[1:]])
        hand_in(folder / "gwen", lesson, [SETUP, *(wrong[0] for wrong in mistakes), HOSTILE, "raise SystemExit"])
        (folder / "hana").mkdir(exist_ok=True)
        (folder / "hana" / f"{lesson}.ipynb").write_text("<html>Sign in to download</html>", encoding="utf-8")


def make_mixed_class(folder: Path, lesson: str) -> dict[str, str]:
    """A class of 200 as no platform makes it: every layout at once. For each student, what their work is.

    Six students handed in a second file, which is untouched; the work of ten is "unreadable", all other "right".
    """
    right = [SETUP, *(sources[0] for sources in answers_of(lesson).right.values())]
    stub = [SETUP, f"def {course.lesson_exercises(lesson)[0].name}(*args):\n    raise NotImplementedError"]
    became: dict[str, str] = {}

    def put(student: str, place: str, cells: list[str] = right, name: str = lesson, work: str = "right") -> None:
        became[student] = work
        made = hand_in(folder / "packing", lesson, [f"# {student}", *cells])
        (folder / place).mkdir(parents=True, exist_ok=True)
        made.rename(folder / place / f"{name}.ipynb")

    for n in range(60):
        put(f"canvas{n}", ".", name=f"canvas{n}_{'LATE_' * (n % 5 == 0)}{1000 + n}_{67000 + n}_{lesson}")
    for n in range(4):  # the second attempt is the worked one
        put(f"canvas{n}", ".", name=f"canvas{n}_{1000 + n}_{68000 + n}_{lesson}-1")
        put(f"canvas{n}", ".", stub, name=f"canvas{n}_{'LATE_' * (n % 5 == 0)}{1000 + n}_{67000 + n}_{lesson}")
    for n in range(50):
        put(f"Möödle Nr {n}", f"Möödle Nr {n}_{2000 + n}_assignsubmission_file_{'/my work' * (n % 3 == 0)}")
    for n in range(40):
        put(f"plain-{n}", f"plain-{n}{'/deeper' * (n % 4 == 0)}", name="homework" if n % 5 == 0 else lesson)
    for n in range(2):
        put(f"plain-{n}", f"plain-{n}{'/deeper' * (n % 4 == 0)}", stub, name="homework-0" if n % 5 == 0 else "01")
    for n in range(20):
        file = hand_in(folder / "packing", lesson, [f"# zipped{n}", *right])
        with zipfile.ZipFile(
            folder / f"zipped{n}_{3000 + n}_{69000 + n}_work.zip", "w", zipfile.ZIP_DEFLATED
        ) as packed:
            packed.write(file, f"a\\b\\{lesson}.ipynb" if n % 2 else f"deep/down/{lesson}.ipynb")
        became[f"zipped{n}"] = "right"
    for n in range(20):
        put(f"renamed-{n}", f"renamed-{n}", name=("Copy of lesson one", f"{lesson} (1)", "my hooks", "01 first")[n % 4])
    for n, suffix in enumerate((".html", ".py", ".pdf", ".docx", ".txt") * 2):
        (folder / f"wrong-{n}").mkdir()
        (folder / f"wrong-{n}" / (lesson + suffix)).write_text("")
        became[f"wrong-{n}"] = "unreadable"
    shutil.rmtree(folder / "packing")
    return became


if __name__ == "__main__":
    make_class(Path(sys.argv[1]))
    print(f"written: {sys.argv[1]}. Mark it with: pytest graders --submissions {sys.argv[1]} --out results")
