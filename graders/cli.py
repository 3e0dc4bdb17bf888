"""The `hookwork` command: options and help. Other modules do the work; they load when needed, so that help is quick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graders.author import command as author
from graders.core import course
from graders.core.errors import ERROR_LIMIT, EXIT_CODES_HELP, ExitCode, FileTrouble, HookworkError
from graders.core.text import clean_text
from graders.core.ways import WAYS
from graders.instructor import command as instructor
from graders.learner import explain


def complete_keys(incomplete: str) -> list[str]:
    """The keys of exercises that start with `incomplete`, for the shell's Tab key."""
    every = (key for lesson in course.lesson_stems() for key in course.exercise_keys(lesson))
    return [key for key in every if key.startswith(incomplete)]


def complete_lessons(incomplete: str) -> list[str]:
    """The lessons that start with `incomplete`, and then the keys that do."""
    return [lesson for lesson in course.lesson_stems() if lesson.startswith(incomplete)] + complete_keys(incomplete)


@contextmanager
def typed_text_cleaned() -> Iterator[None]:
    """Clean the messages of Typer's own errors, which quote whatever was typed, control characters included."""
    try:
        yield
    except Exception as error:  # the base class of Typer's errors is private
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = clean_text(message, ERROR_LIMIT)  # type: ignore[attr-defined]
        raise


class Commands(TyperGroup):
    """The group of all commands. A command returns its exit code; a `HookworkError` is shown in one line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse what was typed before the name of the command."""
        with typed_text_cleaned():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> None:
        """Run a command and exit with its code."""
        try:
            with typed_text_cleaned():
                code = super().invoke(ctx)
        except HookworkError as error:
            trouble = error
        except BrokenPipeError:
            raise  # the reader of our output has gone, as in `hookwork rules | head`: nobody would see a message
        except OSError as error:
            trouble = FileTrouble(error)
        else:
            raise typer.Exit(code or ExitCode.FINE)
        from graders.core.terminal import output_terminal

        output_terminal(stderr=True).say(f"✗ {trouble.message_line()}", style="red")
        raise typer.Exit(trouble.exit_code)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=EXIT_CODES_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[
    Path | None,
    typer.Option("--folder", "-C", help="The folder with your lessons; default: this one, or [bold]hookwork[/] in it."),
]
Key = Annotated[
    str,
    typer.Argument(help="The key of an exercise, for example 01-chain-grads.", autocompletion=complete_keys),
]


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        from graders.core.terminal import output_terminal

        output_terminal().say(f"hookwork {version('hookwork')}")
        raise typer.Exit


@app.callback()
def hookwork(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A course on PyTorch hooks, marked by measuring. Start with [bold]hookwork start[/]."""


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def start(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder for your lessons; default: hookwork/.")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Copy the lessons without opening JupyterLab.")] = False,
) -> int:
    """Copy the lessons into a folder, and open JupyterLab on the next one.

    Files that are already there are never touched, so a second start carries on where you left off.

    [bold]Examples[/]

    hookwork start

    hookwork start ~/courses/hooks --no-open
    """
    from graders.learner import commands

    return commands.start(folder, opened=not no_open)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def check(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="LESSON|FILE",
            help="A lesson (3, or its name), a key, a notebook or a folder; default: every lesson you have started.",
            autocompletion=complete_lessons,
        ),
    ] = None,
    folder: Folder = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**53 - 1, help="The seed of an earlier check, to draw the same inputs.")
    ] = None,
    isolation: Annotated[
        str, typer.Option(metavar="TIER", help="The isolation tier to run it in: auto, A, B, C or D.")
    ] = "auto",
    more: Annotated[
        bool, typer.Option("--more", help="Show every check of a wrong answer, even if one says what is wrong.")
    ] = False,
) -> int:
    """Run a notebook in its own box, and say what was measured for each exercise.

    [bold]Examples[/]

    hookwork check 3

    hookwork check 03-scale-grad --more

    hookwork check downloads/03_changing_gradients.ipynb
    """
    from graders.learner import commands
    from graders.sandbox.outside.boxes import prestarted_boxes
    from graders.sandbox.outside.tiers import TIERS

    if isolation not in ("auto", *TIERS):
        raise typer.BadParameter(f"{isolation!r} is not a tier: auto, {', '.join(TIERS)}", param_hint="--isolation")
    # A test gives it boxes that are there already.
    return commands.check(target, folder, seed, isolation, more, context.obj or prestarted_boxes)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def watch(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder with your lessons; default: this one.")
    ] = None,
) -> int:
    """Mark each notebook when you save it, until you press Ctrl-C.

    [bold]Examples[/]

    hookwork watch

    hookwork watch ~/courses/hooks
    """
    from graders.learner import commands

    return commands.watch(folder)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def progress(
    folder: Folder = None,
    way: Annotated[
        str | None, typer.Option("--way", help=f"Choose what Next follows from now on: {', '.join(WAYS)}.")
    ] = None,
) -> int:
    """Show your lessons, exercises and points, and what comes next.

    Checks in a notebook, `hookwork check` and `hookwork watch` all count: each writes to hookwork-progress.json.

    [bold]Examples[/]

    hookwork progress

    hookwork progress --way core
    """
    from graders.learner import commands

    return commands.progress(folder, way)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def hint(key: Key, folder: Folder = None) -> int:
    """Show the next hint for an exercise; after the last one, they start over.

    [bold]Example[/]

    hookwork hint 01-chain-grads
    """
    from graders.learner import commands

    return commands.hint(key, folder)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def solution(key: Key, folder: Folder = None) -> int:
    """Show the worked answer, once your check has passed or you ask a second time (exit code 1 the first time).

    [bold]Example[/]

    hookwork solution 01-chain-grads
    """
    from graders.learner import commands

    return commands.solution(key, folder)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def rules() -> int:
    """Show the rules that apply to every exercise.

    [bold]Example[/]

    hookwork rules
    """
    from graders.learner import commands

    return commands.rules()


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def reset(key: Key, folder: Folder = None) -> int:
    """Back up your notebook and put the stub of one exercise back into it; everything else stays.

    [bold]Example[/]

    hookwork reset 01-chain-grads
    """
    from graders.learner import commands

    return commands.reset(key, folder)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def export(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="LESSON|FILE",
            help="A lesson, a notebook or a folder; default: every lesson you have started.",
            autocompletion=complete_lessons,
        ),
    ] = None,
    folder: Folder = None,
) -> int:
    """Write notebooks as pages for paper, beside them: folded code is left out, and long lines are wrapped.

    Open a page in a browser and print it, or save it as PDF.

    [bold]Example[/]

    hookwork export 5
    """
    from graders.learner import commands

    return commands.export(target, folder)


@app.command(rich_help_panel="Learn", epilog=EXIT_CODES_HELP)
def toolbox(folder: Folder = None) -> int:
    """Collect your answers that have passed into my_hooks.py, a module of your own for other programs.

    It takes the answers of lessons 2, 5, 6, 7, 9 and 11 from your saved notebooks, with all that they need. A
    my_hooks.py that you have changed stays as it is: then the new one is my_hooks.py.new.

    [bold]Example[/]

    hookwork toolbox
    """
    from graders.learner import commands

    return commands.toolbox(folder)


author.register_commands(app)
instructor.register_commands(app)
explain.register_command(app)

if __name__ == "__main__":
    app()
