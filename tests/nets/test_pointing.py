"""What lesson 10 relies on: heat maps of the shapes net point at the shapes far more often than chance does."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.exercises.lesson_10_explaining_predictions.programs import gradient_at_layer, heat
from graders.nets import draw_shapes, shapes_net


def score(maps: Tensor, boxes: Tensor) -> float:
    """The share of maps that have heat and are hottest in their box."""
    top, place = F.interpolate(maps[:, None], (64, 64), mode="bilinear").flatten(1).max(1)
    at = torch.stack([place % 64, place // 64], 1)
    inside = ((boxes[:, :2] <= at) & (at < boxes[:, 2:])).all(1)
    return float((inside & (top > 0)).float().mean())


def test_grad_cam_beats_chance_clearly() -> None:
    model = shapes_net()
    for seed in range(4):
        images, labels, boxes = draw_shapes(36, seed)

        def own(logits: Tensor, labels: Tensor = labels) -> Tensor:
            return logits.gather(1, labels[:, None]).sum()

        assert score(heat(*gradient_at_layer(model, model.features, images, own)), boxes) > 0.5
    chance = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).float().mean() / 64**2
    assert chance < 0.12


def test_maps_that_know_nothing_do_not() -> None:
    _, _, boxes = draw_shapes(300, 1)
    noise = torch.rand(300, 16, 16, generator=torch.Generator().manual_seed(0))
    assert score(noise, boxes) < 0.2
    assert score(torch.zeros(300, 16, 16), boxes) == 0


def test_the_layer_of_the_exercise_has_maps_of_16_by_16() -> None:
    images, _, _ = draw_shapes(2, 0)
    assert shapes_net().features(images).shape == (2, 64, 16, 16)
