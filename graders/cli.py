"""The command `hookwork`."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)


@app.callback()
def hookwork() -> None:
    """A course on PyTorch hooks, marked by measuring."""


@app.command()
def build(
    lessons: Annotated[list[str] | None, typer.Argument(help="Stems or numbers of lessons; default: all.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Prove the course instead of writing it.")] = False,
) -> None:
    """Build the notebooks from their sources, or prove with --check that the course holds.

    Exit status 1 when something is wrong; each problem is one line.
    """
    try:
        from graders.author import build as building
        from graders.author import prove
    except ModuleNotFoundError as error:
        typer.echo(f"{error.name} is needed to build lessons. Install it with: pip install 'hookwork[dev]'", err=True)
        raise typer.Exit(1) from None
    from graders.core import course
    from graders.core.source import SourceError

    chosen = tuple(one for one in course.lessons() if not lessons or any(one.startswith(part) for part in lessons))
    if not chosen:
        typer.echo(f"No lesson starts with {' or '.join(lessons or [])}: {', '.join(course.lessons())}", err=True)
        raise typer.Exit(1)
    problems = 0

    def complain(problem: str) -> None:
        nonlocal problems
        problems += 1
        typer.echo(f"✗ {problem}", err=True)

    if check:
        for problem in prove.prove(chosen, lambda text: typer.echo(f"proved  {text}")):
            complain(problem)
    else:
        for lesson in chosen:
            try:
                for file in building.build(lesson):
                    typer.echo(f"written: {file}")
            except SourceError as error:
                complain(str(error))
    if problems:
        raise typer.Exit(1)
    typer.echo("The course holds." if check else "Built.")


if __name__ == "__main__":
    app()
