"""The options of `hookwork grade` and `hookwork autograder`. The code behind them is imported only when they run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

PANEL = "Teach"
EXIT_CODES_HELP = (
    "Exit codes: 0 everything was graded, whatever the marks; 2 a wrong name, file or option; 3 something could not be "
    "graded (which costs nobody points), or needs a look: whose file one is, an export, or a mark by hand."
)
EXPORT_NAMES = ("canvas", "gradescope", "moodle")
COMMENT_RULES = ("below", "keep")


def register_commands(app: typer.Typer) -> None:
    """Add the instructor's commands."""
    app.command(rich_help_panel=PANEL, epilog=EXIT_CODES_HELP)(grade)
    app.command(rich_help_panel=PANEL)(autograder)


def _split_at_commas(names: list[str] | None) -> tuple[str, ...]:
    """The values of an option that may be given several times, and may hold several values between commas."""
    return tuple(part.strip() for name in names or [] for part in name.split(",") if part.strip())


def grade(
    context: typer.Context,
    where: Annotated[
        Path, typer.Argument(metavar="DIR", help="A class, one student's folder, a notebook, or an archive of these.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where results and pages are written.")],
    export: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help=f"Files for other programs: {', '.join(EXPORT_NAMES)}.")
    ] = None,
    roster: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Who is in the class, as Canvas or Moodle exports it.")
    ] = None,
    groups: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Who works with whom: every member gets the group's result.")
    ] = None,
    scale: Annotated[
        bool, typer.Option("--scale", help="Convert the points in exports to those of the assignment on the roster.")
    ] = False,
    moodle_comments: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="If a teacher commented in the worksheet: our feedback goes below, or keep only theirs.",
        ),
    ] = "below",
    names: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Pattern of file names, as in '{student}_{id}_{lesson}' or '{any}/{student}/{file}', or a platform.",
        ),
    ] = None,
    one_student: Annotated[
        bool, typer.Option("--one-student", help="Everything in DIR is one student's work.")
    ] = False,
    confirm_files: Annotated[
        bool,
        typer.Option("--confirm-files", help="Confirm how files were read: doubts no longer affect the exit code."),
    ] = False,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The last file before it counts: 2026-11-20T18:00 (local time), '2026-11-20T18:00 Europe/Paris'.",
        ),
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="What late work loses: none (default), zero, or '10%/day at most 50%'."),
    ] = None,
    points: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Other points: columns exercise, points and, optionally, check.")
    ] = None,
    lessons: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="Lessons that are due, as in 01,02. Default: those several students handed in."
        ),
    ] = None,
    student: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Mark only this student again; other results stay.")
    ] = None,
    exercise: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Mark only this exercise again; other results stay.")
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Take out a student who has left: earlier results and pages."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**53 - 1, help="Repeat a run exactly.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run every notebook, even if an earlier run is kept.")] = False,
    keep_outputs: Annotated[
        bool, typer.Option("--keep-outputs", help="Also write the executed notebooks, to DIR/executed.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Notebooks at a time. Default: as many as cores and memory allow.")
    ] = None,
    isolation: Annotated[str, typer.Option(metavar="TIER", help="auto, A, B, C or D.")] = "auto",
    allow_unisolated: Annotated[bool, typer.Option(help="Mark a class even without isolation.")] = False,
    cluster: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Run the notebooks on a Dask cluster: its address or scheduler file.")
    ] = "",
    cell_timeout: Annotated[float | None, typer.Option(metavar="S", help="Seconds for one cell.")] = None,
    notebook_timeout: Annotated[float | None, typer.Option(metavar="S", help="Seconds for a whole notebook.")] = None,
    probe_timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for one call of a function.")
    ] = None,
    memory_limit: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory for a notebook, such as 2G.")] = None,
    output_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Text that a notebook may write, such as 8M.")
    ] = None,
) -> int:
    """Mark a class, and write its results, a gradebook, a page for each student, and class.html.

    [bold]Examples[/]

    hookwork grade submissions.zip --out results

    hookwork grade class --out results --roster canvas.csv --deadline 2026-11-20T18:00 --late "10%/day" --export canvas

    hookwork grade class --out results --student "Ada Lovelace"
    """
    from dataclasses import replace

    from graders.core import course
    from graders.core.quantities import parse_seconds, parse_size
    from graders.core.terminal import output_terminal
    from graders.instructor.machines import Machines
    from graders.instructor.request import Request, parse_time, read_groups, read_points, read_roster, time_zone
    from graders.marking.cache import RunCache
    from graders.report.policy import PointsTable, parse_late_rule
    from graders.sandbox.outside.tiers import TIERS
    from graders.submissions.lms import parse_name_pattern
    from graders.wire.limits import Limits

    exports = _split_at_commas(export)
    if isolation not in ("auto", *TIERS):
        raise typer.BadParameter(f"{isolation!r} is not a tier: auto, {', '.join(TIERS)}", param_hint="--isolation")
    if unknown := [name for name in exports if name not in EXPORT_NAMES]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(EXPORT_NAMES)}", param_hint="--export")
    if moodle_comments not in COMMENT_RULES:
        why = f"{moodle_comments!r} is none of {', '.join(COMMENT_RULES)}"
        raise typer.BadParameter(why, param_hint="--moodle-comments")
    given: dict[str, Any] = {
        "cell_seconds": cell_timeout and parse_seconds(str(cell_timeout)),
        "notebook_seconds": notebook_timeout and parse_seconds(str(notebook_timeout)),
        "probe_seconds": probe_timeout and parse_seconds(str(probe_timeout)),
        "memory": memory_limit and parse_size(memory_limit),
        "output": output_limit and parse_size(output_limit),
    }
    keys = _split_at_commas(exercise)
    for key in keys:
        course.find_exercise(key)
    request = Request(
        where=where,
        out=out,
        seed=seed,
        jobs=jobs,
        isolation=isolation,
        allow_unisolated=allow_unisolated,
        limits=replace(Limits(), **{name: value for name, value in given.items() if value}),
        exports=exports,
        roster=read_roster(roster) if roster else None,
        deadline=parse_time(deadline) if deadline else math.inf,
        zone=time_zone(deadline) if deadline else None,
        rule=None if late is None else parse_late_rule(late),
        points=read_points(points) if points else PointsTable(),
        students=tuple(student or ()),
        exercises=keys,
        cluster=cluster,
        fresh=fresh,
        keep_outputs=keep_outputs,
        lessons=tuple(map(course.find_lesson, _split_at_commas(lessons))),
        files=tuple(file for file in (roster, points, groups) if file),
        groups=read_groups(groups) if groups else None,
        scale=scale,
        names=parse_name_pattern(names) if names else None,
        one_student=one_student,
        confirm_files=confirm_files,
        comments_below=moodle_comments == "below",
        forgotten=tuple(forget or ()),
    )
    all_run = where.exists() and not cluster and RunCache(out / "runs", fresh=fresh).is_empty
    machines = context.obj or Machines()
    with machines.here(now=all_run) as boxes:
        from graders.instructor.grading import grade_class  # imports torch

        return grade_class(request, output_terminal(), boxes, machines)


def autograder(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="gradescope (a zip file), github (a workflow), slurm (a job), container (a Dockerfile).",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")],
) -> None:
    """Write the files for marking elsewhere: on Gradescope, on GitHub, on SLURM, or in containers.

    [bold]Examples[/]

    hookwork autograder gradescope --out autograder.zip

    hookwork autograder github --out .github/workflows/mark.yml

    hookwork autograder slurm --out mark_on_slurm.py

    hookwork autograder container --out Dockerfile && podman build -t hookwork -f Dockerfile .
    """
    from graders.core.terminal import output_terminal
    from graders.instructor import autograders

    if kind not in autograders.AUTOGRADER_WRITERS:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(autograders.AUTOGRADER_WRITERS)}", param_hint="KIND")
    autograders.AUTOGRADER_WRITERS[kind](out)
    output_terminal().say(f"written: {out}")
