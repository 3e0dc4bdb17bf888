from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import graders
from graders.core.terminal import Terminal, plain_line, plain_lines

PACKAGE = Path(graders.__file__).parent
NAME = "a\x1b]0;owned\x07[bold]b[/x]\u202e\nc\udcff:smile:"
SHOWN = "a\ufffd]0;owned\ufffd[bold]b[/x]\ufffd c\ufffd:smile:"


def printed(*what: object, width: int = 200) -> str:
    out = Terminal(io.StringIO(), width=width)
    out.print(*what)
    return out.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_string_is_one_line_wherever_it_stands() -> None:
    assert printed(NAME) == f"{SHOWN}\n"
    table = Table(NAME, title=NAME)
    table.add_row(NAME)
    assert printed(table).count(SHOWN) == 3
    assert printed(plain_line(NAME, (NAME, "bold"))) == f"{SHOWN}{SHOWN}\n"
    with Terminal(io.StringIO()).status(NAME) as status:
        assert str(status.status) == SHOWN


def test_lines_are_kept_where_they_are_meant() -> None:
    assert printed(plain_lines(NAME)) == SHOWN.replace(" c", "\nc") + "\n"


def test_what_was_made_otherwise_is_cleaned_all_the_same() -> None:
    assert "a\ufffd]0;owned" in printed(Panel(Text(NAME)))
    assert not {"\x1b", "\x07", "\u202e", "\udcff"} & set(printed(Panel(Text(NAME))))


def test_a_long_path_is_not_folded_where_others_read_it() -> None:
    out = Terminal(io.StringIO(), width=40)
    out.say(f"written: {'x/' * 400}", "")
    assert out.file.getvalue() == f"written: {'x/' * 400}\n\n"  # type: ignore[attr-defined]


OTHERWISE = {
    "core/terminal.py": "it is the one place",
    "nets/train.py": "numbers for authors, and no name",
    "nets/train_echo.py": "numbers for authors, and no name",
    "sandbox/inside/forker.py": "an error of a box, in a file that is read as such",
    "sandbox/inside/shell.py": "what a command prints, inside a box",
    "sandbox/inside/stub_pip.py": "what pip itself would say, inside a box",
    "learner/notebook/render.py": "a panel in a notebook, of text that was cleaned",
    "learner/notebook/predictions.py": "one line below a cell, of text that was cleaned",
    "nets/yours.py": "one line in a cell of a lesson",
}
"""Who prints in another way, and why that is fine."""
MAKERS = {"print", "echo", "secho", "from_markup", "from_ansi", "Console", "Text", "assemble"}
"""What prints, or makes a text that rich prints, of a string as it is."""
PARSERS = {"Panel", "Spinner", "Rule", "TextColumn"}
"""What looks for markup in the strings that it gets."""
STREAMS = {"stdout", "stderr"}


def called(node: ast.Call) -> str:
    """The last part of the name of what is called; of `print`, only the function and not a method."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return "" if attribute == "print" else attribute


def faults(tree: ast.AST) -> Iterator[str]:
    """Where a module prints past the terminal, or hands a name to something that looks for markup in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rich":
            yield from (f"{node.lineno}: imports {alias.name}" for alias in node.names if alias.name in MAKERS)
        if isinstance(node, ast.Attribute) and node.attr == "write" and getattr(node.value, "attr", "") in STREAMS:
            yield f"{node.lineno}: writes to {ast.unparse(node.value)}"
        if isinstance(node, ast.Call) and called(node) in MAKERS:
            yield f"{node.lineno}: calls {ast.unparse(node.func)}"
        if isinstance(node, ast.Call) and called(node) in PARSERS:
            given = [*node.args, *(word.value for word in node.keywords)]
            for part in given:
                if isinstance(part, ast.JoinedStr | ast.BinOp | ast.Name | ast.Attribute | ast.Subscript):
                    yield f"{node.lineno}: {ast.unparse(node)} may find markup in {ast.unparse(part)}"


def test_nobody_prints_past_the_terminal() -> None:
    found: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        inner = file.relative_to(PACKAGE)
        if inner.parts[0] != "course" and (here := list(faults(ast.parse(file.read_text("utf-8"))))):
            found[inner.as_posix()] = here
    assert {file: here for file, here in found.items() if file not in OTHERWISE} == {}
    assert set(found) == set(OTHERWISE)


@pytest.mark.parametrize(
    "source",
    [
        "print(f'written: {file}')",
        "typer.echo(file)",
        "typer.secho(str(file))",
        "from rich.text import Text",
        "from rich.console import Console",
        "from rich import print",
        "Text.from_markup(name)",
        "sys.stderr.write(name)",
        "Panel(text, title=name)",
        "Spinner('dots', f'Running {file}')",
        "TextColumn(name)",
    ],
)
def test_each_way_past_the_terminal_is_found(source: str) -> None:
    assert list(faults(ast.parse(source)))


def test_the_way_through_the_terminal_is_fine() -> None:
    source = (
        "out.say(f'written: {file}')\nout.print(table)\nPanel(Group(*parts), title=line(name))\nTextColumn('left:')"
    )
    assert list(faults(ast.parse(source))) == []
