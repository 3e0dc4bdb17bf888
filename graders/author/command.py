"""The options of `hookwork new` and `hookwork build`. The code behind them is imported only when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from graders.core.errors import EXIT_CODES_HELP, ExitCode, NotInstalled

PANEL = "Write lessons"


def register_commands(app: typer.Typer) -> None:
    """Add the author's commands."""
    app.command(rich_help_panel=PANEL, epilog=EXIT_CODES_HELP)(new)
    app.command(rich_help_panel=PANEL)(build)


def new(
    key: Annotated[str, typer.Argument(help="The key of the new exercise, for example 20-double-grad.")],
    topic: Annotated[
        str | None, typer.Option("--topic", help="The topic of a lesson that does not exist yet, for example doubling.")
    ] = None,
    arguments: Annotated[
        str, typer.Option("--args", help="The arguments of its function, for example 'module, limit'.")
    ] = "x",
) -> int:
    """Create the parts of a new exercise: its grader, its answers, and its cell in the lesson's source.

    [bold]Example[/]

    hookwork new 20-double-grad --topic doubling --args t
    """
    from graders.author.skeleton import new_exercise
    from graders.core.terminal import output_terminal

    out = output_terminal()
    for file in new_exercise(key, topic, arguments):
        out.say(f"written: {file}")
    out.say(f"To see what is still missing: hookwork build --check {key[:2]}")
    return ExitCode.FINE


def build(
    lessons: Annotated[
        list[str] | None,
        typer.Argument(help="Numbers or stems of lessons, and keys with --mutate or --ablate; default: all."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Prove the course instead of building it.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="With --check: the number of seeds to try.")] = 20,
    mutate: Annotated[
        bool, typer.Option("--mutate", help="Try the graders on wrong answers made from right ones.")
    ] = False,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="List the observations and wrong answers that nothing needs.")
    ] = False,
    part: Annotated[
        str, typer.Option(metavar="K/N", help="Every N-th mutant or, with --check, program, from number K on.")
    ] = "0/1",
) -> int:
    """Build the notebooks from their sources, prove the course with --check, or try its graders with --mutate.

    The exit code is 1 when something is wrong. Each problem is one line; a mutant that passes is shown as a diff.
    """
    try:
        from graders.author import ablate as ablation
        from graders.author import build as building
        from graders.author import prove
        from graders.author.mutate import score
        from graders.author.places import is_meant
        from graders.author.workers import parse_part
    except ModuleNotFoundError:
        raise NotInstalled("building lessons", "dev") from None
    from graders.core import course
    from graders.core.source import SourceError
    from graders.core.terminal import output_terminal, plain_lines

    out, errors = output_terminal(), output_terminal(stderr=True)
    problems: list[str] = []

    def complain(problem: str) -> None:
        problems.append(problem)
        errors.print(plain_lines(f"✗ {problem}"), soft_wrap=True)

    if mutate or ablate:
        keys = score.choose_keys(lessons or [])
        found = ablation.ablate_exercises(keys, parse_part(part), out.say)
        if mutate:
            found = score.score_exercises(keys, parse_part(part), out.say)
        for problem in found:
            complain(problem)
        return ExitCode.NOT_PASSED if problems else ExitCode.FINE
    chosen = tuple(
        lesson for lesson in course.lesson_stems() if not lessons or any(is_meant(lesson, name) for name in lessons)
    )
    if not chosen:
        raise course.UnknownLesson(
            f"There is no lesson {' or '.join(lessons or [])}: {', '.join(course.lesson_stems())}"
        )
    if check:
        for problem in prove.prove_lessons(
            chosen, lambda text: out.say(f"proved  {text}"), range(seeds), parse_part(part)
        ):
            complain(problem)
    else:
        for lesson in chosen:
            try:
                for file in building.build_lesson(lesson):
                    out.say(f"written: {file}")
            except SourceError as error:  # build the other lessons anyway
                complain(error.message_line())
    if problems:
        return ExitCode.NOT_PASSED
    out.say("The course holds." if check else "Built.")
    return ExitCode.FINE
