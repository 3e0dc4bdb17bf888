"""The user that a box becomes where we are root is nobody's: what belongs to it is ended and removed with the box."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graders.sandbox.inside.confine import CannotConfine
from graders.sandbox.outside.box_users import (
    FIRST_UID,
    LAST_UID,
    first_free,
    free_user,
    is_taken,
    may_be_a_box,
    own_number,
    subordinate_ranges,
)
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are those of Linux")
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root becomes other users")

RANGES = [(100_000, FIRST_UID + 10), (FIRST_UID + 20, FIRST_UID + 30), (FIRST_UID + 1000, FIRST_UID + 2000)]


def test_different_numbers_have_different_ids_and_none_lies_in_a_subordinate_range() -> None:
    found = [first_free([number], RANGES, lambda uid: False) for number in range(3000)]
    assert len(set(found)) == len(found)
    assert min(found) == FIRST_UID + 10
    assert not [uid for uid in found for first, after in RANGES if first <= uid < after]


def test_an_id_that_is_taken_is_passed_over_and_where_all_are_it_is_said() -> None:
    taken = {FIRST_UID, FIRST_UID + 1}
    assert first_free(range(64), [], taken.__contains__) == FIRST_UID + 2
    for ranges, all_taken in (([], True), ([(0, LAST_UID)], False)):
        with pytest.raises(CannotConfine, match="no user id between 400000 and"):
            first_free(range(64), ranges, lambda uid, every=all_taken: every)


def test_subordinate_ranges_are_read_from_both_files_and_what_means_nothing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "subuid").write_text("ada:500000:100\n# a comment\nben:100000:65536\nodd:x:y\n\n")
    (tmp_path / "subgid").write_bytes(b"ada:500050:100\n1000:165536:10\n\xff\n")
    files = (str(tmp_path / "subuid"), str(tmp_path / "subgid"), str(tmp_path / "none"))
    assert subordinate_ranges(files) == [(100_000, 165_546), (500_000, 500_150)]


def test_who_is_known_to_the_machine_is_taken() -> None:
    assert is_taken(0)
    assert not may_be_a_box(0)


@as_root
@pytest.mark.parametrize("starts", [True, False], ids=["a program", "a fork that nobody may look into"])
def test_an_id_with_a_process_is_taken(starts: bool) -> None:
    uid, (read, write) = free_user(), os.pipe()
    code = f"import os, sys; os.setuid({uid}); os.write(1, b'x'); sys.stdin.read()"
    if starts:
        code = f"import subprocess, sys; subprocess.run(['sh', '-c', 'echo x; cat'], user={uid})"
    with subprocess.Popen([sys.executable, "-c", code], stdin=read, stdout=subprocess.PIPE) as other:
        os.close(read)
        assert other.stdout
        assert other.stdout.read(1) == b"x"
        assert is_taken(uid)
        os.close(write)
        other.stdout.read()
    assert not is_taken(uid)


@as_root
def test_an_id_with_a_file_in_shared_memory_is_taken(tmp_path: Path) -> None:
    uid = free_user()
    (tmp_path / "segment").touch()
    assert not is_taken(uid, str(tmp_path))
    os.chown(tmp_path / "segment", uid, uid)
    assert is_taken(uid, str(tmp_path))


@as_root
@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_box_ends_no_process_and_removes_no_file_of_somebody_who_has_the_next_ids(
    tier: str, box_modules: Path, warm: WarmProcess
) -> None:
    if reason := missing_for_tier(tier, warm=True):
        pytest.skip(reason)
    following = own_number() + 1
    uids = [first_free([following + step], subordinate_ranges(), is_taken) for step in range(3)]
    files = [Path("/dev/shm", f"hookwork-test-{uid}") for uid in uids]
    others = [subprocess.Popen(["sleep", "100"], user=uid, group=uid) for uid in uids]
    try:
        for uid, file in zip(uids, files):
            file.touch()
            os.chown(file, uid, uid)
        BoxRunner(box_modules, tier, warm=warm).run(["x = 1"], [])
        assert [other.poll() for other in others] == [None] * 3
        assert all(file.exists() for file in files)
    finally:
        for other, file in zip(others, files):
            other.kill()
            other.wait()
            file.unlink(missing_ok=True)
