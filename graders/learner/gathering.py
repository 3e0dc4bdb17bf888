"""Take functions out of a notebook with all that they need, from the text of its cells alone: no code is run."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from graders.core.cells import bound_names, parse_cell

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_GIVEN = {*dir(builtins), "__name__", "__file__", "__doc__"}


class NotSelfContained(Exception):
    """A function cannot be taken out of its notebook; the message is a clause that says why."""


@dataclass
class Module:
    """The parts of a module by the names that they define, in an order in which Python can run them."""

    imports: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """All of them as they stand in the notebooks."""

    def text(self) -> str:
        """The source of the module, without a docstring."""
        imports = sorted(set(self.imports.values()), key=lambda line: (line.startswith("from"), line))
        return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(self.parts.values()) + "\n"


def gather(cells: Sequence[str], name: str, origin: str, before: Module) -> Module:
    """The module `before` with the function or class `name` of these cells added, and what it needs.

    The docstring of `name` says its `origin`. Raises `NotSelfContained`; `before` stays as it is.
    """
    module = Module(dict(before.imports), dict(before.parts), dict(before.sources))
    _Gatherer(cells, module).add(name, origin)
    return module


class _Gatherer:
    def __init__(self, cells: Sequence[str], module: Module) -> None:
        self.statements = [(number, *pair) for number, cell in enumerate(cells) for pair in _statements(cell)]
        self.module = module
        self.visited: set[str] = set()
        self.answer = len(cells)
        """The number of the cell with the answer: of several helpers with a name, it means the last one up to there."""

    def add(self, name: str, origin: str = "") -> None:
        """Add the statement that binds `name`, after what it needs itself."""
        if name in self.visited:
            return
        self.visited.add(name)
        found = [statement for statement in self.statements if name in _names(statement[1])]
        if not found:
            uses = "" if origin else f"it uses `{name}`, and "
            raise NotSelfContained(f"{uses}no cell of the notebook defines {'it' if uses else f'`{name}`'}")
        number, node, source = ([one for one in found if one[0] <= self.answer] or found[:1])[-1]
        if origin:
            self.answer = number
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._note(name, _import_of(node, name))
            self.module.imports[name] = self.module.sources[name]
            return
        if not isinstance(node, _DEFINITIONS):
            _check_constant(node, name)
        for needed in sorted(_global_names(source) - _GIVEN - {name}):
            self.add(needed)
        self._note(name, source)
        if origin or name not in self.module.parts:
            self.module.parts[name] = _with_origin(node, source, origin) if origin else source

    def _note(self, name: str, source: str) -> None:
        if self.module.sources.setdefault(name, source) != source:
            raise NotSelfContained(f"its `{name}` is not the `{name}` that another answer needs. Rename one of them")


def _statements(cell: str) -> Iterator[tuple[ast.stmt, str]]:
    """The statements at the top of a cell with their sources; none if it is not valid Python. Magics are skipped."""
    text = "\n".join("" if line.startswith(("%", "!")) else line for line in cell.split("\n"))
    tree = parse_cell(text)
    lines = text.split("\n")
    for node in tree.body if tree else ():
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])
        if isinstance(node, _DEFINITIONS):
            yield node, "\n".join(lines[first - 1 : node.end_lineno])
        else:
            yield node, ast.get_source_segment(text, node) or ""


def _names(node: ast.stmt) -> frozenset[str]:
    """The names that a statement binds at the top of a module."""
    if isinstance(node, _DEFINITIONS):
        return frozenset({node.name})
    return bound_names(ast.unparse(node))


def _import_of(node: ast.Import | ast.ImportFrom, name: str) -> str:
    """An import of `name` alone, by this statement."""
    alias = next(alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) == name)
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(node.module, [alias], node.level))


def _check_constant(node: ast.stmt, name: str) -> None:
    """Raise `NotSelfContained` unless a statement gives `name` a value that takes no call."""
    plain = isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
    if not plain or any(isinstance(part, (ast.Call, ast.Await)) for part in ast.walk(node)):
        raise NotSelfContained(f"it uses `{name}`, a value of the notebook, which should be an argument")


def _global_names(source: str) -> set[str]:
    """The names that a statement looks up outside itself, now or when it is called."""
    left, names = [symtable.symtable(source, "<cell>", "exec")], set[str]()
    while left:
        table = left.pop()
        left += table.get_children()
        top = table.get_type() == "module"
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (symbol.is_global() or (top and not symbol.is_assigned()))
        }
    return names


def _with_origin(node: ast.stmt, source: str, origin: str) -> str:
    """The source with its origin in the docstring, or in a comment above if there is no docstring to extend."""
    body = getattr(node, "body", [])
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        text = body[0].value
        lines = source.split("\n")
        last = len(lines) - 1 - ((node.end_lineno or 0) - (text.end_lineno or 0))
        if isinstance(text.value, str) and lines[last].rstrip().endswith('"""'):
            indent = " " * body[0].col_offset
            head = lines[last].rstrip()[:-3].rstrip()
            blank = "\n" if head else ""
            lines[last] = f'{head}{blank}\n{indent}{origin}\n{indent}"""'
            return "\n".join(lines)
    return f"# {origin}\n{source}"
