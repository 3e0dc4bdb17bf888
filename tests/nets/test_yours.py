"""`your_model`: which model it gives, and the line that it prints, with packages, without, and with broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from graders.author.build import SAME_EVERYWHERE
from graders.nets import your_model
from graders.nets.yours import FINDERS, ONLY_OURS
from graders.sandbox.outside.launch import box_environment

OURS = "This is the course's own net, trained on drawings of shapes."
BROKEN = "raise RuntimeError('operator torchvision::nms does not exist\\nmore')"
TORCHVISION = """
from types import SimpleNamespace
from torch import nn

def list_models(): return ["tiny"]
def get_model(name, weights): return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout())
def get_model_weights(name):
    return SimpleNamespace(DEFAULT=SimpleNamespace(
        url="https://example.org/tiny-1.pth", transforms=lambda: SimpleNamespace(crop_size=[32])))
"""
TELL = """
import sys
from graders.nets import your_model
net, x = your_model(sys.argv[1])
print(type(net).__name__, tuple(x.shape), net.training, round(float(next(net.parameters()).detach().sum()), 3))
"""


def told(folder: Path, name: str, **packages: str) -> list[str]:
    """The lines of a process that asks for the model `name` and finds these packages; the others are broken."""
    for package in FINDERS:
        (folder / package).mkdir(exist_ok=True)
        (folder / package / "__init__.py").write_text("" if package in packages else BROKEN)
        (folder / package / "models.py").write_text(packages.get(package, ""))
    left = {name: value for name, value in os.environ.items() if name != ONLY_OURS}
    environment = left | {"PYTHONPATH": os.pathsep.join([str(folder), str(Path.cwd())]), "TORCH_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", TELL, name], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_model_of_a_package_has_the_same_random_weights_each_time(tmp_path: Path) -> None:
    first, second = (told(tmp_path, "tiny", torchvision=TORCHVISION) for _ in range(2))
    assert first[0] == "tiny of torchvision, with random weights, because its own are not on this machine."
    assert first[1].startswith("Sequential (1, 3, 32, 32) False ")
    assert first == second


def test_weights_in_the_cache_are_taken(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout())
    nn.init.constant_(net[0].weight, 0.25)
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    torch.save(net.state_dict(), tmp_path / "hub" / "checkpoints" / "tiny-1.pth")
    assert told(tmp_path, "tiny", torchvision=TORCHVISION) == [
        "tiny of torchvision, with its trained weights.",
        "Sequential (1, 3, 32, 32) False 27.0",
    ]


def test_broken_packages_are_named_and_ours_takes_their_place(tmp_path: Path) -> None:
    line, model = told(tmp_path, "resnet18")
    failed = "failed with RuntimeError: operator torchvision::nms does not exist."
    assert line == " ".join([*(f"{package} {failed}" for package in FINDERS), OURS])
    assert model.startswith("ShapesNet (2, 3, 64, 64) False ")


def test_your_own_model_comes_back_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    net, x = nn.Linear(2, 3).train(), torch.ones(2)
    found, example = your_model(net, x)
    assert (found, example, net.training) == (net, x, True)
    assert capsys.readouterr().out == "Your own model: Linear.\n"


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.Linear(2, 3), "A model of your own needs an input, too: your_model(model, x)."),
        (3, "Name a model, or give one of your own and its input: your_model(model, x)."),
    ],
)
def test_what_is_no_model_is_said(
    model: object, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ONLY_OURS, raising=False)
    net, x = your_model(model)  # type: ignore[arg-type]
    assert capsys.readouterr().out == f"{says} {OURS}\n"
    assert net(x).shape == (2, 3)


def test_builds_and_boxes_take_ours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert SAME_EVERYWHERE[ONLY_OURS] == box_environment("/box", "/modules")[ONLY_OURS] == "1"
    monkeypatch.setenv(ONLY_OURS, "1")
    your_model("resnet18")
    assert capsys.readouterr().out == f"{OURS}\n"
