"""Prints the graders' line in pytest's header and the summary at the end, and writes the files of `--out`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graders.core.errors import ExitCode, HookworkError
from graders.core.file_notes import FileNotes
from graders.core.results import Batch
from graders.core.terminal import Terminal
from graders.core.text import format_count
from graders.instructor import accounts
from graders.instructor.pytest_plugin.state import FROM_WORKERS, MARKING, PREPARED
from graders.report import results_json, summary

_written = pytest.StashKey[list[str]]()
"""Lines that say which files of `--out` were written."""
NOTABLY_SLOW = 1.5
"""From this factor on the usual time limits, the summary says that the machine is slow."""


def pytest_report_header(config: pytest.Config) -> str:
    """The number of submissions, the seed and the isolation, in one line."""
    count = len(config.stash[PREPARED].submissions)
    marking = config.stash[MARKING]
    where = f"isolation {marking.runner.tier}" if marking.runner.tier else "nothing has to run"
    return f"hookwork: {format_count(count, 'submission')}, seed {marking.seed}, {where}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Confirm the results and write them to `--out`; a worker of pytest-xdist sends them to the main process."""
    config = session.config
    if MARKING not in config.stash:
        return
    if "hypothesis" not in sys.modules:  # its plugin would import it for a part of the summary that is empty
        config.pluginmanager.unregister(name="hypothesispytest")
    config.stash[MARKING].confirm_runs()
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output["hookwork_results"] = results_json.batch_to_data(config.stash[MARKING].batch())["submissions"]
        return
    batch = _merged_batch(config)
    out: Path | None = config.getoption("--out")
    if out is not None and batch.submissions:
        config.stash[_written], failed = _write_outputs(batch, out, config)
        if failed and session.exitstatus in (0, 1):
            session.exitstatus = ExitCode.NOT_GRADED
    sure = config.getoption("--confirm-files") or accounts.are_files_certain(config.stash[PREPARED].found)
    graded = all(submission.graded for submission in batch.submissions)
    if session.exitstatus in (0, 1) and not (graded and sure):
        session.exitstatus = ExitCode.NOT_GRADED


def _write_outputs(batch: Batch, out: Path, config: pytest.Config) -> tuple[list[str], bool]:
    """Write the files of `--out`; returns lines that say what was written, and whether something failed."""
    # Imported only here: templates and plots would make collecting the tests a tenth slower.
    from graders.instructor import kept, regrade
    from graders.instructor.hand_marks import read_hand_marks, with_hand_marks
    from graders.instructor.lock import results_lock
    from graders.instructor.report_inputs import course_titles
    from graders.instructor.writing import write_reports
    from graders.report import outputs

    prepared, file_notes = config.stash[PREPARED], FileNotes()
    if prepared.cache is not None and prepared.cache.trouble:
        file_notes.note(prepared.cache.trouble)
    try:
        with results_lock(out, partial(_terminal(config).say, "")):  # pytest's dots have not ended their line
            before = regrade.earlier_results(out, file_notes)
            joined = kept.join_results(before, batch)
            by_hand = with_hand_marks(joined.batch, read_hand_marks(out))
            batch = by_hand.batch
            shown = course_titles(submission.lesson for submission in batch.submissions)
            written = outputs.write_tables(batch, out, file_notes)
            handed_in = prepared.submissions
            written += write_reports(
                batch, out, shown, handed_in, handed_in, prepared.run_options, file_notes, prepared.found
            )
            if before:
                outputs.remove_old_pages(before, batch, out, file_notes)
    except HookworkError as error:
        return [*file_notes.notes, error.message_line(), "Nothing was written."], True
    except OSError as error:
        why = f"The results could not be written to {out}: {error.strerror}."
        return [*file_notes.notes, f"{why} What was there before is unchanged. Choose another --out."], True
    doubts = [*joined.doubts, *by_hand.doubts]
    said = [*joined.kept, *joined.notes, *by_hand.notes, *doubts, f"written: {', '.join(map(str, written))}"]
    return [*said, *file_notes.notes], file_notes.failed or bool(doubts)


def _terminal(config: pytest.Config) -> Terminal:
    """Prints where pytest prints, and at once, also into a pipe."""
    writer = config.get_terminal_writer()
    return Terminal(writer._file, width=max(80, writer.fullwidth))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the summary, and where the files of `--out` are."""
    batch = _merged_batch(config)
    if not batch.submissions or hasattr(config, "workerinput"):
        return
    console = _terminal(config)
    terminalreporter.ensure_newline()
    terminalreporter.section("hookwork")
    console.print(summary.render(batch))
    factor = config.stash[MARKING].pace
    if factor > NOTABLY_SLOW:
        console.say(f"This machine is slow or busy: notebooks had {factor:.1f} times the usual time limits.")
    if _written in config.stash:
        console.say(*config.stash[_written])
    accounts.print_file_accounts(config.stash[PREPARED].found, console, confirmed=config.getoption("--confirm-files"))


def _merged_batch(config: pytest.Config) -> Batch:
    own = config.stash[MARKING].batch()
    found = {
        (submission.student, submission.lesson): submission
        for submission in (*own.submissions, *config.stash.get(FROM_WORKERS, []))
    }
    return Batch(
        seed=own.seed, torch=own.torch, created=own.created, submissions=tuple(found[who] for who in sorted(found))
    )
