"""Cutting the probe out of a grader, so that nothing else of the grader enters the box.

What goes in is the function `probe` of one exercise class and what it uses, directly or through one another: imports,
functions, classes and constants of its own file, and of the `shared.py` beside it. Checks, mistakes, draws and their
expected values stay outside; so does every other file of the lesson, whatever a probe would like to have from it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graders.core.errors import ExerciseDefect
from graders.core.exercise import Exercise

SHARED = "shared"
"""The file of a lesson's folder from which probes may take something."""
AUTHORING = Path(__file__).parent.parent / "authoring.py"
IN_THE_BOX = ("graders.box", "graders.wire", "graders.figures", "graders.nets")
"""Modules of ours that exist beside the learner's code (`graders.run.kit` puts them there)."""


class ProbeNeedsMore(ExerciseDefect):
    """A probe uses what must not be, or is not, in the box."""


@dataclass(frozen=True)
class _Part:
    """A statement of a file that gives it a name. An import is cut down to that name."""

    file: Path
    place: int
    statement: ast.stmt

    @property
    def is_import(self) -> bool:
        return isinstance(self.statement, ast.Import | ast.ImportFrom)


@functools.cache
def probe_source(exercise: Exercise) -> str:
    """Python text that defines `probe`, complete on its own. Raises `ProbeNeedsMore`."""
    if exercise.box_source:
        return exercise.box_source
    module = _module(exercise.file)
    (body,) = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == exercise.class_name]
    (probe,) = [node for node in body.body if isinstance(node, ast.FunctionDef) and node.name == "probe"]
    needed: dict[str, _Part] = {}
    queue = [_Part(file=exercise.file, place=0, statement=probe)]
    while queue:
        user = queue.pop()
        for name in sorted(_used(user.statement)):
            part = _part(name, user.file, exercise.key)
            if part is None:
                continue
            if name not in needed:
                needed[name] = part
                queue.append(part)
            elif ast.dump(needed[name].statement) != ast.dump(part.statement):
                raise ProbeNeedsMore(
                    f"exercise {exercise.key}: its file and {SHARED}.py both define {name!r}: rename one"
                )
    # Imports first, then what is shared, which knows nothing of the exercise's own file.
    parts = sorted(needed.values(), key=lambda part: (not part.is_import, part.file == exercise.file, part.place))
    statements = dict.fromkeys(ast.unparse(part.statement) for part in parts)
    return "\n".join(["from __future__ import annotations", *statements, ast.unparse(probe)])


def _part(name: str, file: Path, key: str) -> _Part | None:
    """What gives a file this name, looked up in the `shared.py` beside it when it is imported from there.

    None when nothing in the file does: the name is Python's own, or a local variable.
    """
    part = _parts(file).get(name)
    if part is None or not isinstance(part.statement, ast.ImportFrom):
        return part
    module = part.statement.module or ""
    if module.startswith(IN_THE_BOX):
        return part
    parent, _, beside = module.rpartition(".")
    if module == "graders.authoring":  # which only imports: in the box a name comes from where it is defined
        return _part(name, AUTHORING, key)
    if parent.rpartition(".")[2] == file.parent.name:
        if beside != SHARED:
            raise ProbeNeedsMore(
                f"exercise {key}: the probe uses {name!r} of {beside}.py, which stays outside the box; "
                f"what a probe uses belongs into its own file or into {SHARED}.py"
            )
        return _part(name, file.parent / f"{SHARED}.py", key)
    if module.partition(".")[0] == "graders":
        raise ProbeNeedsMore(
            f"exercise {key}: the probe uses {name!r} of {module}, which is not in the box; "
            f"what a probe uses belongs into its own file or into {SHARED}.py, or is an instrument of graders.authoring"
        )
    return part


@functools.cache
def _parts(file: Path) -> dict[str, _Part]:
    """All that a file defines or imports, by name."""
    return {
        name: _Part(file=file, place=place, statement=statement)
        for place, node in enumerate(_module(file).body)
        for name, statement in _defined(node)
    }


@functools.cache
def _module(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _defined(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """Names that a statement of a module gives to it, and what has to be there for each."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not _is_exercise(node):
        yield node.name, node
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield (alias.asname or alias.name).partition(".")[0], ast.Import([alias])
    elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
        for alias in node.names:
            yield alias.asname or alias.name, ast.ImportFrom(node.module, [alias], node.level)
    elif isinstance(node, ast.Assign):
        for part in (part for target in node.targets for part in ast.walk(target)):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):  # also `A, B = 1, 2`
                yield part.id, node
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node


def _is_exercise(node: ast.FunctionDef | ast.ClassDef) -> bool:
    calls = (decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call))
    return any(isinstance(call, ast.Name) and call.id == "exercise" for call in calls)


def _used(node: ast.AST) -> set[str]:
    """Names that a statement reads."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
