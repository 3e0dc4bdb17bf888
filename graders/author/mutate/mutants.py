"""Makes all mutants of a right answer: copies of it in which one thing is changed."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from graders.author.mutate.operators import OPERATORS, Replacement
from graders.author.mutate.prelude import PRELUDE
from graders.author.mutate.wrappers import WRAPPERS, wrap_answer

NOTING = ("_did", "_part(", "_lost", "_only", "_not_", "_slot(", "_gone_", "_truth(", "_for_requires_grad(", "_placed(")
"""Parts of the names of helpers in `prelude` that note in `_did` what they do."""


@dataclass(frozen=True)
class Mutant:
    """A right answer with one thing changed, which nearly always makes it wrong. `source` is the text of its cell."""

    operator: str
    source: str
    changed: str
    """The first line that is new; empty for a mutant of `WRAPPERS`."""
    diff: str
    may_be_idle: bool = True
    """Whether it notes in `_did` when it does something wrong, so that its doing nothing wrong can be noticed."""

    @property
    def headline(self) -> str:
        """The change in one line, under which `SURVIVORS` lists a mutant that is right."""
        return f"{self.operator}: {self.changed}" if self.changed else self.operator


def wrapper_mutants(source: str, name: str) -> Iterator[Mutant]:
    """One mutant for each of `WRAPPERS`. `name` is the function that `source`, the text of a right answer, defines."""
    for manner, body in WRAPPERS.items():
        yield Mutant(manner, wrap_answer(source, name, body), "", f"+ def {name}(*args, **kwargs):{body}")


def operator_mutants(source: str) -> Iterator[Mutant]:
    """A mutant for every change that an operator can make to this right answer, without duplicates."""
    tree = ast.parse(source)
    plain = ast.unparse(tree)
    seen = {plain}
    for changed, operator in _changed_trees(tree):
        try:
            text = ast.unparse(ast.fix_missing_locations(changed))
            compile(text, "<mutant>", "exec")
        except (SyntaxError, ValueError, TypeError, AttributeError):
            continue
        if text not in seen:
            seen.add(text)
            yield _make_mutant(operator, plain, text)


def _make_mutant(operator: str, before: str, after: str) -> Mutant:
    lines = list(difflib.unified_diff(before.split("\n"), after.split("\n"), n=1, lineterm=""))[2:]
    new = next((line[1:].strip() for line in lines if line.startswith("+")), "")
    if new.startswith("@"):
        new += f" {after.split(new, 1)[1].strip().partition(chr(10))[0]}"
    if new.startswith("_lost"):
        new = new.partition("(")[2].removesuffix(")")  # an author knows the value, and not our helper
    gone = next((line[1:].strip() for line in lines if line.startswith("-")), "")
    return Mutant(
        operator=operator,
        source=f"{PRELUDE}\n{after}",
        changed=f"without {gone}" if new in ("", "pass") else new,
        diff="\n".join(lines),
        may_be_idle=any(name in line for line in lines if line[:1] == "+" for name in NOTING),
    )


def _changed_trees(tree: ast.Module) -> Iterator[tuple[ast.Module, str]]:
    """A tree for each replacement of each node; operators know each node's `consumer`, the node around it."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.consumer = node  # type: ignore[attr-defined]
    for number, node in enumerate(ast.walk(tree)):
        for name, operator in OPERATORS.items():
            for replacement in operator(node):
                changed = deepcopy(tree)
                if _replace_node(changed, number, deepcopy(replacement)):
                    yield changed, name


def _replace_node(tree: ast.Module, number: int, replacement: Replacement) -> bool:
    """Replace the node with this number, in the order of `ast.walk`; returns whether that was possible."""
    target = next(node for index, node in enumerate(ast.walk(tree)) if index == number)
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is target and not isinstance(replacement, list):
                setattr(parent, field, replacement)
                return True
            if isinstance(value, list) and any(entry is target for entry in value):
                place = next(index for index, entry in enumerate(value) if entry is target)
                value[place : place + 1] = replacement if isinstance(replacement, list) else [replacement]
                return True
    return False
