"""`hookwork new`: the three parts of an exercise, with everything that `hookwork build --check` asks for.

They can be imported at once. What an author has to write is marked by `TODO:`, and as long as a mark is left
`build --check` names the file, the line and what belongs there.
"""

from __future__ import annotations

import re
from pathlib import Path

from graders.author.places import TODO, places
from graders.core import course
from graders.core.exercise import KEY
from graders.core.files import write_atomically
from graders.core.source import SourceError, exercise_cells

GRADER = '''\
"""Exercise @KEY@."""

from __future__ import annotations

from graders.authoring import (
    ALL,
    Circumstances,
    Mistake,
    Witness,
    close,
    exercise,
    expect,
    nothing_changed,
    prepared,
)


@exercise(
    "@KEY@",
    points=1,
    minutes=10,  # @TODO@ how long a person with three months of PyTorch takes
    difficulty=1,  # @TODO@ 1, 2 or 3
    core=False,  # @TODO@ whether it is on the core path
    title="@TODO@ what the learner makes, in a few words",
    hints=(
        "@TODO@ a first hint: which tool it takes",
        "@TODO@ a second hint, which nearly gives the answer",
    ),
    circumstances=Circumstances(
        # The axes and their values are in graders/core/circumstances.py.
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
        },
        excludes={
            "place": "@TODO@ cover it, or say why the contract leaves it out",
            "grad": "@TODO@ cover it, or say why the contract leaves it out",
            "values": "@TODO@ cover it, or say why the contract leaves it out",
            "number": "@TODO@ cover it, or say why the contract leaves it out",
            "collection": "@TODO@ cover it, or say why the contract leaves it out",
            "model": "@TODO@ cover its axes, or say why the contract leaves them out",
            "hooks": "@TODO@ cover its axes, or say why the contract leaves them out",
            "call": "@TODO@ cover its axes, or say why the contract leaves them out",
            "failure": "@TODO@ cover its axes, or say why the contract leaves them out",
        },
    ),
)
class Test@CLASS@:
    """Write `@NAME@(x)`, @TODO@ which does what with what it is given, and returns what?

    **Example.** @TODO@ an example that can be followed by hand
    """

    def draw(rng, dtype, rank, layout):
        # @TODO@ make the inputs from the seed; the other functions get them by name
        return {"x": rng.tensor(*rng.shape(rank), dtype=dtype, layout=layout)}

    def probe(student, x, layout):
        # @TODO@ call the learner's function and return what is seen; decide nothing here
        x = prepared(x, layout=layout)
        witness = Witness(x=x)
        result = student.@NAME@(x)
        return {"result": result, "changed": witness.changes()}

    mistakes = (
        # @TODO@ how people go wrong here, and how the numbers show it
        Mistake(
            "did-nothing",
            lambda seen, x: close(seen["result"], x),
            "@TODO@ what went wrong, and how to mend it",
        ),
    )

    def test_the_result_is_right(seen, x):
        # @TODO@ compute what has to come out by a formula or torch.autograd.grad, and not as your solution does
        expect(seen["result"]).close_to(2 * x)

    def test_everything_else_is_as_it_was(seen):
        nothing_changed(seen["changed"])
'''

ANSWERS = '''\
"""Answers to @KEY@."""

from graders.author.answers import Wrong

# @TODO@ right answers in other styles than that of the lesson
RIGHT = [
    """
def @NAME@(x):
    return x.detach() + x.detach()
""",
]

# @TODO@ a wrong answer for each mistake, and for each demand of the contract
WRONG = [
    Wrong(
        "returns the values that it was given",
        violates="@TODO@ the words of the contract that it breaks, or a rule, as in rule 3",
        check="test_the_result_is_right",
        mistake="did-nothing",
        source="""
def @NAME@(x):
    return x.detach()
""",
    ),
    Wrong(
        "changes what it was given",
        violates="rule 2",
        check="test_everything_else_is_as_it_was",
        source="""
def @NAME@(x):
    return 2 * x.requires_grad_(False)
""",
    ),
]
'''

CELL = """\
# %% [markdown]
# @TODO@ what leads to the exercise


# %% exercise="@KEY@"
def @NAME@(x):
    ### BEGIN SOLUTION
    # @TODO@ your solution
    return 2 * x.detach()
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


def new_exercise(key: str, topic: str | None = None, root: Path = course.PACKAGE.parent) -> list[Path]:
    """Write the parts of an exercise that does not exist yet, and of its lesson; returns the files, grader first.

    `topic` names a lesson that does not exist yet, in small letters. Where it raises `SourceError`, nothing is written.
    """
    if not (root / "pyproject.toml").is_file():
        raise SourceError("exercises are written in a clone of the course: see graders/author/your-own-lesson.md")
    if not KEY.fullmatch(key):
        raise SourceError(f"{key!r} is no key of an exercise: it looks like 03-scale-grad")
    lesson = _lesson(key, topic, root)
    found = places(key, lesson, root)
    source = found.source.read_text(encoding="utf-8") if found.source.exists() else ""
    if key in exercise_cells(source):
        raise SourceError(f"{found.source.relative_to(root)} has a cell for {key}: choose another key, or edit that")
    for file in (found.grader, found.answers):
        if file.exists():
            raise SourceError(f"{file.relative_to(root)} exists: choose another key, or edit that")
    texts = {
        found.grader: _filled(GRADER, key, lesson),
        found.answers: _filled(ANSWERS, key, lesson),
        found.source: _with_cell(source, key, lesson),
    }
    for file in (found.grader, found.answers):
        if not (file.parent / "__init__.py").exists():
            texts[file.parent / "__init__.py"] = f'"""Lesson {int(lesson[:2])}. {_title(lesson)}."""\n'
    for file, text in texts.items():
        write_atomically(file, text)
    return list(texts)


def _lesson(key: str, topic: str | None, root: Path) -> str:
    """The stem of the lesson to which the key belongs."""
    there = sorted({file.name.removeprefix("lesson_") for file in root.glob(f"graders/lesson_{key[:2]}_*")})
    if there:
        if topic is not None and there[0] != f"{key[:2]}_{topic}":
            raise SourceError(f"lesson {key[:2]} is {there[0]}: leave --topic out, or take another number")
        return there[0]
    if topic is None:
        raise SourceError(f"there is no lesson {key[:2]} yet: name its topic, as in --topic watching_gradients")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", topic):
        raise SourceError(f"{topic!r} is no topic: it looks like watching_gradients")
    return f"{key[:2]}_{topic}"


def _with_cell(source: str, key: str, lesson: str) -> str:
    """The lesson's source with a cell for the exercise before its end, or a new one."""
    cell = _filled(CELL, key, lesson)
    if not source:
        return _filled(SOURCE.replace("@CELL@", CELL), key, lesson)
    ends = [match.start() for match in _END.finditer(source)]
    place = ends[0] if ends else len(source)
    before = source[:place].rstrip("\n")
    return f"{before}\n\n{cell}{source[place:]}" if ends else f"{before}\n\n{cell.rstrip()}\n"


def _filled(template: str, key: str, lesson: str) -> str:
    name = course.words(key)
    values = {
        "KEY": key, "NAME": name, "CLASS": "".join(word.capitalize() for word in name.split("_")),
        "NUMBER": str(int(lesson[:2])), "TOPIC": _title(lesson), "TODO": TODO,
    }  # fmt: skip
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], template)


def _title(lesson: str) -> str:
    return lesson[3:].replace("_", " ").capitalize()
