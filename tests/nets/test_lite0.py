"""EfficientNet-Lite0: the network is the published one, and its weights are checked before they are used."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from graders.nets.lite0 import Lite0, lite0, published_key, weights_file

installed = pytest.mark.skipif(weights_file() is None, reason="the extra [photos] is not installed")


def test_it_has_the_size_of_the_published_net() -> None:
    assert sum(parameter.numel() for parameter in Lite0().parameters()) == 4_652_008


def test_it_has_33_relus_49_convolutions_and_9_blocks_with_a_shortcut() -> None:
    net = Lite0()
    kinds = [type(module) for module in net.modules()]
    assert kinds.count(nn.ReLU6) == 33
    assert sum(isinstance(module, nn.Conv2d) for module in net.modules()) == 49
    assert [k for k, block in enumerate(net.features.blocks) if block.has_shortcut] == [2, 4, 6, 7, 9, 10, 12, 13, 14]


def test_the_maps_are_halved_five_times_rounded_up() -> None:
    with torch.no_grad():
        assert Lite0().eval().features(torch.zeros(1, 3, 65, 97)).shape == (1, 1280, 3, 4)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("features.stem.bn.weight", "_bn0.weight"),
        ("features.blocks.0.look.conv.weight", "_blocks.0._depthwise_conv.weight"),
        ("features.blocks.15.widen.bn.running_mean", "_blocks.15._bn0.running_mean"),
        ("features.blocks.3.narrow.bn.bias", "_blocks.3._bn2.bias"),
        ("features.head.bn.num_batches_tracked", "_bn1.num_batches_tracked"),
        ("fc.bias", "_fc.bias"),
    ],
)
def test_keys_are_mapped(ours: str, theirs: str) -> None:
    assert published_key(ours) == theirs


@installed
def test_every_entry_of_the_published_file_is_used_once() -> None:
    file = weights_file()
    assert file is not None
    published = torch.load(file, map_location="cpu", weights_only=True)
    assert sorted(map(published_key, Lite0().state_dict())) == sorted(published)


@installed
def test_its_logits_are_those_of_the_published_model() -> None:
    # Recorded from the authors' own model: EfficientNet.from_name("efficientnet-lite0") of the package
    # efficientnet-lite-pytorch 0.1.0 with the same file, on this input, in float64, with torch 2.13.
    recorded = {0: -1.4542483, 1: -0.2582522, 2: -1.7762994, 285: 0.6163789, 905: 6.1376619, 967: 0.2917275}
    net = lite0()
    assert net is not None
    assert not net.training
    numbers = torch.arange(3 * 224 * 224, dtype=torch.float64).reshape(1, 3, 224, 224)
    with torch.no_grad():
        logits = net((0.01 * numbers).sin().float())[0]
    assert logits.argmax() == 905
    assert logits[list(recorded)].tolist() == pytest.approx(list(recorded.values()), abs=1e-4)


def test_without_the_package_there_is_no_file() -> None:
    assert weights_file("hookwork_has_no_such_package") is None


def test_a_file_that_differs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.pth"
    torch.save(Lite0().state_dict(), file)
    with pytest.raises(ValueError, match=r"weights\.pth is not the file that was published.*pip install"):
        lite0(file)
