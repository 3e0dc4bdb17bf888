"""Find the names that a notebook's cells define, from their text alone: no code is run."""

from __future__ import annotations

import ast
import functools
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence

MAX_PARSED = 20_000
"""The longest cell, in characters, that is parsed outside a box: very deeply nested code can crash Python's parser."""

MAX_PARSED_TOGETHER = 200_000
"""The same limit for a whole notebook. The longest of the course has 31,000 characters; parsing this many takes up to
a second."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
           ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip

# Not `\s`, which also matches newlines: thousands of empty lines would take minutes.
_LOOKS_BOUND = re.compile(
    r"^[ \t]*(?:(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)|([^\W\d]\w*)[ \t]*=(?!=))", re.MULTILINE
)
_LOOKS_IMPORTED = re.compile(r"^[ \t]*(?:from[ \t]+\S+[ \t]+)?import[ \t]+([^#\n]*)", re.MULTILINE)


def defining_cell_by_name(cells: Sequence[str]) -> dict[str, int]:
    """For each name that these cells would bind, the index of the last cell that does: its definition is used."""
    return {name: index for index, names in enumerate(bound_names_by_cell(cells)) for name in names}


def bound_names_by_cell(cells: Sequence[str]) -> Iterator[frozenset[str]]:
    """The names that each cell of a notebook would bind; cells beyond `MAX_PARSED_TOGETHER` are searched as text."""
    left = MAX_PARSED_TOGETHER
    for source in cells:
        left -= len(source)
        yield bound_names(source) if left >= 0 else _search_bound_names(source)


def bound_names(source: str) -> frozenset[str]:
    """The names that a cell would bind in the notebook's namespace.

    A cell that cannot be parsed (a syntax error, a magic) or is longer than `MAX_PARSED` is searched as text.
    """
    return _parse_bound_names(source) if len(source) <= MAX_PARSED else _search_bound_names(source)


@functools.lru_cache(maxsize=4096)  # cells are looked at twice, and most are the same for the whole class
def _parse_bound_names(source: str) -> frozenset[str]:
    tree = parse_cell(source)
    return _search_bound_names(source) if tree is None else frozenset(_names_bound_in_tree(tree))


def parse_cell(source: str) -> ast.Module | None:
    """The syntax tree of a cell; None if it is longer than `MAX_PARSED` or cannot be parsed."""
    if len(source) > MAX_PARSED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about an invalid escape would print the learner's text here
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _search_bound_names(source: str) -> frozenset[str]:
    """The names that lines seem to bind, by their look: `def`, `class`, `=` and `import`."""
    source = without_invisible(source)  # Python refuses such a cell, but what it was to define is clear
    bound = {name for found in _LOOKS_BOUND.findall(source) for name in found if name}
    parts = (part for line in _LOOKS_IMPORTED.findall(source) for part in line.split(","))
    imported = (part.split(" as ")[-1].strip(" \t()") for part in parts)
    return frozenset(bound | {name.partition(".")[0] for name in imported if name})


def without_invisible(source: str) -> str:
    """The text of a cell without characters that nobody can see, and with plain spaces for all others."""
    kinds = {character: unicodedata.category(character) for character in set(source) if not character.isascii()}
    swaps = {ord(character): " " if kind == "Zs" else "" for character, kind in kinds.items() if kind in ("Cf", "Zs")}
    return source.translate(swaps) if swaps else source


def _names_bound_in_tree(tree: ast.AST) -> set[str]:
    """The names that a module binds outside functions and classes, or declares `global` inside one."""
    left: list[ast.AST] = [tree]
    names: set[str] = set()
    while left:
        node = left.pop()
        names.update(_names_bound_by_node(node))
        if isinstance(node, _SCOPES):
            left += [part for part in ast.walk(node) if isinstance(part, ast.Global)]
        else:
            left += ast.iter_child_nodes(node)
    return names


def _names_bound_by_node(node: ast.AST) -> Sequence[str]:
    """The names that one node binds, without its children."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.Name(id=name, ctx=ast.Store()):
            return (name,)
        case ast.alias(name=name, asname=alias):
            return (alias or name.split(".")[0],)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case ast.MatchMapping(rest=str(name)):
            return (name,)
        case ast.Global(names=names):
            return names
    return ()
