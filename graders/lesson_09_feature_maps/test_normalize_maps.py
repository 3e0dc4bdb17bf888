"""Exercise 09-normalize-maps."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    Array,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    prepared,
)
from graders.lesson_09_feature_maps.judging import SHARED, another_array, normalized

SCALES = {
    "float32": (1.0, 2.0**90, 2.0**-90),
    "float64": (1.0, 2.0**90, 2.0**-90),
    "bfloat16": (1.0, 8.0, 0.25),
    "float16": (1.0, 8.0, 0.25),
}
"""By how much the maps of a tensor differ in size, where its dtype has room for that."""
SHAPES = {"area": (4, 5), "row": (1, 6), "column": (6, 1)}


def constant(fm: Tensor) -> Tensor:
    """Which channels have one value everywhere."""
    return fm.double().amax((1, 2)) == fm.double().amin((1, 2))


def compare_channels(seen: Seen, expected: Tensor, which: Tensor) -> None:
    """An array of the dtype and shape of `expected` that equals it in the channels that `which` marks."""
    value = seen.value
    if type(value) is not Array or value.tensor.shape != expected.shape:
        expect(seen).array_close_to(expected)
    marked = which.reshape(-1, 1, 1)
    values = torch.where(marked, value.tensor, torch.zeros_like(value.tensor))
    expect(Seen(Array(values, False, value.kind), seen.path)).array_close_to(torch.where(marked, expected, 0.0))


NEARLY_EQUAL = 1000 + torch.tensor([[[0.0, 1.0, 3.0]]]) * 2.0**-14
"""Values that differ in the last bits of float32; they cannot be divided by their span before one is subtracted."""

ONE_VALUE = torch.tensor([0.1, 0.3, 0.7, 1.1, 1.7], dtype=torch.float64).reshape(5, 1, 1).repeat(1, 1, 7)
"""Channels with only one value each, whose mean is another number, by rounding."""


@exercise(
    "09-normalize-maps",
    points=1,
    minutes=10,
    difficulty=1,
    title="Every map from 0 to 1",
    hints=(
        "Detach, then `.float()`, then `.numpy()`. With `keepdims=True` (or `keepdim=True`) the minima have the shape "
        "[C, 1, 1] and can be subtracted from all pixels at once.",
        "Where the span `max - min` is 0, divide by 1 instead: `np.where(span == 0, 1, span)`. The channel is 0 "
        "already, because its minimum has been subtracted.",
        "Do not add a small number to the span. There are maps whose whole range is smaller than your small number.",
    ),
    why=(
        "After `.float()` numpy can take the maps whatever their dtype, and dividing by 1 where the span is 0"
        " leaves a flat map at 0. Doing it all in torch and calling `.numpy()` at the end would do as well, "
        "and so would `np.nan_to_num` for the flat ones."
    ),
    circumstances=Circumstances(
        covers={"layout": ("contiguous", "transposed", "slice"), "values": ALL, "place": ALL, "grad": ALL},
        excludes={
            "dtype": "an axis of its own has more of them",
            "rank": "maps have three dimensions",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "model": "it gets no model",
            "hooks": "no gradient flows",
            "hooked": "no gradient flows",
            "call": "every probe calls it on several tensors",
            "grad_mode": "no graph is asked for",
            "backward": "there is no pass",
            "failure": "it calls nothing of the caller's",
        },
        own={"precision": tuple(SCALES), "form": tuple(SHAPES), "records": (True, False)},
        pairs=[("precision", "records")],
    ),
)
class TestNormalizeMaps:
    """Write `normalize_maps(fm)`. `fm` is a tensor of shape [C, H, W], each 1 or more, of any floating dtype, also
    `float16` or `bfloat16`. It may require grad. Return a numpy array of the same shape, of dtype float32, that shares
    no memory with `fm`.

    In each channel, `v` becomes `(v - min) / (max - min)`, with the minimum and the maximum of that channel: the
    smallest value becomes 0, the largest 1. A channel with only one value becomes 0 everywhere. In others, `max - min`
    may be as small as 1e-30. Compute in float32 or better; you may round `fm` to float32 first.

    **Example.** For `fm = tensor([[[1., 2., 5.]], [[7., 7., 7.]]])` the result is
    `array([[[0., 0.25, 1.]], [[0., 0., 0.]]], dtype=float32)`.
    """

    def draw(rng, precision, values, form):
        shape = SHAPES[form]
        maps = [rng.tensor(*shape, dtype="float64", values=values) * scale for scale in SCALES[precision]]
        maps += [torch.zeros(shape), torch.full(shape, rng.uniform(1, 3))]
        return {"fm": torch.stack(rng.shuffled(maps)).to(getattr(torch, precision))}

    def alive(fm):
        return int(constant(fm).sum()) == 2 and not bool(constant(fm)[0])

    def probe(student, fm, layout, place, grad, records):
        fm = prepared(fm, layout=layout, place=place, grad=grad) if records else laid_out(fm, layout)
        witness = Witness(fm=fm)
        maps = student.normalize_maps(fm)
        another = student.normalize_maps(-fm.detach())  # does not change the array that was returned first
        done = torch.tensor([[[0.0, 0.5, 1.0]]])
        early = student.normalize_maps(done)
        done.fill_(7)
        return {
            "maps": maps,
            "of another tensor": another,
            "of the first channel": student.normalize_maps(fm[:1]),
            "of one pixel each": student.normalize_maps(fm[:, :1, :1]),
            "example": student.normalize_maps(torch.tensor([[[1.0, 2, 5]], [[7.0, 7, 7]]])),
            "of nearly equal values": student.normalize_maps(NEARLY_EQUAL.clone()),
            "of one value each": student.normalize_maps(ONE_VALUE.clone()),
            "before the tensor changed": early,
            "changed": witness.changes(),
        }

    mistakes = (
        Mistake(
            "one-range-for-all",
            lambda seen, fm: close(seen["maps"], (fm.double() - fm.min()) / (fm.double().max() - fm.min())),
            "You used one minimum and one maximum for all channels. Each channel has its own: take them over H and W "
            "only, with `axis=(1, 2), keepdims=True`.",
        ),
        Mistake(
            "reduced-over-channels",
            lambda seen, fm: close(
                seen["maps"], (fm.double() - fm.double().amin(0)) / (fm.double().amax(0) - fm.double().amin(0))
            ),
            "You took the minimum and the maximum over the channels, at each pixel. Take them over the pixels, in each "
            "channel: axes 1 and 2.",
        ),
        Mistake(
            "not-detached",
            raises="Can't call numpy() on Tensor that requires grad",
            message="A tensor that requires grad has no `.numpy()`, because numpy would know nothing of its graph. "
            "Call `.detach()` first.",
        ),
        Mistake(
            "no-float-cast",
            raises="BFloat16",
            message="Numpy has no bfloat16, so `.numpy()` fails on such a tensor. Call `.float()` first, then "
            "`.numpy()`.",
        ),
        Mistake(
            "cast-too-late",
            lambda seen, fm: (
                fm.dtype in (torch.bfloat16, torch.float16)
                and not close(seen["maps"], normalized(fm), 1e-5, 1e-5)
                and close(seen["maps"], normalized(fm), 0, 2 * torch.finfo(fm.dtype).eps)
            ),
            "You subtracted and divided in half precision, which keeps only two or three digits, and made float32 of "
            "the rounded result. Call `.float()` first.",
        ),
        Mistake(
            "nan-on-constant",
            lambda seen, fm: bool(seen["maps"].tensor[constant(fm)].isnan().all()),
            "A channel with only one value has the span 0, and 0 / 0 is NaN. Divide by 1 where the span is 0.",
        ),
        Mistake(
            "epsilon-in-the-span",
            lambda seen, fm: (
                bool(0 < (top := seen["maps"].tensor.amax((1, 2))[~constant(fm)]).min() < 0.9999)
                and bool(
                    (top[(fm.double().amax((1, 2)) - fm.double().amin((1, 2)))[~constant(fm)] > 0.1] > 0.9999).all()
                )
                and bool((seen["maps"].tensor[constant(fm)] == 0).all())
                and fm.dtype in (torch.float32, torch.float64)
            ),
            "The largest value of a weak channel does not become 1. You added a small number to the span, and for this "
            "channel it is not small. Treat the span 0 separately instead.",
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen: bool(changes(seen["changed"], "values fm")),
            "You changed the caller's tensor. `.detach()`, `.float()` on float32 and `.numpy()` share its memory, so "
            "`-=` and `/=` write into it. Compute new arrays: `a - low`, not `a -= low`.",
            raises="a leaf Variable that requires grad",
        ),
        Mistake(
            "taken-for-constant",
            lambda seen, fm: bool((seen["maps"].tensor[~constant(fm)] == 0).flatten(1).all(1).any()),
            "A channel whose values differ became 0 everywhere: your function takes it for constant. Only a span of "
            "exactly 0 makes it so; other spans may be very small.",
        ),
        Mistake(
            "shared-memory",
            lambda seen: close(seen["before the tensor changed"], 7.0) and not changes(seen["changed"], "values fm"),
            SHARED,
        ),
        another_array("maps"),
    )

    def test_every_channel_goes_from_0_to_1(seen, fm):
        compare_channels(seen["maps"], normalized(fm), ~constant(fm))
        compare_channels(seen["of another tensor"], normalized(-fm), ~constant(fm))

    def test_a_constant_channel_becomes_0(seen, fm):
        compare_channels(seen["maps"], torch.zeros(fm.shape), constant(fm))
        expect(seen["of one value each"]).array_close_to(torch.zeros(ONE_VALUE.shape))

    def test_nearly_equal_values_go_from_0_to_1(seen):
        expect(seen["of nearly equal values"]).array_close_to(normalized(NEARLY_EQUAL))

    def test_one_channel_one_pixel_and_the_example_come_out(seen, fm):
        expect(seen["of the first channel"]).array_close_to(normalized(fm[:1]))
        expect(seen["of one pixel each"]).array_close_to(torch.zeros(len(fm), 1, 1))
        expect(seen["example"]).array_close_to(torch.tensor([[[0.0, 0.25, 1.0]], [[0.0, 0.0, 0.0]]]))

    def test_the_array_has_its_own_memory(seen):
        expect(seen["before the tensor changed"]).array_close_to(torch.tensor([[[0.0, 0.5, 1.0]]]))

    def test_the_tensor_passed_in_is_unchanged(seen):
        nothing_changed(seen["changed"])
