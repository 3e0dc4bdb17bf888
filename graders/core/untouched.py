"""Recognises cells of exercises that nobody worked in, and copies of them below a cell with an answer."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from graders.core.cells import bound_names_by_cell, parse_cell
from graders.core.source import STUB

LONGEST_STUB = 4_000
"""Characters of the longest cell that may be a stub. The longest of the course has 600."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class UntouchedCopy:
    """The cell at `index` is a stub of `name`, and a cell above it has an answer."""

    index: int
    name: str


def is_untouched_cell(source: str) -> bool:
    """Whether a cell defines something, every part of which still raises `NotImplementedError` and does nothing else.

    An answer above a last line `raise NotImplementedError` that was left standing is not untouched.
    """
    tree = parse_cell(source) if STUB in source and len(source) <= LONGEST_STUB else None
    if tree is None:
        return False
    definitions = [node for node in tree.body if isinstance(node, _DEFINITIONS)]
    others = [node for node in tree.body if not isinstance(node, (*_DEFINITIONS, *_IMPORTS)) and not _is_text(node)]
    return bool(definitions) and not others and all(map(_is_stub, definitions))


def leave_out_copies(cells: Sequence[str], names: Collection[str]) -> tuple[tuple[str, ...], list[UntouchedCopy]]:
    """The cells to run, and the untouched copies among them, of which only the imports are left.

    A copy would take away an answer above it. `names` are those that the exercises ask for.
    """
    answered: set[str] = set()
    copies = []
    for index, bound in enumerate(bound_names_by_cell(cells)):
        asked = bound & set(names)
        if not asked or not is_untouched_cell(cells[index]):
            answered |= asked
        elif asked <= answered:
            copies.append(UntouchedCopy(index, min(asked)))
    left_out = {copy.index for copy in copies}
    return tuple(_imports_of(source) if index in left_out else source for index, source in enumerate(cells)), copies


def _imports_of(source: str) -> str:
    tree = parse_cell(source)
    return "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, _IMPORTS)) if tree else ""


def _is_stub(node: ast.stmt) -> bool:
    """Whether a function only raises `NotImplementedError`, or a class has only such functions."""
    assert isinstance(node, _DEFINITIONS)
    body = [part for part in node.body if not _is_text(part)]
    if isinstance(node, ast.ClassDef):
        return bool(body) and all(isinstance(part, _DEFINITIONS) and _is_stub(part) for part in body)
    *before, last = body or [ast.Pass()]
    return _raises_only(last) and all(map(_prepares_base, before))


def _raises_only(node: ast.stmt) -> bool:
    match node:
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name), args=[], keywords=[])):
            return name == "NotImplementedError"
    return False


def _prepares_base(node: ast.stmt) -> bool:
    """Whether a statement is `super().__init__()`, which a stub may have."""
    match node:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"), args=[])
        ):
            return True
    return False


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
