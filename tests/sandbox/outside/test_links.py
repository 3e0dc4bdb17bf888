"""A Python that is reached through links: of a checkout, of a home folder, of a cluster's module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graders.sandbox.outside.links import links_to, python_links, python_path
from graders.sandbox.outside.tiers import missing_for_tier

CHECK = """\
import sys
from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tier_choice import self_test
from graders.core.transcript import read_transcript
from graders.sandbox.outside.warm_process import WarmProcess

CELL = "import subprocess, sys, torch\\nassert subprocess.run([sys.executable, '-c', 'import torch']).returncode == 0"
with box_modules_folder() as box_modules, WarmProcess(box_modules) as warm:
    for tier in sys.argv[1]:
        for process in (warm, None):
            runner = BoxRunner(box_modules, tier, warm=process)
            print(tier, self_test(runner) or "holds", read_transcript(runner.run([CELL], []).frames).cells[0].status)
"""


def test_the_links_on_a_way_are_told_by_their_real_places(tmp_path: Path) -> None:
    real = tmp_path / "data/home/bin"
    real.mkdir(parents=True)
    (real / "python3.11").touch()
    (tmp_path / "home").symlink_to("data/home")
    (real / "python3").symlink_to("python3.11")
    (real / "python").symlink_to(tmp_path / "home/bin/../bin/python3")
    found = links_to([str(tmp_path / "home/bin/python")])
    assert found == {
        str(tmp_path / "home"): "data/home",
        str(real / "python"): str(tmp_path / "home/bin/../bin/python3"),
        str(real / "python3"): "python3.11",
    }
    assert links_to([str(real / "python3.11"), "/nowhere/at/all"]) == {}


def test_a_link_to_itself_comes_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert links_to([str(tmp_path / "a/b")]) == {str(tmp_path / "a"): "a"}


def test_this_python_is_started_in_its_real_folder() -> None:
    assert os.path.dirname(python_path()) == os.path.realpath(os.path.dirname(sys.executable))
    assert all(os.readlink(place) == text for place, text in python_links().items())


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python in a virtual environment below a link, made from one whose prefix is a link."""
    folder = tmp_path_factory.mktemp("links")
    folder.chmod(0o755)
    (folder / "module").symlink_to(sys.base_prefix)
    (folder / "data").mkdir()
    (folder / "home").symlink_to("data")
    made_from = folder / "module/bin" / os.path.basename(os.path.realpath(sys.executable))
    subprocess.run([made_from, "-m", "venv", "--without-pip", folder / "home/venv"], check=True)
    packages = next((folder / "data/venv/lib").glob("python*/site-packages"))
    shown = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "others.pth").write_text("\n".join([*shown, str(Path(__file__).parents[3])]))
    for parent in (folder, *folder.parents[:2]):  # a box has a user of its own
        parent.chmod(0o755)
    return folder / "home/venv/bin/python"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are those of Linux")
def test_a_python_behind_links_runs_notebooks(linked: Path, tmp_path: Path) -> None:
    missing = {tier: missing_for_tier(tier) for tier in "AB"}
    if all(missing.values()):
        pytest.skip("; ".join(missing.values()))
    tiers = "".join(tier for tier, reason in missing.items() if not reason)
    (tmp_path / "check.py").write_text(CHECK)
    command = [linked, tmp_path / "check.py", tiers]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.splitlines() == [f"{tier} holds ok" for tier in tiers for _ in range(2)], done.stderr
