"""What a notebook can read of this machine: of a prefix what Python needs, and nobody's work, wherever it lies."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from graders.core.transcript import read_transcript
from graders.sandbox.outside import visible
from graders.sandbox.outside.canaries import canaries
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tier_choice import self_test
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are those of Linux")

PREFIX, PACKAGES = Path(sys.prefix).resolve(), Path(sysconfig.get_path("purelib")).resolve()
PLACES = {
    "in the environment": PREFIX,
    "in its share": PREFIX / "share",
    "in its lib": PREFIX / "lib",
    "among its packages": PACKAGES,
    "in /usr/local": Path("/usr/local"),
    "in /usr/share": Path("/usr/share"),
}
OPEN = ("in its lib", "among its packages", "in /usr/share")
"""Those where a copy of the package would be open."""


@pytest.fixture
def places() -> Iterator[list[Path]]:
    """A new folder in each of these places where one can be made."""
    open_here = [outer for outer in PLACES.values() if os.access(outer, os.W_OK)]
    if not open_here:
        pytest.skip(f"nothing can be put into any of {', '.join(map(str, PLACES.values()))}")
    with contextlib.ExitStack() as stack:
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hookwork-test-", dir=outer)))
            for outer in open_here
        ]
        for folder in folders:
            folder.chmod(0o755)
        yield folders


READ = """
import os
def reached(path):
    if os.path.isdir(path):
        return [found for name in os.listdir(path) for found in reached(os.path.join(path, name))]
    open(path, "rb").read()
    return [path]
found = []
for path in {paths}:
    try:
        found += reached(path)
    except OSError:
        pass
raise ValueError(sorted({{os.path.basename(path) for path in found}}))
"""


def read_by_a_notebook(runner: BoxRunner, *paths: Path) -> str:
    """What a notebook says that it could read of these files, and of all in these folders."""
    run = read_transcript(runner.run([READ.format(paths=list(map(str, paths)))], []).frames)
    return run.cells[0].message


def runners(tier: str, box_modules: Path, warm: WarmProcess, private: tuple[str, ...] = ()) -> list[BoxRunner]:
    """Of a tier: with boxes that are forked, and where it can be, with boxes that are started."""
    ways = [process for process in (warm, None) if not missing_for_tier(tier, warm=process is not None)]
    if not ways:
        pytest.skip(missing_for_tier(tier))
    return [BoxRunner(box_modules, tier, warm=process, private=private) for process in ways]


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
def test_no_notebook_reads_what_was_handed_in_or_the_results_wherever_they_lie(
    tier: str, places: list[Path], box_modules: Path, warm: WarmProcess
) -> None:
    names = ("class/ada/01.ipynb", "results/runs/seed", "results/results.json", "roster.csv")
    files = [place / name for place in places for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("somebody's")
        file.chmod(0o666)
    private = tuple(str(place / name) for place in places for name in ("class", "results", "roster.csv"))
    before = [sorted(place.rglob("*")) for place in places]
    for runner in runners(tier, box_modules, warm, private):
        assert read_by_a_notebook(runner, *(place / "class" for place in places), *files) == "ValueError: []"
    assert self_test(runner) == ""
    assert {file.read_text() for file in files} == {"somebody's"}
    assert [sorted(place.rglob("*")) for place in places] == before, "a canary was left"


def test_a_canary_of_a_process_that_was_killed_is_removed_by_the_next_self_test(tmp_path: Path) -> None:
    code = (
        "import sys, time; from graders.sandbox.outside.canaries import canaries\n"
        "with canaries(sys.argv[1:]): print(flush=True); time.sleep(60)"
    )
    killed, living = (
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(2)
    )
    with killed, living:
        for process in (killed, living):
            assert process.stdout is not None
            process.stdout.readline()
        before = set(tmp_path.iterdir())
        killed.kill()
        killed.wait()
        assert set(tmp_path.iterdir()) == before
        assert len(before) == 2
        with canaries([str(tmp_path)]):
            assert len(set(tmp_path.iterdir())) == 2
            assert len(set(tmp_path.iterdir()) & before) == 1
        living.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
def test_what_else_lies_in_a_prefix_is_closed_to_every_notebook(
    tier: str, box_modules: Path, warm: WarmProcess
) -> None:
    with tempfile.TemporaryDirectory(prefix="hookwork-test-", dir=PREFIX) as folder:
        file = Path(folder, "old-results.csv")
        file.write_text("somebody's")
        for path in (Path(folder), file):
            path.chmod(0o755)
        for runner in runners(tier, box_modules, warm):
            assert read_by_a_notebook(runner, file, Path(os.__file__)) == "ValueError: ['os.py']"


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_place_that_cannot_be_closed_is_found_by_the_self_test_and_named_with_the_remedy(
    tier: str, box_modules: Path, warm: WarmProcess
) -> None:
    """Python itself lies in it."""
    with tempfile.NamedTemporaryFile(dir=PACKAGES, prefix=".hookwork-test-"):
        found = self_test(runners(tier, box_modules, warm, (str(PACKAGES),))[0])
    assert found.startswith(f"not prevented: reading or changing what lies in {PACKAGES} (move it out of the folders")


@pytest.fixture
def checkouts(places: list[Path]) -> Iterator[list[Path]]:
    """Checkouts with a solution, a grader and answers among what is open."""
    found = [place for place in places if place.parent in map(PLACES.get, OPEN)]
    if not found:
        pytest.skip("nothing can be put into what is open")
    for folder in found:
        for name in ("graders/exercises/lesson_01/test_one.py", "solutions/01.ipynb", "tests/answers/lesson_01/one.py"):
            file = folder / name
            file.parent.mkdir(parents=True)
            file.write_text("the answer")
    visible.kept_from_notebooks.cache_clear()
    yield found
    visible.kept_from_notebooks.cache_clear()


def test_every_copy_of_the_package_in_what_is_open_is_found_and_closed(checkouts: list[Path]) -> None:
    assert {folder / "graders" for folder in checkouts} <= set(visible.package_copies())
    parts = {str(folder / part) for folder in checkouts for part in ("graders", "solutions", "tests/answers")}
    assert parts < set(visible.hidden_paths())
    for folder in checkouts:
        (folder / "pyproject.toml").touch()  # with it comes all the rest, such as what git keeps
    visible.kept_from_notebooks.cache_clear()
    assert set(map(str, checkouts)) <= set(visible.hidden_paths())


def test_the_package_itself_and_what_an_installation_left_are_copies() -> None:
    assert visible.PACKAGE.resolve() in visible.package_copies()
    left = [Path(folder, "graders").resolve() for folder in sys.path if Path(folder, "graders").is_dir()]
    assert set(left) <= set(visible.package_copies())


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
def test_no_notebook_reads_a_copy_of_the_package(
    tier: str, checkouts: list[Path], box_modules: Path, warm: WarmProcess
) -> None:
    parts = [part for folder in checkouts for part in folder.iterdir()]
    for runner in runners(tier, box_modules, warm):
        assert read_by_a_notebook(runner, *checkouts, *parts) == "ValueError: []"
    assert self_test(runner) == ""


def test_no_prefix_is_open_as_a_whole_and_what_python_needs_is() -> None:
    opened = visible.readable_paths()
    prefixes = ["/", "/usr", "/usr/local", *map(os.path.realpath, (sys.prefix, sys.base_prefix, sys.exec_prefix))]
    assert not [path for path in opened for prefix in prefixes if visible.is_below(prefix, path)]
    reached = [os.path.realpath(path) for path in opened]
    for needed in (os.__file__, PACKAGES, shutil.which("sh") or "/bin/sh", os.path.realpath(sys.executable)):
        assert any(visible.is_below(os.path.realpath(needed), path) for path in reached)


def test_only_what_lies_in_something_open_is_hidden_and_links_are_followed(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hookwork-test-", dir=PREFIX / "lib") as folder:
        inner = Path(folder, "class")
        inner.mkdir()
        (tmp_path / "link").symlink_to(inner)
        places = [tmp_path, tmp_path / "link", inner / "not-there", "/", PREFIX, PREFIX / "lib", PACKAGES]
        added = set(visible.hidden_paths(map(str, places))) - set(visible.hidden_paths())
        assert added == {str(inner)}


UNDER_LANDLOCK = """
import os, sys
from graders.sandbox.inside.confine import restrict_files
lib = sys.argv[1]
sys.path.append(lib + "/packages")
restrict_files([lib, *sys.path[1:-1]], [], [lib + "/class", lib + "/roster.csv", lib + "/packages/class"])
def tried(look, name):
    try:
        return bool(look(os.path.join(lib, name)))
    except PermissionError:
        return False
names = ["other/x", "packages/x", "class/ada/x", "roster.csv", "packages/class/ada/x"]
print([name for name in names if tried(lambda path: open(path).read(), name)])
print([name for name in (".", "other", "packages", "class", "packages/class") if tried(os.listdir, name)])
"""


def test_landlock_alone_closes_files_and_lets_only_folders_of_modules_be_listed(tmp_path: Path) -> None:
    """Without mounts, what lies among modules can still be told by its name."""
    if missing_for_tier("B"):
        pytest.skip(missing_for_tier("B"))
    for name in ("other/x", "packages/x", "class/ada/x", "roster.csv", "packages/class/ada/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    command = [sys.executable, "-c", UNDER_LANDLOCK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['other/x', 'packages/x']", "['other', 'packages', 'packages/class']"]


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
def test_temporary_files_may_lie_in_what_is_open(tier: str) -> None:
    """They are closed, but for the box's own folder and its modules."""
    if not os.access(PREFIX / "share", os.W_OK):
        pytest.skip(f"nothing can be put into {PREFIX / 'share'}")
    program = f"""
import tempfile
from pathlib import Path
from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.warm_process import WarmProcess
from tests.sandbox.outside.test_visible import *
with box_modules_folder() as box_modules, WarmProcess(box_modules) as warm:
    Path(tempfile.gettempdir(), "job").write_text("somebody's")
    for runner in runners({tier!r}, box_modules, warm):
        print(repr(self_test(runner)), read_by_a_notebook(runner, Path(tempfile.gettempdir(), "job")))
"""
    with tempfile.TemporaryDirectory(prefix="hw-", dir=PREFIX / "share") as folder:
        os.chmod(folder, 0o755)
        command = [sys.executable, "-c", program]
        variables = {**os.environ, "TMPDIR": folder, "PYTHONPATH": str(Path(__file__).parents[3])}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    assert set(done.stdout.splitlines()) == {"'' ValueError: []"}
