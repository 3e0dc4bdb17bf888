"""Leaves out of a program what makes no difference to what it shows.

What a learner wrote does not run here. The wrong programs of the exercise that show in the program what the answer
showed stand for it: a statement goes if they, and the reference, show exactly the same without it.
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import nn

from graders.core.expect import Seen
from graders.probing.known_state import known_state
from graders.scenes.results import copy_value
from graders.scenes.scene import ADDRESS
from graders.verdict.comparing import DEFAULT_TOLERANCE, find_differences
from graders.wire.data import decode, encode

Make = Callable[[], Callable[..., Any]]
"""Makes a function anew, so that it keeps nothing from an earlier run."""
MESSAGE = 60
"""Of the text of an exception that a program passes over, so many characters count."""
RUNS = 150
"""After so many runs a program stays as it is by then: clocks would give other programs on other machines."""


def shown_by(program: str, names: Mapping[str, Any]) -> tuple[Any, str]:
    """What the last line of a program prints with these names, and the exception with which it ends, as text."""
    (tree, body), error = _printed_by(program, names)
    return (None if error else decode(tree, body)), error


def _printed_by(program: str, names: Mapping[str, Any]) -> tuple[tuple[Any, bytes], str]:
    shown: list[Any] = [None]
    # As `print` in the program; copied at once, since a value may change with the end of what is open there.
    show = lambda *values: shown.append(copy_value(values if values[1:] else values[0]))  # noqa: E731
    with known_state(0):
        try:
            exec(_compiled(program), {"torch": torch, "nn": nn, "F": nn.functional, **names, "print": show})
            last = shown[-1].item() if isinstance(shown[-1], np.generic) else shown[-1]
            return encode(last), ""
        except BaseException as error:  # a `KeyboardInterrupt` may be one of the program's own
            return encode(None), ADDRESS.sub("…", f"{type(error).__name__}: {error}")


@functools.lru_cache(maxsize=1)  # the same text runs with one function after the other, and runs faster than this
def _compiled(program: str) -> CodeType:
    return compile(program, "<string>", "exec")


def alike(shown: Any, wanted: Any) -> bool:
    """Whether a decoded value is the one that is wanted."""
    return not list(find_differences(Seen([shown], "it"), [wanted], DEFAULT_TOLERANCE))


def reduced(program: str, name: str, functions: Sequence[Make]) -> str:
    """The program without the statements that make no difference to any of these functions, called `name` in it.

    Its last statement stays, and those that return something, or define what others use: a program that passes over
    exceptions would hide that it is missing. So do those that use the function, but for a call by itself. What raises
    on purpose stays: it is the point. A pass stays, be it a call of what the function was given or a backward pass:
    another answer may act there.
    What is left of the garbage of others differs from run to run, so that its collector stays.
    """
    tree, left = ast.parse(program), itertools.count(RUNS, -1)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == name]
    given = {part.id for call in calls for part in ast.walk(call) if isinstance(part, ast.Name)} - {name}
    raising = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _raises(node)}

    def shows_the_same() -> bool:
        text = _noting(tree)
        return all(next(left) > 0 and run(text, make) == was for make, was in wanted)

    def reduce(body: list[Any]) -> None:
        for node in body[::-1]:
            names, at = _names(node, ast.Store), body.index(node)
            needed = {"gc", *raising, *([] if _is_a_call(node) and body is tree.body else [name])}
            stays = node is tree.body[-1] or len(body) == 1 or needed & _names(node, ast.Load)
            if not (stays or _raises(node) or isinstance(node, ast.Return) or _runs(node, given)):
                del body[at]
                if not names & _names(tree, ast.Load) and shows_the_same():
                    continue
                body.insert(at, node)
            for inner in (getattr(node, "body", []), *(part.body for part in getattr(node, "handlers", []))):
                reduce(inner if isinstance(inner, list) else [])

    def run(text: str, make: Make) -> Any:
        passed_over: list[str] = []
        note = lambda: passed_over.append(repr(sys.exc_info()[1])[:MESSAGE])  # noqa: E731 - called in the program
        return _printed_by(text, {name: make(), "_note": note}), passed_over

    text = _noting(tree)
    wanted = [(make, run(text, make)) for make in functions]
    reduce(tree.body)
    return "\n".join(line for line in ast.unparse(tree).splitlines() if line)


def _noting(tree: ast.Module) -> str:
    """The text of a program that notes which exceptions it passes over: without a line they may be other ones."""
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            node.body.insert(0, ast.parse("_note()").body[0])
    return ast.unparse(tree)


def _is_a_call(node: ast.AST) -> bool:
    """Whether a statement is a call, perhaps with a name for its result."""
    return isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call)


def _raises(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Raise) for part in ast.walk(node))


def _runs(node: ast.AST, given: Collection[str]) -> bool:
    """Whether one of these is called in it, or a backward pass begins."""
    called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    return any(getattr(one, "id", "") in given or getattr(one, "attr", "") in ("backward", "grad") for one in called)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """The names, and names of attributes, that are stored or loaded in a part of a program."""
    found = {getattr(part, "name", "") for part in ast.walk(node) if context is ast.Store} - {"", None}
    parts = [part for part in ast.walk(node) if isinstance(getattr(part, "ctx", None), context)]
    found |= {part.id for part in parts if isinstance(part, ast.Name)}
    return found | {part.attr for part in parts if isinstance(part, ast.Attribute)}
