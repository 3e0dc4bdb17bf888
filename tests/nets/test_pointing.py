"""What lesson 10 relies on: heat maps of the shapes net point at the shapes far more often than chance does."""

from __future__ import annotations

import torch
from graders.lesson_10_explaining_predictions.judging import hits

from graders.lesson_10_explaining_predictions.test_grad_cam import DRAWINGS, reference_hits
from graders.nets import draw_shapes, shapes_net


def test_a_cam_by_plain_autograd_beats_chance_clearly() -> None:
    found = [reference_hits(seed) for seed in range(4)]
    assert all(count == DRAWINGS for _, count in found)
    assert all(score > DRAWINGS / 2 for score, _ in found)
    _, _, boxes = draw_shapes(DRAWINGS, 0)
    chance = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).float().mean() / 64**2
    assert chance < 0.12


def test_maps_that_know_nothing_do_not() -> None:
    _, _, boxes = draw_shapes(300, 1)
    noise = torch.rand(300, 16, 16, generator=torch.Generator().manual_seed(0))
    assert sum(hits(noise, boxes, (64, 64))) < 300 / 5
    assert sum(hits(torch.zeros(300, 16, 16), boxes, (64, 64))) == 0


def test_the_layer_of_the_exercise_has_maps_of_16_by_16() -> None:
    images, _, _ = draw_shapes(2, 0)
    assert shapes_net().features(images).shape == (2, 64, 16, 16)
