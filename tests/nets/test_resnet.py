"""ResNet-34: its convolutions, its parameter names, and the way to real weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from graders.nets.resnet import ResNet, imagenet_resnet34, resnet34


def convolutions() -> list[str]:
    return [name for name, module in resnet34().named_modules() if isinstance(module, nn.Conv2d)]


def test_it_has_36_convolutions_of_which_3_are_in_shortcuts() -> None:
    names = convolutions()
    assert len(names) == 36
    assert [index for index, name in enumerate(names) if "downsample" in name] == [9, 18, 31]
    assert (names[0], names[15], names[30]) == ("conv1", "layer2.3.conv2", "layer4.0.conv2")


def test_the_stages_halve_the_maps() -> None:
    model, sizes = resnet34().eval(), {}
    for name in ("conv1", "layer1", "layer2", "layer3", "layer4"):
        model.get_submodule(name).register_forward_hook(
            lambda module, args, output, name=name: sizes.update({name: tuple(output.shape)})
        )
    with torch.no_grad():
        assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)
    assert sizes == {
        "conv1": (1, 64, 32, 32),
        "layer1": (1, 64, 16, 16),
        "layer2": (1, 128, 8, 8),
        "layer3": (1, 256, 4, 4),
        "layer4": (1, 512, 2, 2),
    }


def test_it_has_the_size_of_the_published_net() -> None:
    assert sum(parameter.numel() for parameter in resnet34().parameters()) == 21_797_672


def test_keys_and_shapes_are_those_of_torchvision() -> None:
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed here to compare with")
    theirs = {key: tensor.shape for key, tensor in models.resnet34().state_dict().items()}
    assert {key: tensor.shape for key, tensor in resnet34().state_dict().items()} == theirs


def test_a_checkpoint_is_fetched_loaded_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    source = resnet34()
    file = tmp_path / "weights.pth"
    torch.save(source.state_dict(), file)
    loaded = imagenet_resnet34(file.as_uri())
    assert isinstance(loaded, ResNet)
    assert not loaded.training
    assert torch.equal(loaded.fc.weight, source.fc.weight)
    file.unlink()
    assert imagenet_resnet34(file.as_uri()) is not None  # from the cache


def test_without_a_checkpoint_there_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    assert imagenet_resnet34((tmp_path / "missing.pth").as_uri()) is None
