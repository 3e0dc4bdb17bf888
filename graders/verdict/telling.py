"""Tells a story: prints its lines as a program that a learner can run below an answer.

The story is walked statement by statement, with the reference as the learner's function. What is printed is what runs
here: each line is run from its text, with nothing but `torch`, `nn` and that function around it. This is what a story
may contain, and what becomes of it:

    in the story                                    in the program
    ------------                                    --------------
    call                                            the learner's name for the function
    draw.tensor(), case.dtype, draw.shape           the value
    a_number(draw, case), a helper of scenes        the value; it gets only what is drawn
    f(t, *arguments(draw, case))                    the values in their places
    if case.place == "leaf": ... else: ...          the lines of the branch, also in a class or a block; such conditions
                                                    name drawn things alone; `a if case.x else b` is a or b
    model = written("model", case.model, x=x)       the lines of that text, in which `x` is what the program calls `x`
    w, t = a_tensor(draw, case), marked as `told`   its lines, and no call; its names are names of the program, and its
                                                    only `return` is its last line
    t = w                                           nothing; it says `w` from then on
    class Net(nn.Module): ...                       the class, without annotations and without what is in branches that
                                                    are not taken; nothing is drawn inside
    before = Watch(w=w)                             nothing
    yield "name", before.differences()              if it is the observation in question, a look at what has changed
    yield "name", value                             if it is the observation in question, print(value)
                                                    or, of a large one, print(value["a"][0, 2]), the entry that differs
    everything else, with `torch` and `nn`          as it is, without annotations

A `yield` stands in a line of its own, outside of loops, `with` and `try`; its name is a text, and its value changes
nothing. What is drawn is drawn outside of loops. Lines on which nothing printed depends are left out; calls of the
learner's function never are. `reducing` leaves out what is left and makes no difference all the same.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graders.core.shown import MISSING
from graders.scenes.planted import written
from graders.scenes.results import copy_value
from graders.scenes.scene import ELSEWHERE
from graders.scenes.story import Story
from graders.scenes.watch import Watch
from graders.verdict.looks import look_at
from graders.verdict.program_lines import Line, Untold, code_of, shortened
from graders.verdict.story_expressions import StoryExpressions


class _Finished(Exception):
    """Raised when the last line has been printed."""


@dataclass(frozen=True)
class Until:
    """Where a program ends: at an observation, or at the `line` of a story's file that failed, perhaps that of a
    helper, which the story called in `from_line`.

    Of a watch, `change` is the kind and the place of what it reported; of a large value,
    `entry` has the keys and indexes that lead to what is to be shown. `of_it` is code behind the value, where `print`
    leaves out what differs, such as ".tolist()" for digits.
    """

    name: str = ""
    change: tuple[str, str] | None = None
    entry: tuple[Any, ...] = ()
    of_it: str = ""
    line: int = 0
    from_line: int = 0


@dataclass(frozen=True)
class Program:
    """The lines of a program, and what its last line prints with the reference; `MISSING` if it ends at a line."""

    lines: tuple[str, ...]
    expected: Any = MISSING


def tell(story: Story, name: str, call: Callable[..., Any], given: Mapping[str, Any], until: Until) -> Program:
    """The program of a story up to `until`. `name` is what the learner calls `call`; `given` are the other arguments.

    Raises `Untold`.
    """
    teller = _Teller(story, name, call, given, until)
    try:
        teller.tell_body(story, {"call": name})
    except _Finished:
        pass
    else:
        raise Untold(f"{story.__name__} has no {until}")
    return teller.program()


def observations_of(story: Story) -> list[str]:
    """The names of what a story yields, in order."""
    tree = _tree_of(story)[0]
    pairs = (node.value for node in ast.walk(tree) if isinstance(node, ast.Yield))
    return [pair.elts[0].value for pair in pairs if isinstance(pair, ast.Tuple)]  # type: ignore[attr-defined]


def _tree_of(function: Callable[..., Any]) -> tuple[ast.FunctionDef, int]:
    """The definition of a function, anew each time, and the line of the file before its first."""
    text, before = _source_of(function)
    found: Any = ast.parse(text).body[0]
    return found, before


@functools.cache  # to find the end of a function in its file takes longer than to parse it
def _source_of(function: Callable[..., Any]) -> tuple[str, int]:
    lines, start = inspect.getsourcelines(function)
    return textwrap.dedent("".join(lines)), start - 1


class _Renamed(ast.NodeTransformer):
    """Puts the names of a program in place of a helper's parameters."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """The name in the program."""
        return ast.Name(self._names.get(node.id, node.id), node.ctx)


class _Teller(StoryExpressions):
    """Walks a story, collects the lines of its program and runs them."""

    def __init__(
        self, story: Story, name: str, call: Callable[..., Any], given: Mapping[str, Any], until: Until
    ) -> None:
        super().__init__(name, call, given)
        self._until, self._file = until, story.__module__
        self._watched: dict[str, str] = {}
        self._lines: list[Line] = []
        self._before = 0
        self._returns_failing = False
        """Whether what a told helper has just returned fails, and with it the statement that gets it."""
        self._from: range | None = None
        """In a helper, the story's own lines that call it."""
        self._expected: Any = MISSING

    def tell_body(
        self, function: Callable[..., Any], renamed: dict[str, str], asked: ast.expr | None = None
    ) -> ast.expr | None:
        """Tell the lines of a function, which `asked` calls; returns the expression that it returns."""
        kept = self._home, self._renamed, self._before, self._from
        if asked and not self._from:
            self._from = range(asked.lineno + self._before, (asked.end_lineno or asked.lineno) + self._before + 1)
        tree, before = _tree_of(function)
        before += 0 if function.__module__ == self._file else ELSEWHERE
        self._home, self._renamed, self._before = function.__globals__, renamed, before
        try:
            for node in tree.body:
                if isinstance(node, ast.Return) and node.value is not None:
                    self._returns_failing = self._is_failing(node)
                    returned: ast.expr = _Renamed(renamed).visit(node.value)
                    return returned
                self._statement(node)
            return None
        finally:
            self._home, self._renamed, self._before, self._from = kept

    def _statement(self, node: ast.stmt) -> None:
        value: Any = getattr(node, "value", None)
        if isinstance(node, ast.Expr) and isinstance(value, ast.Constant):
            return
        if isinstance(node, ast.If) and self._is_decided(node.test):
            for part in node.body if self._value_of(node.test) else node.orelse:
                self._statement(part)
        elif isinstance(node, ast.Expr) and isinstance(value, ast.Yield):
            self._observe(node, value.value)
        elif isinstance(node, ast.Assign) and self._told_helper(value):
            self._bind_parts(node.targets[0], self._inline(value, node.targets[0]))
        elif isinstance(node, ast.Assign) and self._is_call_of(written, value):
            self._tell_text(value, ast.unparse(node.targets[0]))
        elif isinstance(node, ast.Assign) and self._is_drawn(value):
            self._bind(node.targets[0], self._value_of(value))
        elif isinstance(node, ast.Assign) and self._is_watch(value):
            self._drawn[ast.unparse(node.targets[0])] = self._value_of(value)
            if self._until.change and self._until.change[0] == "entries":
                self._emit(f"before = {self._look(*self._until.change)}")
        elif isinstance(node, ast.Assign) and isinstance(value, ast.Name) and isinstance(node.targets[0], ast.Name):
            self._aliases[node.targets[0].id] = self.visit_Name(value).id
        else:
            line = self.visit(node)
            if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Name)):  # returned, and used by nobody
                self._emit(ast.unparse(line), node)

    def _bind(self, target: ast.expr, value: Any) -> None:
        """Assign what is drawn: by its code, unless it has none, or is of texts and written where it is used."""
        name = ast.unparse(target)
        try:
            code = code_of(value)
        except Untold:
            code = ""
        texts = value if type(value) is tuple else [value]
        if code and not all(type(text) is str for text in texts):
            self._emit(f"{self._renamed.get(name, name)} = {code}")
        else:
            self._drawn[name] = value

    def _inline(self, asked: Any, target: ast.expr | None = None) -> ast.expr | None:
        """Tell the lines of a helper in place of its call; returns what it returns.

        If that is one of its names, and is assigned to a name, the lines say the latter.
        """
        helper: Any = self._told_helper(asked)
        renamed = {"call": self._name}
        last = _tree_of(helper)[0].body[-1]
        if isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and isinstance(target, ast.Name):
            renamed[last.value.id] = target.id
        for name, given in zip(inspect.signature(helper).parameters, asked.args):
            if isinstance(given, ast.Constant) or self._is_drawn(given):
                self._drawn[name] = self._value_of(given)
            elif (text := ast.unparse(self.visit(copy.deepcopy(given)))).isidentifier():
                renamed[name] = text
            else:
                self._emit(f"{name} = {text}")
        return self.tell_body(helper, renamed, asked)

    def _bind_parts(self, target: ast.expr, value: ast.expr | None) -> None:
        """Assign what a helper returned, where its names are not those of the story."""
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts))
        for name, part in pairs:
            if part is not None and ast.unparse(name) != ast.unparse(part):
                nowhere = -self._before
                self._statement(ast.fix_missing_locations(ast.Assign([name], part, lineno=nowhere, end_lineno=nowhere)))

    def _tell_text(self, asked: ast.Call, target: str) -> None:
        """Tell the lines of a program that was written outside; what it makes gets the name of the target."""
        name, text = map(self._value_of, asked.args)
        renamed = {word.arg or "": self.visit(copy.deepcopy(word.value)).id for word in asked.keywords}
        renamed[name] = self._renamed.get(target, target)
        for node in ast.parse(text).body:
            self._emit(ast.unparse(_Renamed(renamed).visit(node)))

    def _observe(self, node: ast.stmt, pair: Any) -> None:
        name, value = pair.elts
        if name.value == self._until.name:
            if self._until.change:
                look = self._look(*self._until.change)
                self._finish(f"{look} == before" if self._until.change[0] == "entries" else look)
            shown = self.visit(value)
            for key in self._until.entry:
                shown = ast.Subscript(shown, ast.parse(repr(key), mode="eval").body, ast.Load())
            self._finish(ast.unparse(shown) + self._until.of_it)
        if self._until.line and not self._is_drawn(value):  # what a watch reports, for example, cannot fail
            text = ast.unparse(self.visit(value))
            if self._is_failing(node):
                self._emit(text, node)

    def _finish(self, shown: str) -> None:
        """End with a line that prints this."""
        self._expected = copy_value(eval(shown, self._space))
        self._lines.append(Line(f"print({shown})"))
        raise _Finished

    def _look(self, kind: str, place: str) -> str:
        root, dot, path = place.replace("[", ".[").partition(".")
        return look_at(kind, self._watched.get(root, root), path.split(".") if dot else [], self._space)

    def _is_failing(self, node: ast.stmt | None) -> bool:
        """Whether this is the statement at whose line the program ends."""
        if node is None or not self._until.line or (self._from and self._until.from_line not in self._from):
            return False
        return self._returns_failing or node.lineno <= self._until.line - self._before <= (
            node.end_lineno or node.lineno
        )

    def _emit(self, text: str, node: ast.stmt | None = None) -> None:
        """Print a line, and run it unless it is the last, which fails for the learner."""
        line = Line(re.sub(r"^(\w+), = ", r"(\1,) = ", text.strip()))
        self._lines.append(line)
        if self._is_failing(node):
            raise _Finished
        try:
            exec(compile(line.text, "<story>", "exec"), self._space)
        except Exception as error:
            raise Untold(f"{line.text!r} fails in the program with {type(error).__name__}: {error}") from error
        for name in line.names[0]:
            self._drawn.pop(name, None)

    def _is_watch(self, node: ast.expr | None) -> bool:
        if not self._is_call_of(Watch, node) or not isinstance(node, ast.Call):
            return False
        self._watched = {word.arg or "": ast.unparse(self.visit(copy.deepcopy(word.value))) for word in node.keywords}
        return True

    def program(self) -> Program:
        """The lines that are needed. If they show something else than all lines do, it is all lines."""
        short = shortened(self._lines, self._name)
        lines = short if self._shows_the_same(short) else self._lines
        parts = [part for line in lines for part in line.text.splitlines() if part]
        return Program(tuple(parts), self._expected)

    def _shows_the_same(self, lines: list[Line]) -> bool:
        shown: list[Any] = []
        text = "\n".join(line.text for line in (lines[:-1] if self._until.line else lines))
        try:
            exec(compile(text, "<story>", "exec"), {**self._fresh_space(), "print": shown.append})
        except Exception:
            return False
        return bool(self._until.line) or (len(shown) == 1 and repr(shown[0]) == repr(self._expected))
