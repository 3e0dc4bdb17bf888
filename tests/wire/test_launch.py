"""Plans that cross the border between us and a box: what was written is what is read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from graders.sandbox.outside import tiers
from graders.wire.launch import BoxPlan, BoxRequest, LaunchPlan, PrivatePlaces, System, Walls
from graders.wire.limits import Limits

BOX = BoxPlan("/box", Walls(readable=("/",), writable=("/box", "/tmp"), hidden=("/x",), metadata=False))
PLANS = {
    "plain": LaunchPlan(tier="D", box=BoxPlan("/box"), command=("python", "-m", "graders.sandbox.inside.main")),
    "namespaces": LaunchPlan(
        tier="A", box=BOX, uid=400_000, stage=(("/a", "/b"),),
        system=System("/root", (("/usr", "/usr"),), (("usr/bin", "/bin"),), {"/tmp": "size=1m"}, ("/y",)),
    ),
    "supervised": LaunchPlan(
        tier="B", box=BOX, uid=400_000, keep_reading=True, command=("python",), supervised=True,
        private=PrivatePlaces(BoxPlan("/box"), {"/tmp": ("tmpfs", "size=1m")}, "size=2m", ("/lib",), (("b", "/a"),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_read_as_it_was_written(name: str) -> None:
    assert LaunchPlan.from_json(PLANS[name].to_json()) == PLANS[name]


def test_a_plan_of_the_box_alone_is_read_as_it_was_written() -> None:
    assert BoxPlan.from_json(BOX.to_json()) == BOX


@pytest.mark.parametrize("name", PLANS)
def test_a_request_is_read_as_it_was_written_and_says_whether_its_first_process_cleans_up(name: str) -> None:
    request = BoxRequest(PLANS[name], "/box", {"HOME": "/box/home"}, Limits(memory=1), modules=("matplotlib",))
    data = json.loads(json.dumps(request.to_data()))
    assert BoxRequest.from_data(data) == request
    assert data["supervised"] == (name == "supervised")


@pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are those of Linux")
@pytest.mark.parametrize(("tier", "warm"), [("A", True), ("B", False), ("D", False)])
def test_the_plan_of_each_tier_survives_the_border(tier: str, warm: bool, tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    plan = tiers.prepare_launch(tier, tmp_path, tmp_path / "modules", Limits(), warm=warm).plan
    assert plan is not None
    assert LaunchPlan.from_json(plan.to_json()) == plan
