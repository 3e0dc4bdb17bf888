"""ResNet-34 in plain torch.nn, with the parameter names of torchvision's, so that torchvision's checkpoints load.

The architecture is that of He, Zhang, Ren and Sun, "Deep residual learning for image recognition" (2015), table 1:
basic blocks in four stages of 3, 4, 6 and 3, with 64, 128, 256 and 512 channels.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

IMAGENET_URL = "https://download.pytorch.org/models/resnet34-b627a593.pth"
"""PyTorch's own checkpoint, trained on ImageNet; its file name ends in the start of its SHA-256."""

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Means and standard deviations per channel, with which inputs in [0, 1] are normalised for ImageNet checkpoints."""


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut: relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x))."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        """Make a block from `inside` to `outside` channels; the first convolution and the shortcut have `stride`."""
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample: nn.Module | None = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, inside, H, W] to [B, outside, H / stride, W / stride], rounded up."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x)) + shortcut
        output: Tensor = self.relu(x)
        return output


class ResNet(nn.Module):
    """A stem, four stages of basic blocks, global average pooling, and a linear classifier."""

    def __init__(self) -> None:
        """Make an untrained ResNet-34."""
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _residual_stage(64, 64, blocks=3, stride=1)
        self.layer2 = _residual_stage(64, 128, blocks=4, stride=2)
        self.layer3 = _residual_stage(128, 256, blocks=6, stride=2)
        self.layer4 = _residual_stage(256, 512, blocks=3, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, 1000)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Map normalised images [B, 3, H, W] to logits [B, 1000]."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))
        return logits


def _residual_stage(inside: int, outside: int, blocks: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inside, outside, stride)
    return nn.Sequential(first, *(BasicBlock(outside, outside, 1) for _ in range(blocks - 1)))


def resnet34() -> ResNet:
    """An untrained ResNet-34. It has 36 convolutions: 33 in the stem and blocks, and 3 in downsampling shortcuts."""
    return ResNet()


def imagenet_resnet34(url: str = IMAGENET_URL) -> ResNet | None:
    """A ResNet-34 with ImageNet weights, in eval mode; None if the weights are not there and cannot be downloaded.

    The checkpoint is downloaded only once, into torch.hub's cache.
    """
    try:
        weights = torch.hub.load_state_dict_from_url(url, map_location="cpu", progress=False, weights_only=True)
    except OSError as error:  # includes urllib's URLError
        logging.getLogger(__name__).info("no ImageNet weights: %s", error)
        return None
    model = resnet34()
    model.load_state_dict(weights)
    return model.eval()
