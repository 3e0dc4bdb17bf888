"""One command at a time works in a folder of results."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from graders.instructor.lock import LOCK_NAME, results_lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")

HOLDER = """
import sys, time
from pathlib import Path
from graders.instructor.lock import results_lock
with results_lock(Path(sys.argv[1]), print):
    print("locked", flush=True)
    time.sleep(60)
"""


def held_by_another(out: Path) -> subprocess.Popen[str]:
    """Another process that works in the folder for a minute."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(out)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    with results_lock(tmp_path / "a/b", print):
        assert [file.name for file in (tmp_path / "a/b").iterdir()] == [LOCK_NAME]
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    with results_lock(tmp_path / "out", print):
        (tmp_path / "out/results.json").write_text("{}")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["results.json"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ended", "killed"])
def test_the_second_waits_is_told_for_whom_and_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    told: list[str] = []
    heard, done = threading.Event(), threading.Event()

    def say(text: str) -> None:
        told.append(text)
        heard.set()

    def second() -> None:
        with results_lock(tmp_path / "out", say):
            done.set()

    with held_by_another(tmp_path / "out") as process:
        thread = threading.Thread(target=second)
        thread.start()
        assert heard.wait(20)
        assert not done.wait(0.2)
        process.send_signal(how)
        assert done.wait(20)
        thread.join()
    assert len(told) == 1
    assert told[0].startswith(f"Another command is working in {tmp_path / 'out'} (process {process.pid} on ")


def test_what_a_killed_command_leaves_stops_nobody(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as process:
        process.kill()
    assert (tmp_path / LOCK_NAME).exists()
    told: list[str] = []
    with results_lock(tmp_path, told.append):
        pass
    assert (told, list(tmp_path.iterdir())) == ([], [])


def test_of_many_one_at_a_time_works(tmp_path: Path) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with results_lock(tmp_path / "out", lambda _: None):
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, [file for file in tmp_path.rglob("*") if file.is_file()]) == (1, [])


def test_where_there_are_no_locks_it_is_said_and_gone_on(tmp_path: Path) -> None:
    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    told: list[str] = []
    with results_lock(tmp_path, told.append, no_locks):
        pass
    with results_lock(tmp_path, told.append, None):
        pass
    assert told == [
        f"{tmp_path} cannot be locked here (no locks available): "
        "do not start another command on it until this one has finished."
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOCK_NAME).symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=LOCK_NAME), results_lock(tmp_path / "out", print):
        pass
    assert (tmp_path / "victim").read_text() == "kept"
