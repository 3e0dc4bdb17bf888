"""Links that somebody puts into the results while a class is marked."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

from tests.instructor.pytest_plugin.test_pytest_graders import RIGHT, ROOT, command_of, hand_in


def test_links_that_are_put_into_the_results_during_a_run_are_not_followed(tmp_path: Path) -> None:
    for student in ("ada", "ben"):
        hand_in(tmp_path / f"class/{student}", ["import time\ntime.sleep(1)", *RIGHT])
    out, elsewhere, victim = tmp_path / "out", tmp_path / "elsewhere", tmp_path / "victim"
    elsewhere.mkdir()
    victim.write_text("kept")
    targets = dict.fromkeys(("runs", "feedback"), elsewhere)
    targets |= dict.fromkeys(("results.json", "gradebook.csv", "class.html"), victim)
    command, plain = command_of("-q", "--submissions", tmp_path / "class", "--out", out, "--jobs", "1")
    put = 0
    with subprocess.Popen(
        command, cwd=ROOT, env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        while run.poll() is None:
            for name, target in targets.items():
                if out.is_dir() and not (out / name).is_symlink():
                    with contextlib.suppress(OSError):
                        if (out / name).exists():
                            (out / name).rename(tmp_path / f"moved{put}")
                        (out / name).symlink_to(target)
                        put += 1
            time.sleep(0.01)
        assert run.stdout is not None
        printed = run.stdout.read()
    assert put >= len(targets), printed
    assert "Traceback" not in printed
    assert list(elsewhere.iterdir()) == []
    assert victim.read_text() == "kept"
