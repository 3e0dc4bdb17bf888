"""The lines of a program that shows a refusal: values as code, and which lines it can do without."""

from __future__ import annotations

import ast
import functools
import math
import re
import symtable
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Untold(Exception):
    """Raised for a story that cannot be told: it contains something that is not in the table of `telling`."""


@dataclass(frozen=True)
class Line:
    """A statement, which may run over several lines."""

    text: str

    @functools.cached_property
    def names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names that it defines, and those that it uses; without those that are local to a function or class."""
        top = symtable.symtable(self.text, "<line>", "exec")
        stores = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
        uses = {one.get_name() for one in top.get_symbols() if one.is_referenced()}
        inside = top.get_children()
        for table in inside:  # it grows
            uses |= {one.get_name() for one in table.get_symbols() if one.is_global()}
            inside += table.get_children()
        return frozenset(stores), frozenset(uses)


def shortened(lines: Sequence[Line], name: str) -> list[Line]:
    """The lines on which the last one may depend: those that make or use what it uses, and every call of `name`.

    What one call gets or returns may depend on the others, since the function may keep it.
    """
    made_of: dict[str, set[str]] = {}
    touched: list[set[str]] = []
    for line in lines:
        stores, uses = line.names
        own = {part for use in uses for part in made_of.get(use, {use})} - {"torch", "nn"}
        made_of.update({stored: {stored} | own for stored in stores})
        if name in uses:  # what the function was given may change together from now on
            made_of.update({part: made_of.get(part, {part}) | own for part in own - {name}})
        touched.append(own | stores)
    wanted, kept = set[str](), list[Line]()
    for line, names in zip(reversed(lines), reversed(touched)):
        plain = _with_plain_handler(line, wanted)
        names -= line.names[0] - plain.names[0]
        line = plain
        stores, uses = line.names
        is_block = "\n" in line.text and not line.text.startswith(("def ", "class "))
        # A hook acts on its module, even where the line keeps the handle.
        acts = (is_block or not stores or ".register_" in line.text) and bool(names & wanted)
        sets_state = "manual_seed" in line.text or "set_grad_enabled" in line.text
        acts = acts and (name in uses or not _notes_for_nobody(line, wanted))
        if not kept or name in uses or stores & wanted or acts or sets_state:
            kept.append(line)
            wanted |= names
    return _with_joined_end(kept[::-1])


def _notes_for_nobody(line: Line, wanted: set[str]) -> bool:
    """Whether it registers a hook that does nothing but append to a list that nobody wants."""
    match ast.parse(line.text).body:
        case [ast.Expr(ast.Call(ast.Attribute(attr=register), [ast.Lambda(body=ast.Call(ast.Attribute() as note))]))]:
            appends = note.attr == "append" and isinstance(note.value, ast.Name) and note.value.id not in wanted
            return appends and register.startswith("register_")
    return False


def _with_plain_handler(line: Line, wanted: set[str]) -> Line:
    """The same line; if it is a `try` that notes its exception under a name nobody wants, it passes over that."""
    if not line.text.startswith("try:"):
        return line
    (block,) = ast.parse(line.text).body
    assert isinstance(block, ast.Try)
    body = [part for handler in block.handlers for part in handler.body]
    noted = Line("\n".join(map(ast.unparse, body))).names[0]
    if noted & wanted or not all(isinstance(part, ast.Assign) for part in body):
        return line
    block.handlers = [ast.ExceptHandler(ast.Name("BaseException", ast.Load()), None, [ast.Pass()])]
    return Line(ast.unparse(ast.fix_missing_locations(block)))


def _with_joined_end(lines: list[Line]) -> list[Line]:
    """The lines, where the last is not `found = value` and `print(found)`, but `print(value)`."""
    *first, last = lines
    if first:
        target, equals, value = first[-1].text.partition(" = ")
        if equals and "\n" not in value and target.isidentifier() and last.text == f"print({target})":
            return [*first[:-1], Line(f"print({value})")]
    return lines


def code_of(value: Any) -> str:
    """A value as Python code. Raises `Untold`."""
    if type(value) is Tensor and not value.requires_grad:
        numbers, dtype = value.tolist(), f", dtype={value.dtype}"
        if value.dtype is torch.float32:  # the fewest digits that give the same number
            numbers, dtype = _map_floats(numbers, lambda number: float(str(np.float32(number)))), ""
        written = re.sub(r"\b(?=(inf|nan)\b)", "torch.", str(numbers))
        return f"torch.tensor({written}{'' if value.dtype is torch.int64 else dtype})"
    if type(value) in (list, tuple):
        inner = ", ".join(map(code_of, value))
        return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(value) == 1)})"
    if type(value) is float and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) in (bool, int, float, str, torch.dtype, type(None)):
        return repr(value)
    if isinstance(value, BaseException) and type(value).__module__ == "builtins":
        return repr(value)
    raise Untold(f"a {type(value).__name__} cannot be written as code")


def _map_floats(value: Any, change: Callable[[float], float]) -> Any:
    return [_map_floats(part, change) for part in value] if isinstance(value, list) else change(value)
