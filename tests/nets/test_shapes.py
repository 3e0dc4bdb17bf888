"""Drawn shapes and the net that was trained on them."""

from __future__ import annotations

import pytest
import torch

from graders.nets import train
from graders.nets.shapes import CLASSES, SIZE, WEIGHTS, draw_shapes, shapes_net


def test_drawings_are_a_pure_function_of_the_seed() -> None:
    first, second, other = draw_shapes(8, 1), draw_shapes(8, 1), draw_shapes(8, 2)
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    assert not torch.equal(first[0], other[0])


def test_images_labels_and_boxes_have_their_types_and_ranges() -> None:
    images, labels, boxes = draw_shapes(64, 3)
    assert (images.shape, images.dtype) == ((64, 3, SIZE, SIZE), torch.float32)
    assert 0 <= images.min() <= images.max() <= 1
    assert set(labels.tolist()) == set(range(len(CLASSES)))
    x0, y0, x1, y1 = boxes.T
    assert bool(((x0 >= 0) & (x0 < x1) & (x1 <= SIZE) & (y0 >= 0) & (y0 < y1) & (y1 <= SIZE)).all())


def test_the_boxes_hold_the_shapes_and_nothing_else() -> None:
    images, _, boxes = draw_shapes(32, 4)
    for image, (x0, y0, x1, y1) in zip(images, boxes.tolist()):
        inside = image[:, y0:y1, x0:x1].mean((1, 2))
        border = torch.cat([image[:, :y0].flatten(1), image[:, y1:].flatten(1)], 1).mean(1)
        assert (inside - border).abs().max() > 0.1


def test_the_shipped_net_is_small_and_accurate() -> None:
    assert WEIGHTS.stat().st_size < 300_000
    assert train.held_out_accuracy(shapes_net()) > 0.97
    assert shapes_net().features(draw_shapes(2, 0)[0]).shape == (2, 64, 16, 16)  # what Grad-CAM gets in lesson 10


@pytest.mark.slow  # authors alone train this net; learners get its weights
def test_training_learns() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trained = train.train_shapes_net(steps=60)
        assert train.held_out_accuracy(trained, 200) > 0.42  # chance is 0.33, a full run is 0.98
    finally:
        torch.set_num_threads(threads)
