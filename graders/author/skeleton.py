"""`hookwork new`: writes the parts of a new exercise and its stories, with all that `hookwork build --check` asks for.

They can be imported at once. `TODO:` marks what the author has to write. For each mark that is left, `build --check`
names the file, the line and what belongs there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from keyword import iskeyword
from pathlib import Path

from graders.author.places import TODO, exercise_files
from graders.core import course
from graders.core.files import write_atomically
from graders.core.source import SourceError, exercise_cells
from graders.verdict.scene_exercise import KEY

GRADER = '''\
"""Exercise @KEY@."""

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import @NAME@


@exercise(
    "@KEY@",
    points=1,
    minutes=10,  # @TODO@ how long a person with three months of PyTorch takes
    difficulty=1,  # @TODO@ 1 (easy), 2 or 3 (hard)
    core=False,  # @TODO@ whether those with little time should do it, too
    title="@TODO@ what the learner makes, in a few words",
    hints=(
        "@TODO@ a first hint: which tool it takes",
        "@TODO@ a second hint, which nearly gives the answer",
    ),
    scene=stories(
        promises=[@NAME@.result_is_right, @NAME@.left_alone],
        axes=@NAME@.AXES,
    ),
)
class Test@CLASS@:
    """@TODO@ in at most 45 words, what `@NAME@(@ARGUMENTS@)` does and returns.

    **Example.**

    >>> # @TODO@ an example that can be followed by hand
    >>> @NAME@(@EXAMPLE@)
    tensor([2.])

    **Fine print.** @TODO@ what even a careful reader would not expect, or nothing.
    """

    def reference(@ARGUMENTS@):
        # @TODO@ a formula, torch.autograd.grad, or a hook in another style than your solution's
        return @FIRST@.detach() + @FIRST@.detach()

    class Mistakes:
        # @TODO@ a wrong program for each way in which people go wrong here
        def did_nothing(@ARGUMENTS@):
            """@TODO@ what went wrong, and how to fix it."""
            return @FIRST@.detach()
'''

SCENE = '''\
"""Stories of @KEY@. An answer can read them, so they hold none."""

from typing import Any

from graders.scenes.story import Call, Draw, Seen
from graders.scenes.watch import Watch

AXES = {"dtype": ("float32", "float64"), "rank": (1, 0, 2)}
# @TODO@ what may differ from call to call, the plainest value first: each value occurs in every marking


def result_is_right(call: Call, draw: Draw, case: Any) -> Seen:
    """The result is right."""
    # @TODO@ what a caller does, in lines that a learner may read and run, and what shows
    @FIRST@ = draw.tensor().requires_grad_()
@OTHERS@    result = call(@ARGUMENTS@)
    yield "the result", result


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else is as it was."""
    @FIRST@ = draw.tensor().requires_grad_()
@OTHERS@    before = Watch(@FIRST@=@FIRST@)
    call(@ARGUMENTS@)
    yield "by the call", before.differences()
'''

ANSWERS = '''\
"""Answers to @KEY@."""

from graders.author.answers import Wrong

# @TODO@ right answers in other styles than that of the lesson
RIGHT = [
    """
def @NAME@(@ARGUMENTS@):
    return (2 * @FIRST@).detach()
""",
]

# @TODO@ wrong answers that show something which no mistake of the grader shows, or none
WRONG = [
    Wrong(
        "changes what it was given",
        violates="Leave what you were given as you found it",
        check="test_everything_else_is_as_it_was",
        source="""
def @NAME@(@ARGUMENTS@):
    return 2 * @FIRST@.requires_grad_(False)
""",
    ),
]
'''

CELL = """\
# %% [markdown]
# @TODO@ what leads to the exercise


# %% exercise="@KEY@"
def @NAME@(@ARGUMENTS@):
    ### BEGIN SOLUTION
    # @TODO@ your solution
    return 2 * @FIRST@.detach()
    ### END SOLUTION


"""

SOURCE = """\
# %% [markdown]
# # Lesson @NUMBER@. @TOPIC@: @TODO@ what it is about
#
# **The question.** @TODO@ what the learner can answer afterwards

# %%
import torch

from graders import check, hint, progress, solution

@CELL@# %% [markdown]
# ## Recap
#
# @TODO@ what to remember

# %%
progress()
"""

_END = re.compile(r"^# %% \[markdown\]\n# ## Recap|^# %%\nprogress\(\)", re.M)


def new_exercise(
    key: str, topic: str | None = None, arguments: str = "x", root: Path = course.PACKAGE.parent
) -> list[Path]:
    """Write the parts of a new exercise, and of its lesson if that is new; returns the files, the grader first.

    `topic` names a new lesson, in lower case with underscores; None if the lesson exists. `arguments` are those of the
    learner's function, with commas. Raises `SourceError` before anything is written.
    """
    if not (root / "pyproject.toml").is_file():
        raise SourceError("exercises are written in a clone of the course: see graders/author/your-own-lesson.md")
    if not KEY.fullmatch(key):
        raise SourceError(f"{key!r} is not an exercise key: it looks like 03-scale-grad")
    lesson, names = _lesson_stem(key, topic, root), _argument_names(arguments)
    found = exercise_files(key, lesson, root)
    source = found.source.read_text(encoding="utf-8") if found.source.exists() else ""
    if key in exercise_cells(source):
        raise SourceError(f"{found.source.relative_to(root)} has a cell for {key}: choose another key, or edit that")
    for file in (found.grader, found.answers, found.scene):
        if file.exists():
            raise SourceError(f"{file.relative_to(root)} exists: choose another key, or edit that")
    texts = {
        found.grader: _fill_template(GRADER, key, lesson, names),
        found.answers: _fill_template(ANSWERS, key, lesson, names),
        found.scene: _fill_template(SCENE, key, lesson, names),
        found.source: _with_cell(source, key, lesson, names),
    }
    for file in (found.grader, found.answers):
        if not (file.parent / "__init__.py").exists():
            texts[file.parent / "__init__.py"] = f'"""Lesson {int(lesson[:2])}. {_lesson_title(lesson)}."""\n'
    for file, text in texts.items():
        write_atomically(file, text)
    return list(texts)


def _lesson_stem(key: str, topic: str | None, root: Path) -> str:
    """The stem of the lesson to which the key belongs. Raises `SourceError` when `topic` does not fit."""
    there = sorted({file.name.removeprefix("lesson_") for file in root.glob(f"graders/exercises/lesson_{key[:2]}_*")})
    if there:
        if topic is not None and there[0] != f"{key[:2]}_{topic}":
            raise SourceError(f"lesson {key[:2]} is {there[0]}: leave --topic out, or take another number")
        return there[0]
    if topic is None:
        raise SourceError(f"there is no lesson {key[:2]} yet: name its topic, as in --topic watching_gradients")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", topic):
        raise SourceError(f"{topic!r} is not a topic: it looks like watching_gradients")
    return f"{key[:2]}_{topic}"


def _argument_names(text: str) -> list[str]:
    """The names in a list with commas. Raises `SourceError` for anything else."""
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) < len(names) or not all(name.isidentifier() and not iskeyword(name) for name in names):
        raise SourceError(f"{text!r} does not name the arguments of a function: it looks like 'module, limit'")
    return names


def _with_cell(source: str, key: str, lesson: str, names: Sequence[str]) -> str:
    """The lesson's source with a cell for the exercise added before the recap; a new source if it is empty."""
    cell = _fill_template(CELL, key, lesson, names)
    if not source:
        return _fill_template(SOURCE.replace("@CELL@", CELL), key, lesson, names)
    ends = [match.start() for match in _END.finditer(source)]
    place = ends[0] if ends else len(source)
    before = source[:place].rstrip("\n")
    return f"{before}\n\n{cell}{source[place:]}" if ends else f"{before}\n\n{cell.rstrip()}\n"


def _fill_template(template: str, key: str, lesson: str, arguments: Sequence[str]) -> str:
    name = course.key_file_stem(key)
    values = {
        "KEY": key, "NAME": name, "CLASS": "".join(word.capitalize() for word in name.split("_")),
        "ARGUMENTS": ", ".join(arguments), "FIRST": arguments[0],
        "OTHERS": "".join(f"    {name} = draw.number(-3, 3)\n" for name in arguments[1:]),
        "EXAMPLE": ", ".join(["torch.tensor([1.0])", *["2.0"] * (len(arguments) - 1)]),
        "NUMBER": str(int(lesson[:2])), "TOPIC": _lesson_title(lesson), "TODO": TODO,
    }  # fmt: skip
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], template)


def _lesson_title(lesson: str) -> str:
    return lesson[3:].replace("_", " ").capitalize()
