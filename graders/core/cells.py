"""Which cell of a notebook defines a name, read from its text: nothing is run."""

from __future__ import annotations

import ast
import contextlib
import re
import warnings
from collections.abc import Sequence

MAX_PARSED = 20_000
"""Characters of a cell that Python's parser gets to see outside of the box."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
           ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip


def home_of(cells: Sequence[str], name: str) -> int | None:
    """The index of the last cell that would bind `name`: the one whose answer counts."""
    homes = (index for index in reversed(range(len(cells))) if name in cells[index] and defines(cells[index], name))
    return next(homes, None)


def defines(source: str, name: str) -> bool:
    """Whether a cell would bind `name` in the notebook's namespace.

    A cell that cannot be parsed, because of a syntax error or a magic, is searched as text; so is one of unusual
    length, because Python's parser may crash on code of extreme depth.
    """
    if len(source) <= MAX_PARSED:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes: they would quote the learner's text on our terminal
            return _binds(ast.parse(source), name)
    # No `\s`: it matches new lines, and thousands of empty lines would take minutes.
    word = re.escape(name) + r"(?!\w)"
    made = rf"(?:async[ \t]+)?(?:def|class)[ \t]+{word}|{word}[ \t]*=(?!=)"
    imported = rf"(?:from[ \t]+\S+[ \t]+)?import[ \t][^#\n]*(?<!\w){word}"
    return re.search(rf"^[ \t]*(?:{made}|{imported})", source, re.M) is not None


def _binds(tree: ast.AST, name: str) -> bool:
    """Whether a module binds `name` outside of functions and classes, or declares it `global` in one."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if name in _bound_by(node):
            return True
        if isinstance(node, _SCOPES):
            left += [part for part in ast.walk(node) if isinstance(part, ast.Global)]
        else:
            left += ast.iter_child_nodes(node)
    return False


def _bound_by(node: ast.AST) -> set[str]:
    """The names that one node binds by itself."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.alias(name=name, asname=alias):
            return {alias or name.split(".")[0]}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
        case ast.Global(names=names):
            return set(names)
    return set()
