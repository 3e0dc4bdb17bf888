"""Drawings of shapes with their bounding boxes, and a small convolutional net that was trained to tell them apart.

The weights are shipped as `shapes_net.safetensors`; `python -m graders.nets.train` makes them again.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

CLASSES = ("circle", "square", "triangle")
SIZE = 64
"""Height and width of a drawing, in pixels."""

WEIGHTS = Path(__file__).with_name("shapes_net.safetensors")


class ShapesNet(nn.Module):
    """Four convolutions, global average pooling, and a linear classifier. The last feature maps are 16 x 16."""

    def __init__(self) -> None:
        """Make an untrained net."""
        super().__init__()
        self.features = nn.Sequential(
            _conv_layer(3, 16),
            nn.MaxPool2d(2),
            _conv_layer(16, 32),
            nn.MaxPool2d(2),
            _conv_layer(32, 48),
            _conv_layer(48, 64),
        )
        self.fc = nn.Linear(64, len(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """Map drawings [B, 3, 64, 64] with values in [0, 1] to logits [B, classes]."""
        logits: Tensor = self.fc(self.features(x).mean((2, 3)))
        return logits


def _conv_layer(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())


def shapes_net() -> ShapesNet:
    """The trained net in eval mode."""
    model = ShapesNet()
    model.load_state_dict(load_file(WEIGHTS))
    return model.eval()


def draw_shapes(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Make `count` drawings of one shape each: images, labels and bounding boxes. A pure function of `seed`.

    Images are float32 [count, 3, 64, 64] in [0, 1]. Labels, int64 [count], are indices into `CLASSES`. Boxes, int64
    [count, 4], are (x0, y0, x1, y1) in pixels, without x1 and y1. Position, size, rotation, colours, background and
    noise vary.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    labels = torch.randint(len(CLASSES), (count,), generator=generator)
    radius = uniform(8, 14)[:, None, None]
    x_centre, y_centre = (radius + 1 + (SIZE - 2 - 2 * radius) * uniform(0, 1)[:, None, None] for _ in range(2))
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    inside = _pixels_inside(
        labels, columns + 0.5 - x_centre, rows + 0.5 - y_centre, radius, uniform(-0.4, 0.4)[:, None, None]
    )

    low, high = uniform(0, 0.7, 3, 1, 1), uniform(0, 0.7, 3, 1, 1)
    slope = (columns * uniform(-1, 1)[:, None, None] + rows * uniform(-1, 1)[:, None, None]) / (2 * SIZE) + 0.5
    background = low + (high - low) * slope[:, None]
    # The shape's colour differs from the background's by at least 0.25 in each channel.
    shift = uniform(0.25, 0.5, 3, 1, 1)
    colour = torch.where((low + high) / 2 + shift < 1, (low + high) / 2 + shift, (low + high) / 2 - shift)
    noise = uniform(0.01, 0.08, 1, 1, 1) * torch.randn(count, 3, SIZE, SIZE, generator=generator)
    images = (torch.where(inside[:, None], colour, background) + noise).clamp(0, 1)
    return images, labels, _bounding_boxes(inside)


def _pixels_inside(labels: Tensor, x: Tensor, y: Tensor, radius: Tensor, turn: Tensor) -> Tensor:
    """The pixels inside the shapes, bool [count, 64, 64]. `turn` is in radians, everything else in pixels."""
    u, v = x * turn.cos() + y * turn.sin(), y * turn.cos() - x * turn.sin()
    circle = x**2 + y**2 <= radius**2
    square = torch.maximum(u.abs(), v.abs()) <= radius / math.sqrt(2)
    # A triangle is the intersection of three half-planes at distance radius / 2 from its centre.
    angles = torch.tensor([90.0, 210.0, 330.0]).deg2rad()
    triangle = torch.stack([u * a.cos() + v * a.sin() <= radius / 2 for a in angles]).all(0)
    return torch.where(labels[:, None, None] == 0, circle, torch.where(labels[:, None, None] == 1, square, triangle))


def _bounding_boxes(inside: Tensor) -> Tensor:
    """The smallest boxes around the True pixels of `inside`, bool [count, 64, 64]: int64 [count, 4]."""
    sides = []
    for dimension in (1, 2):  # over rows: which columns are hit; over columns: which rows
        hit = inside.any(dimension).long()
        sides.append((hit.argmax(1), SIZE - hit.flip(1).argmax(1)))
    (x0, x1), (y0, y1) = sides
    return torch.stack([x0, y0, x1, y1], 1)
