"""Cutting the probe out of a grader, so that nothing else of the grader enters the box.

What goes in is the function `probe` of one exercise class and the module's imports, functions and
constants that it uses, directly or through one another. Checks, mistakes, draws and their expected values
stay outside.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from graders.core.exercise import Exercise


@functools.cache
def probe_source(exercise: Exercise) -> str:
    """Python text that defines `probe`, complete on its own."""
    module = _module(exercise.file)
    (body,) = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == exercise.class_name]
    (probe,) = [node for node in body.body if isinstance(node, ast.FunctionDef) and node.name == "probe"]
    providers = {name: node for node in module.body for name in _defined(node)}
    needed: set[int] = set()
    queue: list[ast.stmt] = [probe]
    while queue:
        for name in _used(queue.pop()):
            node = providers.get(name)
            if node is not None and id(node) not in needed:
                needed.add(id(node))
                queue.append(node)
    kept = [node for node in module.body if id(node) in needed]
    future = ast.parse("from __future__ import annotations").body
    return ast.unparse(ast.Module([*future, *kept, probe], type_ignores=[]))


@functools.cache
def _module(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _defined(node: ast.stmt) -> set[str]:
    """Names that a statement of a module gives to it."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return set() if _is_exercise(node) else {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def _is_exercise(node: ast.FunctionDef | ast.ClassDef) -> bool:
    calls = (decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call))
    return any(isinstance(call, ast.Name) and call.id == "exercise" for call in calls)


def _used(node: ast.AST) -> set[str]:
    """Names that a statement reads."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
