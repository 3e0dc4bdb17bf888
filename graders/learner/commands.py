"""The learner's commands. Each returns an exit code; `given` is the folder that was named, None if none was."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path

from graders.core import course
from graders.core.errors import ExitCode
from graders.core.results import Status
from graders.core.rules import rules_page
from graders.core.terminal import Terminal, output_terminal
from graders.core.text import format_count
from graders.learner import folder as folders
from graders.learner.folder import LearnerError
from graders.learner.notebook import record
from graders.learner.notebook.record import Record
from graders.learner.own_python import module_command
from graders.learner.saved import SavedNotebooks
from graders.sandbox.outside.boxes import Boxes, prestarted_boxes
from graders.sandbox.outside.run_options import RunOptions

LOOK_SECONDS = 0.5
"""How often `watch` looks for saved notebooks, in seconds."""


def start(given: Path | None, *, opened: bool) -> int:
    """Copy the lessons that are missing and, if `opened`, run JupyterLab on the next one until it ends."""
    out = output_terminal()
    folder = given or folders.find_folder()
    if given is None and not folders.lesson_notebooks(folder):
        folder = Path(folders.FOLDER_NAME)
    new = folders.copy_lessons(folder)
    there = folders.lesson_notebooks(folder)
    unchanged = "" if len(new) == len(there) else f", {len(new) or 'none'} of them new; yours are unchanged"
    out.say(f"{format_count(len(there), 'lesson')} in {folder}{unchanged}.")
    done = record.load_record(folder)
    _show_trouble(out, done)
    lesson = folders.next_lesson(done)
    file = there[lesson or course.lesson_stems()[0]]
    out.say(
        f"Next: lesson {course.lesson_title(lesson)}, {file}"
        if lesson
        else "You have passed every exercise on your way."
    )
    out.say("", "In a second terminal, `hookwork watch` marks each notebook that you save.", style="dim")
    if importlib.util.find_spec("jupyterlab") is None:
        out.say(
            "JupyterLab is not installed. Install it with: pip install jupyterlab",
            "Or open the folder in VS Code or another front end, with this Python as the kernel.",
        )
        return ExitCode.FINE
    # As root, which is common in containers, JupyterLab refuses to start without this option.
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command = module_command("jupyterlab", file.name, *as_root)
    if not opened:
        out.say(f"Open it with: cd {folder} && jupyter lab {file.name}")
        return ExitCode.FINE
    out.say("Opening JupyterLab; Ctrl-C here ends it.", style="dim")
    with subprocess.Popen(command, cwd=folder) as server:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # leave Ctrl-C to JupyterLab, which asks before it stops
        return server.wait()


def check(
    target: str | None,
    given: Path | None,
    seed: int | None,
    isolation: str,
    more: bool,
    prestarted: Callable[..., AbstractContextManager[Boxes]],
) -> int:
    """Mark the notebooks that `target` means and show the verdicts; with `more`, every check of a wrong answer."""
    out = output_terminal()
    chosen, only = _chosen_notebooks(target, given)
    code, used, notes = ExitCode.FINE, [], Record()
    with prestarted(now=True, files=chosen.values()) as boxes:
        # These import torch, while the box is already starting.
        from graders.learner import screens
        from graders.learner.marking import mark_own
        from graders.learner.notebook.standing import build_standing

        runner = boxes.runner(RunOptions(isolation=isolation, own_work=True))
        for lesson, file in chosen.items():
            with out.status(f"Running {file}"):
                result, seed_used, notes = mark_own(lesson, file, runner, seed)
            used.append(seed_used)
            out.print(screens.result_screen(result, only, more=more), "", crop=False)
            statuses = [exercise.status for exercise in result.exercises if only in (None, exercise.key)]
            if not result.graded:
                code = ExitCode.NOT_GRADED
            elif not statuses or any(status is not Status.PASSED for status in statuses):
                code = max(code, ExitCode.NOT_PASSED)
        out.print(screens.next_exercise_line(build_standing(course.every_exercise(), notes)))
        seeds = ", ".join(map(str, used))
        out.say(f"Isolation {runner.tier}. The inputs were drawn from --seed {seeds}", style="dim")
    _show_trouble(out, notes)
    return code


def _chosen_notebooks(target: str | None, given: Path | None) -> tuple[dict[str, Path], str | None]:
    """The notebooks to mark, by lesson, and the key if `target` names an exercise. Raises `HookworkError`."""
    if target is None:
        folder = folders.find_folder(given)
        found = folders.begun_notebooks(folder)
        if not found:
            where = "this folder" if folder == Path() else str(folder)
            raise LearnerError(
                f"No lesson in {where} has been worked on yet. Get the lessons with hookwork start, name one with "
                "hookwork check 1, or name a file."
            )
        return found, None
    file = Path(target)
    if file.suffix == ".ipynb" or file.is_file():
        return {_lesson_of(file): file}, None
    if file.is_dir():
        found = folders.lesson_notebooks(file)
        if not found:
            raise LearnerError(
                f"{file} contains no notebook of a lesson. Name a lesson, a notebook, or a folder with lessons."
            )
        return found, None
    folder = folders.find_folder(given)
    if target in {key for lesson in course.lesson_stems() for key in course.exercise_keys(lesson)}:
        lesson = next(lesson for lesson in course.lesson_stems() if target in course.exercise_keys(lesson))
        return {lesson: folders.notebook_of(folder, lesson)}, target
    if "-" in target:
        course.find_exercise(target)  # raises `UnknownKey`, whose message suggests keys
    lesson = course.find_lesson(target)
    return {lesson: folders.notebook_of(folder, lesson)}, None


def _lesson_of(file: Path) -> str:
    from graders.submissions.finding import find_submissions

    return find_submissions(file, course.lesson_stems()).submissions[0].lesson


def watch(given: Path | None) -> int:
    """Mark each notebook when it is saved, until Ctrl-C."""
    out = output_terminal()
    folder = folders.find_folder(given)
    if not folders.lesson_notebooks(folder):
        raise LearnerError(
            f"{folder.absolute()} contains no notebook of a lesson. Get the lessons with: hookwork start, or name the "
            "folder: hookwork watch FOLDER"
        )
    with _ending_calmly(), prestarted_boxes(now=True) as boxes:
        from graders.learner import screens
        from graders.learner.marking import mark_own
        from graders.learner.notebook.standing import build_standing

        saved = SavedNotebooks(folder)
        exercises = course.every_exercise()
        runner = boxes.runner(RunOptions(own_work=True))
        out.print(screens.next_exercise_line(build_standing(exercises, record.load_record(folder))))
        _say_watching(out, folder)
        while True:
            for lesson, file in saved.find_newly_saved():
                with out.status(f"Running {file}"):
                    result, _, notes = mark_own(lesson, file, runner)
                out.clear()  # does nothing if the output is not a terminal
                out.say(f"{datetime.now():%H:%M:%S}", style="dim")
                out.print(screens.result_screen(result), "", crop=False)
                out.print(screens.next_exercise_line(build_standing(exercises, notes)))
                _show_trouble(out, notes)
                _say_watching(out, folder)
            time.sleep(LOOK_SECONDS)
    out.say("", "No longer watching.")
    return ExitCode.FINE


def _say_watching(out: Terminal, folder: Path) -> None:
    out.say(f"Watching {folder.absolute()}: save a notebook to have it marked. Press Ctrl-C to stop.", style="dim")


@contextmanager
def _ending_calmly() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP (a closed window) like Ctrl-C: end the block after cleaning up, without a traceback."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), end)
    try:
        yield
    except KeyboardInterrupt:
        return


def progress(given: Path | None, way: str | None = None) -> int:
    """Show how far the learner has come, and choose the way if one is named."""
    from graders.learner import screens
    from graders.learner.notebook.standing import build_standing

    out = output_terminal()
    folder = folders.find_folder(given)
    notes = record.choose_way(way, folder)
    out.print(screens.progress_screen(build_standing(course.every_exercise(), notes), folder.absolute()))
    _show_trouble(out, notes)
    return ExitCode.FINE


def hint(key: str, given: Path | None) -> int:
    """Show the next hint for an exercise."""
    from graders.learner import screens

    out = output_terminal()
    exercise = course.find_exercise(key)
    with record.edit_record(folders.find_folder(given)) as notes:
        number = notes.next_hint(key)
    out.print(screens.hint_panel(exercise, number))
    _show_trouble(out, notes)
    return ExitCode.FINE


def solution(key: str, given: Path | None) -> int:
    """Show the worked answer if it may be seen. Otherwise say how, and return `ExitCode.NOT_PASSED`."""
    from graders.learner import screens

    out = output_terminal()
    exercise = course.find_exercise(key)
    with record.edit_record(folders.find_folder(given)) as notes:
        opened = notes.ask_for_solution(key)
    out.print(
        screens.solution_screen(exercise, course.worked_answer(exercise)) if opened else screens.not_yet_panel(exercise)
    )
    _show_trouble(out, notes)
    return ExitCode.FINE if opened else ExitCode.NOT_PASSED


def rules() -> int:
    """Show the rules that apply to every exercise."""
    from rich.markdown import Markdown

    output_terminal().print(Markdown(rules_page()))
    return ExitCode.FINE


def reset(key: str, given: Path | None) -> int:
    """Put the stub of an exercise back into its notebook, and say where the backup is."""
    from graders.learner.reset import restore_stub as put_back

    out = output_terminal()
    exercise = course.find_exercise(key)
    file = folders.notebook_of(folders.find_folder(given), exercise.lesson)
    done = put_back(file, key)
    what = "The cell was missing, so there is a new one with the stub of" if done.inserted else "The stub is back for"
    out.say(f"{what} {key} in {file}. Nothing else was changed.")
    out.say(f"The notebook as it was before: {done.backup}")
    if done.others:
        cells = ", ".join(map(str, done.others))
        out.say(f"Code cell {cells} also defines {exercise.name}, and was left alone.", style="yellow")
    out.say("If the notebook is open in JupyterLab: File > Reload Notebook from Disk.", style="dim")
    return ExitCode.FINE


def export(target: str | None, given: Path | None) -> int:
    """Write the notebooks that `target` means as pages for paper."""
    from graders.learner.paper import write_page
    from graders.submissions.intake import Unreadable

    out, code = output_terminal(), ExitCode.FINE
    chosen, _ = _chosen_notebooks(target, given)
    for file in chosen.values():
        try:
            out.say(f"Written: {write_page(file)}")
        except (Unreadable, LearnerError) as error:
            out.say(f"✗ {file}: {error}" if isinstance(error, Unreadable) else f"✗ {error}", style="red")
            code = ExitCode.USAGE
    return code


def toolbox(given: Path | None) -> int:
    """Collect the answers that have passed into a module of the learner's own."""
    from graders.learner.toolbox import fill_toolbox

    out = output_terminal()
    folder = folders.find_folder(given)
    notes = record.load_record(folder)
    _show_trouble(out, notes)
    done = fill_toolbox(folder, notes)
    out.say(*done.lines())
    return ExitCode.FINE if done.file else ExitCode.NOT_PASSED


def _show_trouble(out: Terminal, notes: Record) -> None:
    if notes.trouble:
        out.say(notes.trouble, style="yellow")
