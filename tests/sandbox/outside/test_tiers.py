"""How boxes are started in each tier, and which tier is chosen."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graders.core.transcript import read_transcript
from graders.sandbox.outside import tiers
from graders.sandbox.outside.container import container_command
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tier_choice import NoIsolation, choose_runner, self_test
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire.launch import BoxPlan, LaunchPlan, Walls
from graders.wire.limits import MIB, Limits


def test_a_container_has_no_network_no_capabilities_and_nothing_to_write_to_but_its_own() -> None:
    command = container_command("docker", "course", "hookwork-box-1", 400_007, Path("/tmp/modules"), Limits())
    options, (image, *inside), plan = command[:-7], command[-7:-1], LaunchPlan.from_json(command[-1])
    assert options[:4] == ["docker", "run", "--rm", "-i"]
    assert [option for option in options[4:] if not option.startswith("--env=")] == [
        "--pull=never",
        "--name=hookwork-box-1",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        f"--memory={3328 * MIB}",
        f"--memory-swap={3328 * MIB}",
        "--pids-limit=144",
        "--ulimit=core=0",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=4096:4096",
        "--user=400007:400007",
        f"--tmpfs=/box:size={64 * MIB},mode=1777",
        "--tmpfs=/tmp:size=16m",
        "--shm-size=16m",
        "--volume=/tmp/modules:/modules:ro",
        "--workdir=/box",
    ]
    assert {"--env=HOME=/box/home", "--env=TMPDIR=/box/tmp", "--env=PYTHONPATH=/modules"} < set(options)
    assert (plan.tier, plan.box, plan.supervised) == ("C", BoxPlan("/box", Walls((), ())), True)
    assert (image, inside) == ("course", ["python", "-S", "-m", "graders.sandbox.inside.start", "1"])


FAKE = """\
#!/bin/sh
echo "$@" >> {log}
[ "$1" = rm ] && exit
for one in "$@"; do case "$one" in --env=PYTHONPATH=*) ;; --env=*) export "${{one#--env=}}" ;; esac; done
mkdir -p {inside}
export HOME={inside}/home PYTHONPATH={box_modules}
cd {inside} && exec {python} -m graders.sandbox.inside.main 1 '{plan}'
"""


def test_a_notebook_runs_over_the_standard_streams_of_a_container(
    box_modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, program = tmp_path / "log", tmp_path / "bin/podman"
    program.parent.mkdir()
    program.write_text(
        FAKE.format(
            log=log,
            inside=tmp_path / "inside",
            box_modules=box_modules,
            python=sys.executable,
            plan=BoxPlan(str(tmp_path / "inside")).to_json(),
        )
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    run = read_transcript(BoxRunner(box_modules, "C").run(["x = 1", "!echo hello", "1 / 0"], []).frames)
    assert (run.ended, [cell.status for cell in run.cells]) == ("finished", ["ok", "ok", "raised"])
    started, removed = log.read_text().splitlines()
    name = next(word for word in started.split() if word.startswith("--name=")).removeprefix("--name=")
    assert removed == f"rm --force {name}"


class NoProcess(WarmProcess):
    """Forks nothing."""

    def is_available(self) -> bool:
        return False


def choose(isolation: str, *, own_work: bool = False, allow: bool = False, **problems: str) -> str:
    """The tier that is chosen where those that are not named hold, and the others have these problems."""
    run_options = RunOptions(isolation=isolation, own_work=own_work, allow_unisolated=allow)
    return chosen(run_options, lambda runner: problems.get(runner.tier, "")).tier


def chosen(run_options: RunOptions, test: Callable[[BoxRunner], str], warm: WarmProcess | None = None) -> BoxRunner:
    """The runner that is chosen where nothing is lacking, and the tiers are tested like this."""
    return choose_runner(run_options, Path(), warm or NoProcess(Path()), lacking=lambda runner: "", test=test)


def test_the_best_tier_that_holds_is_chosen() -> None:
    assert [choose(isolation) for isolation in ("auto", "A", "B", "C")] == ["A", "A", "B", "C"]
    assert choose("auto", A="not prevented: writing outside") == "B"


def test_a_tier_that_holds_only_around_started_boxes_is_used_with_these() -> None:
    warm = NoProcess(Path())
    runner = chosen(RunOptions(), lambda runner: "it does not start" if runner.warm else "", warm)
    assert (runner.tier, runner.warm) == ("A", None)
    assert chosen(RunOptions(), lambda runner: "", warm).warm is warm


def test_a_class_is_not_marked_without_isolation_unless_that_is_allowed() -> None:
    problems = {"A": "not prevented: writing outside", "B": "it does not start here"}
    for isolation in ("auto", "D"):
        with pytest.raises(NoIsolation, match="--allow-unisolated"):
            choose(isolation, **problems)
        assert choose(isolation, own_work=True, **problems) == "D"
        assert choose(isolation, allow=True, **problems) == "D"


def test_a_tier_that_was_asked_for_and_does_not_hold_is_refused_in_any_case() -> None:
    with pytest.raises(NoIsolation, match=r"tier A: not prevented: writing outside\.$"):
        choose("A", own_work=True, allow=True, A="not prevented: writing outside")


def test_the_tiers_whose_cached_runs_will_do() -> None:
    assert RunOptions().accepted_tiers == ("A", "B", "C")
    assert (
        RunOptions(own_work=True).accepted_tiers
        == RunOptions(allow_unisolated=True).accepted_tiers
        == ("A", "B", "C", "D")
    )
    assert RunOptions(isolation="B", own_work=True).accepted_tiers == ("B",)


@pytest.mark.parametrize("tier", ["A", "B"])
@pytest.mark.parametrize("forked", [False, True])
def test_the_walls_hold_here(tier: str, forked: bool, box_modules: Path, warm: WarmProcess) -> None:
    if reason := tiers.missing_for_tier(tier, warm=forked):
        pytest.skip(reason)
    assert self_test(BoxRunner(box_modules, tier, warm=warm if forked else None)) == ""


@pytest.mark.parametrize("tier", ["A", "B", "D"])
def test_where_no_kernel_starts_the_self_test_says_which_limit_and_what_to_do(
    tier: str, box_modules: Path, warm: WarmProcess
) -> None:
    if reason := tiers.missing_for_tier(tier, warm=warm.is_available()):
        pytest.skip(reason)
    found = self_test(BoxRunner(box_modules, tier, Limits(descriptors=10), warm))
    short = self_test(BoxRunner(box_modules, tier, Limits(descriptors=1 << 40), warm))
    assert short.startswith("the limits of this shell are too low (")
    assert short.endswith(f" open files. Remedy: `ulimit -n {1 << 40}`)")
    assert found.startswith("it does not start here (open files: ")
    assert "Remedy: a notebook's kernel needs about 60: allow more with `ulimit -n" in found


def test_one_reason_for_all_tiers_is_told_once() -> None:
    with pytest.raises(NoIsolation, match=r"tier A, B: no kernel starts; tier D: the notebooks of a class"):
        choose("auto", A="no kernel starts", B="no kernel starts")


def test_without_bubblewrap_tier_a_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "bubblewrap" in tiers.missing_for_tier("A")
    with pytest.raises(OSError, match="is gone"):
        tiers.prepare_launch("A", tmp_path, tmp_path, Limits())
