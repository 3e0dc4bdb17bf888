"""`graders.figures`: colours that mean one thing, and labels that lie on their arrows."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.colors import to_hex

from graders.figures import (
    BACKWARD,
    FORWARD,
    INK,
    arrow,
    as_picture,
    card,
    empty_axes,
    heat_over,
    node,
    picture_rows,
    timeline,
)


@pytest.mark.parametrize(
    ("kind", "colour"), [({}, FORWARD), ({"backward": True}, BACKWARD), ({"plain": True}, INK)], ids=str
)
def test_an_arrow_has_the_colour_of_what_it_shows(kind, colour):
    _, axes = card(4, 2)
    arrow(axes, (0, 0), (2, 0), label="1", **kind)
    assert to_hex(axes.patches[0].get_edgecolor()) == colour
    assert [text.get_color() for text in axes.texts] == [colour]


@pytest.mark.parametrize(
    ("bend", "middle"), [(0.0, (1.0, 1.0)), (0.5, (1.0, 0.5)), (-0.5, (1.0, 1.5))], ids=["straight", "right", "left"]
)
def test_the_label_lies_on_the_middle_of_the_curve(bend, middle):
    figure, axes = card(4, 2)
    arrow(axes, (0, 1), (2, 1), label="2", bend=bend)
    (text,) = axes.texts
    assert text.get_position() == pytest.approx(middle)
    figure.draw_without_rendering()
    connection = axes.patches[0].get_connectionstyle()
    curve = connection((0.0, 1.0), (2.0, 1.0), shrinkA=0, shrinkB=0).vertices
    assert (curve[0] + 2 * curve[1] + curve[2]) / 4 == pytest.approx(middle)  # a quadratic Bezier curve at one half


def test_only_the_line_below_a_box_has_the_colour_of_gradients():
    _, axes = card(4, 2)
    node(axes, 2, 1, "x", note="leaf", below="x.grad = 1")
    assert [(text.get_text(), text.get_color()) for text in axes.texts] == [
        ("x", INK),
        ("leaf", INK),
        ("x.grad = 1", BACKWARD),
    ]


def test_a_row_of_a_timeline_may_have_a_colour_of_its_own():
    rows = [("0.fwd", "forward"), ("0.bpre", "backward"), ("0.fwd again", "backward", FORWARD)]
    axes = timeline(rows).axes[0]
    assert [line.get_color() for line in axes.lines if line.get_marker() == "o"] == [FORWARD, BACKWARD, FORWARD]
    below = {text.get_text(): text.get_position()[0] for text in axes.texts}
    assert below["0.fwd again"] == below["0.bpre"] > below["0.fwd"]


def test_where_there_is_no_heat_the_image_is_gray_and_elsewhere_it_is_coloured():
    image, heat = torch.full((3, 2, 2), 0.5), torch.tensor([[0.0, 0.0], [0.0, 2.0]])
    picture = heat_over(image, heat, top=4.0)
    assert picture.shape == (2, 2, 3)
    np.testing.assert_allclose(picture[0, 0], 0.65)
    assert picture[1, 1].max() - picture[1, 1].min() > 0.2
    np.testing.assert_allclose(heat_over(image, torch.zeros(2, 2)), 0.65)


def test_rows_of_pictures_have_a_name_above_each_picture_and_a_label_for_each_row():
    wide = as_picture(torch.zeros(3, 10, 20))
    axes = picture_rows([("first", [("a", wide), ("b", wide)]), ("second", [("c", wide)])], title="two rows").axes[0]
    assert {text.get_text() for text in axes.texts} == {"two rows", "first", "second", "a", "b", "c"}
    boxes = [image.get_extent() for image in axes.images]
    assert [round((right - left) / (top - bottom), 6) for left, right, bottom, top in boxes] == [2, 2, 2]
    (first, second, third) = boxes
    assert first[1] < second[0]
    assert third[3] < first[2]


@pytest.mark.parametrize(("count", "columns", "there"), [(1, 8, 1), (8, 8, 8), (9, 4, 12)])
def test_empty_axes_are_off_and_no_figure_stays_open(count, columns, there):
    open_before = pyplot.get_fignums()
    figure, places = empty_axes(count, columns)
    assert places == figure.axes
    assert [axes.axison for axes in places] == [False] * there
    assert pyplot.get_fignums() == open_before
