"""IPython's shell in a box, where a missing package or a magic that fails costs only what uses it.

The package was there when the notebook was written, so a cell that imports it must not lose all that stands below. A
statement that fails because a package is missing is left out, whether it imports the package or needs a name that is
lost with it. The other statements of its cell run. A magic that fails is left out alike: it worked where the notebook
was written, with other packages or on another system.
"""

from __future__ import annotations

import ast
import codecs
import contextlib
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell

from graders.probing.process_limits import exceeded_limit
from graders.sandbox.inside import colab

_CELL_MAGIC = re.compile(r"((?:[ \t]*\n)*)%%([\w.]+)")
"""The first line of a cell with a magic of its own, after empty lines."""
QUIET_SECONDS = 0.05
"""What a program that a command left in the background may still print, once the command has ended."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class CellShell(ZMQInteractiveShell):  # type: ignore[misc]  # ipykernel is untyped
    """IPython's shell, which goes on after a magic that fails, and a statement that lacks a package."""

    _transformed: tuple[str, str] | None = None
    """The source of a cell and its transformed text, until it runs."""

    def __init__(self, **kwargs: Any) -> None:
        """Create the shell as ipykernel does; nothing is left out yet."""
        super().__init__(**kwargs)
        self._left_out: list[BaseException] = []
        """Why statements of this cell were left out."""
        self._lost: set[str] = set()
        """The names that such statements would have bound, in all cells; "*" stands for any."""

    def transform_cell(self, raw_cell: str) -> str:
        """Return the cell as Python, without magics.

        ipykernel transforms each cell twice, once to see whether it awaits something, so a result is kept for the
        second time and then forgotten.
        """
        known, self._transformed = self._transformed, None
        if known is not None and known[0] == raw_cell:
            return known[1]
        found: str = super().transform_cell(self._without_unknown_magic(raw_cell))
        self._transformed = raw_cell, found
        return found

    def _without_unknown_magic(self, raw_cell: str) -> str:
        """The cell; if its `%%magic` is unknown, with that line as a `%magic`, which fails alone, above the others."""
        match = _CELL_MAGIC.match(raw_cell)
        if match is None or self.find_cell_magic(match[2]) is not None:
            return raw_cell
        changed = match[1] + raw_cell[match.end(1) + 1 :]
        try:
            ast.parse(super().transform_cell(changed))
        except Exception:  # the magic is for another language
            return raw_cell
        return changed

    async def run_ast_nodes(
        self,
        nodelist: list[ast.stmt],
        cell_name: str,
        interactivity: str = "last_expr",
        compiler: Any = compile,
        result: Any = None,
    ) -> bool:
        """Run statements as IPython does, and go on after those that are left out.

        Return whether any failed; the last error is in `result`.
        """
        failed = False
        statements = [part for node in nodelist for part in _split_import(_with_guarded_magics(node))]
        for statement in statements:
            if colab.imports_colab(statement):
                colab.make_colab_importable()
            shown = interactivity if statement is statements[-1] or interactivity == "all" else "none"
            if await super().run_ast_nodes([statement], cell_name, shown, compiler, result):
                failed = True
                if not self._note_left_out(statement, getattr(result, "error_in_exec", None)):
                    break
        return failed

    def _note_left_out(self, statement: ast.stmt, error: BaseException | None) -> bool:
        """Note a statement that failed because it is a magic or lacks a package; return whether that was so."""
        needs_it = isinstance(error, NameError) and not self._lost.isdisjoint({error.name, "*"})
        magic = _magic_in(statement) if isinstance(error, Exception) and not _is_limit(error) else ""
        if error is None or not (isinstance(error, ImportError) or needs_it or magic):
            return False
        self._left_out.append(error)
        self._lost |= _bound_names(statement) | ({"*"} if magic == "run" else set())
        return True

    def leave_out_magic(self) -> None:
        """Note that the magic whose exception is being handled was left out, and show why, as for any other."""
        error = sys.exc_info()[1]
        if error is None or _is_limit(error):
            raise
        self.showtraceback()
        self._left_out.append(error)

    def system_piped(self, cmd: str) -> None:
        """Run `!cmd` as ipykernel does, but through a pipe: it would need a terminal, which few boxes have."""
        if sys.platform == "win32" or cmd.rstrip().endswith("&"):  # the latter is refused
            super().system_piped(cmd)
            return
        with _running_command(self.var_expand(cmd, depth=1)) as command:
            for text in _printed_by(command):
                print(text, end="", flush=True)
        self.user_ns["_exit_code"] = command.returncode
        if command.returncode and getattr(self, "system_raise_on_error", False):
            raise subprocess.CalledProcessError(command.returncode, cmd)

    system = system_piped

    def missing_names(self) -> dict[str, str]:
        """Return what the last cell lacked: why statements were left out, missing modules, and an undefined name."""
        left_out, self._left_out = self._left_out, []
        errors = [*left_out, getattr(self.last_execution_result, "error_in_exec", None)]
        modules = [str(error.name) for error in errors if isinstance(error, ModuleNotFoundError) and error.name]
        names = [str(error.name) for error in errors if isinstance(error, NameError) and error.name]
        why = dict.fromkeys(f"{type(error).__name__}: {error}" for error in left_out)
        return {"left_out": "; ".join(why), "modules": " ".join(modules), "undefined": " ".join(names[:1])}


def _is_limit(error: BaseException) -> bool:
    """Whether an exception says that a limit was reached, which counts for the whole cell."""
    return exceeded_limit(type(error).__name__, str(error)) is not None


def _magic_in(statement: ast.stmt) -> str:
    """The name of the magic or system command that a statement is, alone or assigned to a name; empty if it is none."""
    match statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=how), args=args):
            name = args[0].value if how.endswith("_magic") and args and isinstance(args[0], ast.Constant) else how
            return str(name)
    return ""


def _with_guarded_magics(statement: ast.stmt) -> ast.stmt:
    """The statement, in which a magic that fails costs no other line of the same `if`, loop or `with`."""
    if not isinstance(statement, (ast.If, ast.For, ast.While, ast.With)):
        return statement
    return ast.fix_missing_locations(_Guard().visit(statement))  # type: ignore[no-any-return]


class _Guard(ast.NodeTransformer):
    """Puts each magic into a `try` of its own, but none in a function, where errors must get through, or in a `try`."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if not _magic_in(node):
            return node
        handler = ast.parse("try: pass\nexcept Exception: get_ipython().leave_out_magic()").body[0]
        assert isinstance(handler, ast.Try)
        return ast.copy_location(ast.Try([node], handler.handlers, [], []), node)

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Try = _leave


@contextlib.contextmanager
def _running_command(command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a shell, whose output goes into a pipe; it is ended if the cell is interrupted."""
    with subprocess.Popen(
        command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _printed_by(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield what a command prints, until it has ended: programs that it leaves behind may keep its pipe open."""
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        ended = process.poll() is not None
        if select.select([process.stdout], [], [], QUIET_SECONDS)[0]:
            part = os.read(process.stdout.fileno(), 1 << 16)
            yield decoder.decode(part, final=not part)
            if not part:
                return
        elif ended:
            return


def _split_import(statement: ast.stmt) -> list[ast.stmt]:
    """Split an import into several that bind one name each, so that a missing one costs no other."""
    match statement:
        case ast.Import(names=names):
            parts: list[ast.stmt] = [ast.Import([name]) for name in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            parts = [ast.ImportFrom(module, [name], level) for name in names]
        case _:
            return [statement]
    return [ast.copy_location(part, statement) for part in parts]


def _bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement would have bound, perhaps with some that a function within it binds."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, _DEFINITIONS):
            found.add(node.name)
    return found
