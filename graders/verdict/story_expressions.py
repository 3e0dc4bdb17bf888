"""The expressions of a story as they stand in its program: what is drawn by its value, and the rest by its names."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from graders.scenes.watch import Watch
from graders.verdict.program_lines import Untold, code_of


class StoryExpressions(ast.NodeTransformer):
    """Rewrites what stands in a story to what stands in its program, and evaluates what is drawn.

    `telling` has the table of what becomes of what.
    """

    def __init__(self, name: str, call: Callable[..., Any], given: Mapping[str, Any]) -> None:
        """`name` is what the learner calls `call`; `given` are the other arguments of the story."""
        self._name, self._call = name, call
        self._space = self._fresh_space()
        self._drawn = dict(given)
        """What has a value, but no name in the program."""
        self._home: Mapping[str, Any] = {}
        self._renamed: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        """After `t = w`, the program says `w`."""

    def _fresh_space(self) -> dict[str, Any]:
        return {"torch": torch, "nn": nn, self._name: self._call}

    def _inline(self, asked: ast.expr) -> ast.expr | None:
        """Tell the lines of a helper in place of its call; returns what it returns."""
        raise NotImplementedError

    def visit(self, node: ast.AST) -> Any:
        """The node as it is in the program."""
        if isinstance(node, ast.expr) and not isinstance(node, ast.Starred) and self._is_drawn(node):
            return ast.parse(code_of(self._value_of(node)), mode="eval").body
        if isinstance(node, ast.Compare) and self._is_decided(node):
            return ast.Constant(self._value_of(node))
        return super().visit(node)

    def visit_Starred(self, node: ast.Starred) -> Any:
        """The values in their places."""
        if self._is_drawn(node.value):
            return [ast.parse(code_of(part), mode="eval").body for part in self._value_of(node.value)]
        if self._told_helper(node.value) and isinstance(found := self._inline(node.value), ast.Tuple):
            return [self.visit(part) for part in found.elts]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """What a told helper returns, below its lines; any other call as it is."""
        if self._told_helper(node):
            found = self._inline(node)
            return ast.Constant(None) if found is None else self.visit(found)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        """The name in the program."""
        name = self._renamed.get(node.id, node.id)
        if isinstance(node.ctx, ast.Store):
            self._aliases.pop(name, None)
        return ast.Name(self._aliases.get(name, name), node.ctx)

    def visit_arg(self, node: ast.arg) -> Any:
        """A parameter without its annotation."""
        return ast.arg(self._renamed.get(node.arg, node.arg))

    def visit_If(self, node: ast.If) -> Any:
        """Inside a class, a function or a block: the lines of the branch that is taken."""
        if not self._is_decided(node.test):
            return self.generic_visit(node)
        taken = node.body if self._value_of(node.test) else node.orelse
        return self.generic_visit(ast.Module(taken, [])).body  # type: ignore[attr-defined]

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """The part that is taken."""
        if not self._is_decided(node.test):
            return self.generic_visit(node)
        return self.visit(node.body if self._value_of(node.test) else node.orelse)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A function without annotations, under the name that the story gives it, up to the first `return` taken."""
        node.name, node.returns = self._renamed.get(node.name, node.name), None
        self.generic_visit(node)
        end = next((at for at, part in enumerate(node.body) if isinstance(part, ast.Return)), len(node.body))
        node.body = node.body[: end + 1]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """An assignment without its annotation."""
        assert node.value is not None
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def _is_drawn(self, node: Any) -> bool:
        """Whether an expression is something drawn, or what a helper makes of it. Raises `Untold` for mixtures."""
        root: Any = node.func if isinstance(node, ast.Call) else node
        root = root.value if isinstance(root, ast.Attribute) else root  # no deeper: draw.tensor().mT is a line
        if not isinstance(root, ast.Name) or isinstance(root.ctx, ast.Store):
            return False
        helper = self._drawn.get(root.id, self._home.get(root.id))
        if hasattr(helper, "is_told"):
            return False
        ours = callable(helper) and str(helper.__module__).startswith("graders.scenes") and helper is not Watch
        if not (root.id in self._drawn or ours):
            return False
        if isinstance(node, ast.Call) and not self._names_are_drawn(node):
            raise Untold(f"`{ast.unparse(node)}` mixes what is drawn with the program's own")
        return True

    def _names_are_drawn(self, node: ast.AST) -> bool:
        names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        return all(name in self._drawn or callable(self._home.get(name, vars(builtins).get(name))) for name in names)

    def _is_decided(self, node: ast.expr) -> bool:
        """Whether a condition depends on nothing but what is drawn."""
        names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        return any(name in self._drawn for name in names) and self._names_are_drawn(node)

    def _told_helper(self, node: ast.expr | None) -> Any:
        """The told helper that an expression calls, if any."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            return None
        helper = self._drawn.get(node.func.id, self._home.get(node.func.id))
        return helper if hasattr(helper, "is_told") else None

    def _is_call_of(self, function: Any, node: ast.expr | None) -> bool:
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return is_call and self._home.get(node.func.id) is function  # type: ignore[union-attr]

    def _value_of(self, node: ast.expr) -> Any:
        other = {**self._aliases, **{name: self._aliases.get(text, text) for name, text in self._renamed.items()}}
        here = {name: self._space[text] for name, text in other.items() if text in self._space}
        code = compile(ast.fix_missing_locations(ast.Expression(copy.deepcopy(node))), "<story>", "eval")
        return eval(code, {**self._home, **self._space, **here, **self._drawn})
