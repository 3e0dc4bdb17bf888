"""What operators ask about the place of a node in the syntax tree: what is around it, and what a loop does."""

from __future__ import annotations

import ast

REGISTRATIONS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
                 "register_full_backward_pre_hook")  # fmt: skip
ALL_REGISTRATIONS = (*REGISTRATIONS, "register_hook", "register_post_accumulate_grad_hook")
ORDERLESS = ("any", "all", "sum", "max", "min", "set", "dict", "update")
"""Functions that get the same from their argument in any order."""


def method_name(node: ast.AST) -> str:
    """The name of the method or function that a call calls; empty for any other node."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def consumer(node: ast.AST) -> ast.AST:
    """The node around this one."""
    return getattr(node, "consumer", node)


def is_read_at_once(node: ast.AST) -> bool:
    """Whether only numbers are read from a tensor, as in `t.detach().square().sum().item()`."""
    around = consumer(node)
    if isinstance(around, ast.Call):
        if node is not around.func:
            return method_name(around) in ("float", "int", "bool")
        return method_name(around) in ("item", "tolist") or is_read_at_once(around)
    return isinstance(around, ast.Attribute | ast.BinOp | ast.UnaryOp) and is_read_at_once(around)


def is_gone_through(node: ast.AST) -> bool:
    """Whether a loop goes through this."""
    around = consumer(node)
    return isinstance(around, ast.For | ast.comprehension) and around.iter is node


def is_only_asked(node: ast.For | ast.comprehension) -> bool:
    """Whether this is the loop in `any(True for x in xs)`."""
    whole = consumer(node)
    return method_name(consumer(whole)) == "any" and isinstance(getattr(whole, "elt", None), ast.Constant)


def passing_over(node: ast.For | ast.comprehension) -> list[ast.expr]:
    """The tests by which a loop passes over entries, if they ask for nothing that the loop itself changes."""
    if isinstance(node, ast.comprehension):
        named = any(isinstance(part, ast.NamedExpr) for test in node.ifs for part in ast.walk(test))
        return [] if named else node.ifs
    if len(node.body) != 1 or not isinstance(only := node.body[0], ast.If) or only.orelse:
        return []
    inside = {part.id for line in only.body for part in ast.walk(line) if isinstance(part, ast.Name)}
    asked = {part.id for part in ast.walk(only.test) if isinstance(part, ast.Name)}
    own = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
    return [] if asked & inside - own else [only.test]


def order_shows(node: ast.For | ast.comprehension) -> bool:
    """Whether the order of a loop can show: not in a dict or a set, in what only asks, or where hooks come and go.

    Nor does it where each round writes to its own entry.
    """
    whole = node if isinstance(node, ast.For) else consumer(node)
    names = {method_name(part) for part in ast.walk(whole)}
    if isinstance(whole, ast.DictComp | ast.SetComp) or names & {"remove", "enter_context", *ALL_REGISTRATIONS}:
        return False
    if isinstance(node, ast.For):
        own = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        return not all(_writes_to(own, line) for line in node.body)
    around = consumer(whole)
    return method_name(around) not in ORDERLESS and getattr(around, "arg", "") != "dim"


def _writes_to(own: set[str], line: ast.stmt) -> bool:
    """Whether a statement does no more than to write to attributes of what is in `own`, or to entries under it."""
    if isinstance(line, ast.If):
        return all(_writes_to(own, other) for other in (*line.body, *line.orelse))
    targets = line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AugAssign) else []
    places = [
        target.slice if isinstance(target, ast.Subscript) else target.value
        for target in targets
        if isinstance(target, ast.Subscript | ast.Attribute)
    ]
    return 0 < len(places) == len(targets) and all(
        own & {part.id for part in ast.walk(place) if isinstance(part, ast.Name)} for place in places
    )
