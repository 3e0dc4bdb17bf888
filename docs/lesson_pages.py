"""A Sphinx extension that makes a page of each lesson: what a learner reads, with what the cells show.

Text, code and stubs are those of `lessons/`. What a cell shows is taken from the executed notebook in `solutions/`,
so that a build of the site runs nothing; `hookwork build` wrote both. Of the solved exercises no code comes over.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbformat import NotebookNode

from graders.author.build import notebook_files
from graders.author.lesson import INSTALL_CELL
from graders.core import course, course_map, rules
from graders.core.files import write_atomically
from graders.core.source import prediction_keys

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NOTE = """\
:::{{tip}}
This page is for reading. To answer its exercises, open it as a notebook: `hookwork start` brings you all lessons
([how](../learn.md)). Or take {{download}}`{file} <../../lessons/{file}>` alone and open it in any Jupyter; its first
cell says how to install the course. What the cells below show was computed with the exercises solved.
:::"""
INDEX = """\
# The lessons

Each page is a notebook: text, code with what it prints, figures, and exercises with their contracts, stubs and hints.
The answers are yours to find; `check` tells what your function did ([how to start](../learn.md)).

The course takes {hours}. Above each exercise stands how long it takes, how hard it is, and whether it is on the core
path; the others go deeper.

{map}

```{{toctree}}
:hidden:

{pages}
```
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks which there are."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "lessons"))
    return {"parallel_read_safe": True}


def write_pages(folder: Path) -> None:
    """A notebook for each lesson, and an index; what is as it should be is left, so that Sphinx need not read it."""
    files = {f"{lesson}.ipynb": nbformat.writes(page(lesson)) + "\n" for lesson in course.lesson_stems()}
    files |= {"index.md": index(), rules.RULES_FILE_NAME: rules.rules_page()}
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.name not in files:
            old.unlink()
    for name, content in files.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            write_atomically(file, content)


def index() -> str:
    """The page that lists the lessons: the map of the course."""
    pages = [*(f"{course.lesson_title(lesson)} <{lesson}>" for lesson in course.lesson_stems()), "rules"]
    return INDEX.format(hours=course_map.whole_course_hours(), map=course_map.as_markdown(), pages="\n".join(pages))


def page(lesson: str) -> NotebookNode:
    """The notebook of a lesson as a page: learner's cells, and what those cells show that are no exercise."""
    learners, solved = (nbformat.read(file, as_version=4) for file in notebook_files(lesson))
    shown = {cell["id"]: cell for cell in solved.cells if cell.cell_type == "code"}
    hints = {exercise.key: exercise.hints for exercise in course.lesson_exercises(lesson)}
    cells = []
    for cell in learners.cells:
        if cell.cell_type == "markdown":
            cells.append(nbformat.v4.new_markdown_cell(cell.source))
            if len(cells) == 1:
                cells.append(nbformat.v4.new_markdown_cell(NOTE.format(file=f"{lesson}.ipynb")))
        elif cell.source not in (INSTALL_CELL, "progress()"):
            key = cell.metadata.get("nbgrader", {}).get("grade_id")
            answered = key or prediction_keys(cell.source)
            cells.append(_code(cell, [] if answered else _without_comparisons(shown[cell["id"]].outputs)))
            if key and key.endswith("-check"):
                cells.append(nbformat.v4.new_markdown_cell(folded(hints[key.removesuffix("-check")])))
    for number, cell in enumerate(cells):  # ids that are drawn at random would make every page new in every build
        cell["id"] = f"cell-{number}"
    # Of the metadata, those that say how to colour the code.
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={name: solved.metadata[name] for name in ("kernelspec", "language_info")},
    )


def _without_comparisons(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """What a cell shows, but for the panel that compares it with a guess: whoever reads a page made none."""
    return [output for output in outputs if "text/html" not in output.get("data", {})]


def _code(cell: NotebookNode, outputs: list[NotebookNode]) -> NotebookNode:
    tags = cell.metadata.get("tags", [])
    new = nbformat.v4.new_code_cell(cell.source, outputs=outputs, metadata={"tags": tags})
    for output in outputs:
        alt = output.get("metadata", {}).get("image/png", {}).get("alt")
        if alt:
            new.metadata["mystnb"] = {
                "image": {"alt": alt},
                "code_prompt_show": "The code of this figure",
                "code_prompt_hide": "The code of this figure",
            }
    return new


def folded(hints: tuple[str, ...]) -> str:
    """Hints, each folded away: the next one is a click of its own."""
    return "\n\n".join(
        f":::{{admonition}} Hint {number}\n:class: hint\n:collapsible: closed\n\n{hint}\n:::"
        for number, hint in enumerate(hints, 1)
    )


def anchor(title: str) -> str:
    """The anchor of a heading, as Jupyter makes it: the notebooks link to each other's headings."""
    return title.replace(" ", "-")
