"""Operators that make typical slips with hooks in a right answer, such as a lost `detach` or a swallowed exception.

An operator is a generator of replacements for one node of the syntax tree. A statement is replaced by a list of
statements. Names that begin with an underscore are helpers of `prelude`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy

from graders.author.mutate.surroundings import (
    REGISTRATIONS,
    consumer,
    is_gone_through,
    is_only_asked,
    is_read_at_once,
    method_name,
    order_shows,
    passing_over,
)

Replacement = ast.AST | list[ast.stmt]
Operator = Callable[[ast.AST], Iterator[Replacement]]

OPERATORS: dict[str, Operator] = {}
"""All operators, by the name under which their mutants are shown."""

COPIES = {"clone": "_not_copied", "copy": "_not_copied", "detach": "_not_detached"}
CONVERSIONS = ("list", "dict", "tuple", "deepcopy", "reversed", "sorted")
OTHER_METHODS = {
    "modules": "children",
    "named_modules": "named_children",
    "register_forward_hook": "register_forward_pre_hook",
    "register_forward_pre_hook": "register_forward_hook",
    "register_full_backward_hook": "register_full_backward_pre_hook",
    "register_full_backward_pre_hook": "register_full_backward_hook",
    "register_post_accumulate_grad_hook": "register_hook",
    "sum": "mean",
    "mean": "sum",
}
GUARDS = ("_only_the_first_call", "_only_three_calls", "_not_the_first_call", "_only_with_grad_mode",
          "_only_without_grad_mode", "_only_in_training", "_only_where_grad_fn", "_only_without_none",
          "_only_without_graphs", "_only_contiguous", "_only_below_300", "_only_above_tiny")  # fmt: skip
PARTS = ("stop=1", "stop=3", "stop=-1", "start=1", "step=-1")
OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def _register_operator(name: str) -> Callable[[Operator], Operator]:
    def register(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return register


def _make_call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


@_register_operator("lost copy")
def lost_copy(node: ast.AST) -> Iterator[Replacement]:
    """`t.clone()` and `t.detach()` become `t`, and `list(x)` becomes `x`."""
    if isinstance(node, ast.Call) and not is_read_at_once(node):
        if method_name(node) in COPIES and isinstance(node.func, ast.Attribute) and not node.args:
            yield _make_call(COPIES[method_name(node)], node.func.value)
        elif method_name(node) in CONVERSIONS and len(node.args) == 1 and not node.keywords:
            helper = "_not_made_a_tuple" if method_name(node) == "tuple" else "_not_copied"
            in_order = method_name(node) not in ("reversed", "sorted")
            yield _make_call("_gone_through" if in_order and is_gone_through(node) else helper, node.args[0])


@_register_operator("lost statement")
def lost_statement(node: ast.AST) -> Iterator[Replacement]:
    """A call, a deletion, or an assignment to an attribute or an entry is left out."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    assigns = bool(targets) and not any(isinstance(target, ast.Name) for target in targets)
    if assigns or isinstance(node, ast.Delete) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield [ast.Pass()]


@_register_operator("lost return")
def lost_return(node: ast.AST) -> Iterator[Replacement]:
    """A `return` is lost: the function computes the value and returns None, as does a `lambda`."""
    if isinstance(node, ast.Return) and node.value is not None:
        around: ast.AST = node
        while not isinstance(around, ast.FunctionDef | ast.Module):
            around = consumer(around)
        own = [a.arg for a in around.args.args if a.arg != "self"] if isinstance(around, ast.FunctionDef) else []
        is_argument = isinstance(node.value, ast.Name) and node.value.id in own
        yield [ast.Expr(_make_call("_lost_argument" if is_argument else "_lost", node.value))]
    if isinstance(node, ast.Lambda):
        yield ast.Lambda(node.args, _make_call("_lost", node.body))


@_register_operator("clean-up not after an exception")
def not_after_an_exception(node: ast.AST) -> Iterator[Replacement]:
    """`finally` and `with` clean up only when no exception is raised."""
    yield from _cleaned_up(node, "_only_when_well")


@_register_operator("clean-up only after an `Exception`")
def only_after_exceptions(node: ast.AST) -> Iterator[Replacement]:
    """The clean-up of `finally` and `with` is left out for exceptions such as `KeyboardInterrupt`."""
    yield from _cleaned_up(node, "_not_after_interrupts")


def _cleaned_up(node: ast.AST, helper: str) -> Iterator[Replacement]:
    """Wrap the managers of a `with` statement in `helper`; a `finally` is turned into such a manager first."""
    if isinstance(node, ast.With):
        changed = deepcopy(node)
        for item in changed.items:
            item.context_expr = _make_call(helper, item.context_expr)
        yield [changed]
    elif isinstance(node, ast.Try) and node.finalbody and not node.handlers:
        # The clean-up becomes a function of its own, which works as long as it assigns no names; it hardly ever does.
        cleanup = ast.parse("def _clean_up(*_):\n    pass").body[0]
        assert isinstance(cleanup, ast.FunctionDef)
        cleanup.body = list(node.finalbody)
        manager = ast.parse(f"{helper}(_contextlib.ExitStack())", mode="eval").body
        push = ast.parse("_stack.callback(_clean_up)").body[0]
        item = ast.withitem(manager, ast.Name("_stack", ast.Store()))
        yield [cleanup, ast.With([item], [push, *node.body])]


@_register_operator("exception swallowed")
def swallowed(node: ast.AST) -> Iterator[Replacement]:
    """The exception is caught by an `except` that does nothing; the clean-up is still done."""
    if not isinstance(node, ast.With) and not (isinstance(node, ast.Try) and node.finalbody and not node.handlers):
        return
    for kind in ("Exception", "BaseException"):
        noted = ast.parse("_did.append('swallowed')").body
        handler = ast.ExceptHandler(ast.Name(kind, ast.Load()), None, noted)
        if isinstance(node, ast.Try):
            yield [ast.Try(node.body, [handler], [], node.finalbody)]
        else:
            yield [ast.Try([node], [handler], [], [])]


@_register_operator("another method")
def another_method(node: ast.AST) -> Iterator[Replacement]:
    """`children()` for `modules()`, a pre-hook for a hook."""
    if isinstance(node, ast.Attribute) and node.attr in OTHER_METHODS and isinstance(node.ctx, ast.Load):
        yield ast.Attribute(node.value, OTHER_METHODS[node.attr], node.ctx)


@_register_operator("prepend=True")
def prepended(node: ast.AST) -> Iterator[Replacement]:
    """The hook is put before the caller's hooks, or behind them; or an option of the registration is left out."""
    if isinstance(node, ast.Call) and method_name(node) in REGISTRATIONS:
        first = not any(k.arg == "prepend" and ast.unparse(k.value) != "False" for k in node.keywords)
        others = [keyword for keyword in node.keywords if keyword.arg != "prepend"]
        yield ast.Call(_make_call("_placed", node.func, ast.Constant(first)), node.args, others)
        for keyword in others:
            yield ast.Call(node.func, node.args, [other for other in node.keywords if other is not keyword])


@_register_operator("model.forward(x)")
def forward_directly(node: ast.AST) -> Iterator[Replacement]:
    """`forward` is called directly, which bypasses all hooks."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("model", "module", "net"):
        yield ast.Call(ast.Attribute(node.func, "forward", ast.Load()), node.args, node.keywords)


@_register_operator("the name ignored")
def name_ignored(node: ast.AST) -> Iterator[Replacement]:
    """The first or the last submodule is taken, whichever was asked for."""
    if method_name(node) == "get_submodule" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for place in (0, -1):
            yield ast.parse(f"list({ast.unparse(node.func.value)}.modules())[1:][{place}]", mode="eval").body


@_register_operator("truth for None")
def truth_for_none(node: ast.AST) -> Iterator[Replacement]:
    """`x` for `x is not None`, and other tests that are almost the same."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.comparators[0], ast.Constant):
        if node.comparators[0].value is None and isinstance(node.ops[0], ast.Is):
            yield ast.UnaryOp(ast.Not(), _make_call("_truth", node.left))
        elif node.comparators[0].value is None and isinstance(node.ops[0], ast.IsNot):
            yield _make_call("_truth", node.left)
    if isinstance(node, ast.Attribute) and node.attr == "requires_grad" and isinstance(node.ctx, ast.Load):
        for other in ("grad_fn", "is_leaf"):
            yield _make_call("_for_requires_grad", node.value, ast.Constant(other))


@_register_operator("condition dropped")
def condition_dropped(node: ast.AST) -> Iterator[Replacement]:
    """The body of an `if` always runs, or never."""
    if isinstance(node, ast.If):
        yield list(node.body)
        yield list(node.orelse) or [ast.Pass()]
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    if isinstance(node, ast.comprehension) and node.ifs:
        yield ast.comprehension(node.target, node.iter, [], node.is_async)


@_register_operator("not for all")
def not_for_all(node: ast.AST) -> Iterator[Replacement]:
    """A loop stops early, begins late, or runs backwards where its order can show.

    What the loop passes over, by an `if` around its body, is not counted.
    """
    if not isinstance(node, ast.For | ast.comprehension):
        return
    asked = ", asked=True" if is_only_asked(node) else ""
    for part in PARTS if order_shows(node) else PARTS[:-1]:
        changed = deepcopy(node)
        looped = ast.unparse(node.iter)
        if tests := passing_over(node):
            target = ast.unparse(node.target)
            looped = f"[{target} for {target} in ({looped}) if {' if '.join(map(ast.unparse, tests))}]"
            if isinstance(changed, ast.For):
                changed.body = changed.body[0].body  # type: ignore[attr-defined]
            else:
                changed.ifs = []
        changed.iter = ast.parse(f"_part({looped}, {part}{asked})", mode="eval").body
        yield [changed] if isinstance(changed, ast.For) else changed


@_register_operator("a list for a tuple")
def list_for_tuple(node: ast.AST) -> Iterator[Replacement]:
    """The entries that are returned are right, but the container has the other type."""
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        yield [ast.Return(ast.List(node.value.elts, ast.Load()))]
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Call) and not node.value.keywords:
        other = {"tuple": "list", "list": "tuple"}.get(ast.unparse(node.value.func))
        if other is not None:
            yield [ast.Return(ast.Call(ast.Name(other, ast.Load()), node.value.args, []))]


@_register_operator("one global slot")
def global_slot(node: ast.AST) -> Iterator[Replacement]:
    """A container that each call should make for itself is made once for all calls."""
    if isinstance(node, ast.Assign) and ast.unparse(node.value) in ("{}", "[]", "dict()", "list()", "set()"):
        slot = f"_slot({node.lineno}, {ast.unparse(node.value)})"
        yield [ast.Assign(node.targets, ast.parse(slot, mode="eval").body, lineno=0)]


@_register_operator("a hook that works at times")
def hook_at_times(node: ast.AST) -> Iterator[Replacement]:
    """A function inside another one, usually a hook, does nothing in some calls."""
    for guard in GUARDS:
        if isinstance(node, ast.Lambda):
            yield _make_call(guard, node)
        elif isinstance(node, ast.FunctionDef) and node.col_offset > 0 and not _makes_a_function(node):
            yield [ast.FunctionDef(**{**vars(node), "decorator_list": [ast.Name(guard, ast.Load())]})]


def _makes_a_function(node: ast.FunctionDef) -> bool:
    return any(isinstance(part, ast.Lambda | ast.FunctionDef) for part in ast.walk(node) if part is not node)


@_register_operator("almost")
def slightly_off(node: ast.AST) -> Iterator[Replacement]:
    """A number is one larger; an operator, a comparison or a condition is replaced by a similar one."""
    if isinstance(consumer(node), ast.keyword) and getattr(consumer(node), "arg", "") == "prepend":
        return  # `prepended` tries that
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif type(node) in OPPOSITES:
        yield OPPOSITES[type(node)]()
