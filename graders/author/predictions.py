"""Checks the predictions in a lesson's source, where guesses are right, and puts `...` in their place for learners."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from graders.core.source import SourceError, prediction_keys

KEY = re.compile(r"\d\d(-[a-z0-9]+)+")
PREDICT = "**Predict.**"
NO_GUESS = "no_guess"
"""Metadata of a text cell that says why nothing can be guessed: `# %% [markdown] no_guess="a matter of taste"`."""

EXPLAINS = "explains"
"""Metadata of a text cell that `compare` shows, so that it waits for the guess: `# %% [markdown] explains="KEY"`."""


@dataclass(frozen=True)
class Call:
    """A call of `guess` or `compare`: the index of its cell in the source, its key, and the names of its values."""

    cell: int
    key: str
    names: tuple[str, ...]


def without_answers(source: str) -> str:
    """A cell with `...` in place of each value of a guess, as learners get it. Other cells stay unchanged."""
    if not prediction_keys(source):
        return source
    text = source.encode()  # column offsets in a syntax tree count bytes
    starts = [0]
    for line in text.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    for keyword in reversed(_only_guess(source).keywords):
        value = keyword.value
        start = starts[value.lineno - 1] + value.col_offset
        stop = starts[(value.end_lineno or value.lineno) - 1] + (value.end_col_offset or 0)
        text = text[:start] + b"..." + text[stop:]
    return text.decode()


def check_pairs(cells: Sequence[NotebookNode], lesson: str) -> None:
    """Raises `SourceError` unless each guess has one compare, in a later cell, with the same key and names.

    Below it, and before any other text, stands what explains the outcome.
    """
    guesses = {}
    compares: dict[str, Call] = {}
    for number, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        if prediction_keys(cell.source):
            made = _parse_call(_only_guess(cell.source), number)
            if not KEY.fullmatch(made.key) or made.key[:2] != lesson[:2]:
                raise SourceError(f"the guess {made.key!r}: a key here looks like {lesson[:2]}-four-gradients")
            if made.key in guesses:
                raise SourceError(f"the guess {made.key!r} is there twice")
            guesses[made.key] = made
        for shown in _compare_calls(cell.source, number):
            if shown.key in compares:
                raise SourceError(f"compare({shown.key!r}) is there twice: show all of it once")
            compares[shown.key] = shown
    for key in guesses.keys() ^ compares.keys():
        there, missing = ("guess", "compare") if key in guesses else ("compare", "guess")
        raise SourceError(f"{there}({key!r}) is there without its {missing}")
    for key, made in guesses.items():
        if sorted(made.names) != sorted(compares[key].names):
            raise SourceError(f"guess({key!r}) and its compare have different names")
        if made.cell >= compares[key].cell:
            raise SourceError(f"compare({key!r}) belongs in a cell below its guess")
    _check_explanations(cells, [(made.cell, compares[key].cell, key) for key, made in guesses.items()])


def _check_explanations(cells: Sequence[NotebookNode], predictions: Sequence[tuple[int, int, str]]) -> None:
    """Raises `SourceError` where text below a guess may tell the answer. A prediction is its two cells and its key."""
    explained = [cell.metadata[EXPLAINS] for cell in cells if EXPLAINS in cell.metadata]
    for key in explained:
        if explained.count(key) > 1 or key not in [known for _, _, known in predictions]:
            raise SourceError(f'explains="{key}": there is no guess {key!r}, or another cell explains it')
    for guess, compare, key in predictions:
        if any(cell.cell_type == "markdown" for cell in cells[guess:compare]):
            raise SourceError(f"the guess {key!r}: no text may stand between it and its compare, which could tell it")
        text = next((cell for cell in cells[compare:] if cell.cell_type == "markdown"), None)
        if text is None or text.metadata.get(EXPLAINS) != key:
            raise SourceError(f'the first text below compare("{key}") says why this comes out, and waits until it has: '
                              f'# %% [markdown] {EXPLAINS}="{key}"')  # fmt: skip
        if PREDICT in text.source or re.search(r"^#+ ", text.source, re.M):
            raise SourceError(f"the explanation of {key!r} holds a heading or a question: begin another cell there")


def questions_without_guess(cells: Sequence[NotebookNode]) -> Iterator[str]:
    """The first words of each question that has neither a guess in the next cell nor a reason for having none."""
    for cell, following in zip(cells, [*cells[1:], None]):
        if cell.cell_type != "markdown" or PREDICT not in cell.source or cell.metadata.get(NO_GUESS):
            continue
        if following is None or following.cell_type != "code" or not prediction_keys(following.source):
            yield " ".join(cell.source.partition(PREDICT)[2].split()[:8])


def _only_guess(source: str) -> ast.Call:
    """The call of `guess`. Raises `SourceError` when its cell holds anything else, or a value has no name."""
    key = prediction_keys(source)[0]
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise SourceError(f"the guess {key!r} is not Python: {error.msg}") from None
    if len(body) != 1 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call):
        raise SourceError(f"the guess {key!r} needs a cell of its own, above the code that shows the answer")
    call = body[0].value
    values = [keyword.value for keyword in call.keywords if keyword.arg is not None]
    if not values or len(values) < len(call.keywords) or len(call.args) != 1:
        raise SourceError(f'the guess {key!r} names what is to be guessed, as in guess("{key}", w=5)')
    if any(isinstance(value, ast.Constant) and value.value is ... for value in values):
        raise SourceError(f"the guess {key!r}: write what is right; the build puts ... there for learners")
    return call


def _compare_calls(source: str, cell: int) -> Iterator[Call]:
    if "compare(" not in source:
        return
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError as error:
        raise SourceError(f"line {error.lineno} of a cell is not Python: {error.msg}") from None
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "compare":
            if len(node.args) != 1 or not isinstance(node.args[0], ast.Constant):
                raise SourceError(f"{ast.unparse(node)}: the first argument is the key of the guess, and the only one "
                                  "without a name")  # fmt: skip
            yield _parse_call(node, cell)


def _parse_call(node: ast.Call, cell: int) -> Call:
    (key,) = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
    return Call(cell, str(key), tuple(str(keyword.arg) for keyword in node.keywords))
