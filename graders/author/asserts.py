"""Removes asserts from cells: the build runs them, but readers should not see the answer below the question."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graders.core.source import SourceError


def without_asserts(source: str) -> str:
    """A cell's code without its asserts, the comments right above them, and each `if` or `for` that holds nothing else.

    The result may be empty. Raises `SourceError` when the body of another statement would be left empty, when an assert
    shares a line with another statement, and when the cell is not valid Python.
    """
    if "assert" not in source:
        return source
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise SourceError(f"line {error.lineno} of a cell is not Python: {error.msg}") from None
    lines: list[str | None] = list(source.split("\n"))
    for node in _only_asserts(tree):
        start, stop = node.lineno - 1, node.end_lineno or node.lineno
        text = "\n".join(source.split("\n")[start:stop])
        if (text.strip() and not text.lstrip().startswith(("assert", "if", "for"))) or ";" in _code_after(source, node):
            raise SourceError(f"{text.strip()!r}: give the assert a line of its own")
        while start and source.split("\n")[start - 1].lstrip().startswith("#"):
            start -= 1  # a comment right above an assert is about it
        lines[start:stop] = [None] * (stop - start)
    return _close_gaps(lines)


def _code_after(source: str, node: ast.stmt) -> str:
    line = source.split("\n")[(node.end_lineno or node.lineno) - 1]
    return line.encode()[node.end_col_offset or 0 :].decode().split("#")[0]


def _only_asserts(tree: ast.AST) -> Iterator[ast.stmt]:
    """The outermost statements that do nothing but assert."""
    for _, body in ast.iter_fields(tree):
        children = body if isinstance(body, list) else [body]
        statements = [node for node in children if isinstance(node, ast.stmt)]
        gone = [node for node in statements if _is_assertion(node)]
        if gone and len(gone) == len(statements) and not isinstance(tree, ast.Module):
            raise SourceError(
                f"learners see no asserts, and without {ast.unparse(gone[0])!r} nothing is left of the "
                f"{type(tree).__name__} in line {getattr(tree, 'lineno', 1)} of its cell: print there what it shows"
            )
        yield from gone
        for node in children:
            if isinstance(node, ast.AST) and node not in gone:
                yield from _only_asserts(node)


def _is_assertion(node: ast.stmt) -> bool:
    if isinstance(node, (ast.If, ast.For)):
        return all(map(_is_assertion, (*node.body, *node.orelse)))
    return isinstance(node, ast.Assert)


def _close_gaps(lines: list[str | None]) -> str:
    """The remaining lines as text, without doubled blank lines where lines were removed (None)."""
    kept: list[str] = []
    gap = False
    for line in lines:
        if line is None:
            gap = True
        elif not (gap and not line.strip() and (not kept or not kept[-1].strip())):
            kept.append(line)
            gap = False
    return "\n".join(kept).strip("\n")
