from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import pytest

from graders.core import course
from graders.sandbox.inside.session import MAX_KERNELS
from graders.submissions.intake import MAX_CELLS
from graders.wire.data import encode
from graders.wire.frames import (
    MAX_BODY,
    MAX_DEPTH,
    MAX_FRAMES,
    MAX_HEAD,
    MAX_OUTPUT,
    MAX_OUTPUTS,
    MAX_TOTAL,
    Frame,
    FrameError,
    pack_frame,
    read_frame,
)


def frame_of(head: bytes, body: bytes = b"", head_size: int | None = None, body_size: int | None = None) -> io.BytesIO:
    """A stream with one frame of these bytes, whose sizes may lie."""
    sizes = struct.pack("<II", len(head) if head_size is None else head_size, body_size or len(body))
    return io.BytesIO(sizes + head + body)


def test_a_frame_is_two_sizes_a_head_and_a_body() -> None:
    assert pack_frame(Frame({"type": "seen"}, b"\x01\x02")) == b'\x10\0\0\0\x02\0\0\0{"type": "seen"}\x01\x02'


def test_frames_are_read_one_after_the_other_up_to_the_end() -> None:
    sent = [Frame({"type": "a", "text": "ü\ud800"}), Frame({"type": "b", "n": [1, None]}, bytes(range(256)))]
    stream = io.BytesIO(b"".join(map(pack_frame, sent)))
    assert [read_frame(stream.read), read_frame(stream.read), read_frame(stream.read)] == [*sent, None]


@pytest.mark.parametrize("cut", [1, 7, 8, 20, 25])
def test_a_stream_that_ends_in_a_frame_is_an_error(cut: int) -> None:
    whole = pack_frame(Frame({"type": "seen"}, b"\x01\x02"))
    assert len(whole) == 26
    with pytest.raises(FrameError, match="ended in the middle of a frame"):
        read_frame(io.BytesIO(whole[:cut]).read)


def test_sizes_are_checked_before_anything_is_read() -> None:
    asked = []

    def read_exactly(count: int) -> bytes:
        asked.append(count)
        return stream.read(count)

    for head_size, body_size in ((MAX_HEAD + 1, 0), (2, MAX_BODY + 1), (2**32 - 1, 2**32 - 1)):
        stream = frame_of(b"{}", head_size=head_size, body_size=body_size)
        with pytest.raises(FrameError, match=f"{head_size} \\+ {body_size} bytes is larger than allowed"):
            read_frame(read_exactly)
    assert asked == [8, 8, 8]


def test_the_largest_frame_is_read() -> None:
    head = b'{"type": "seen", "a": "' + b"x" * (MAX_HEAD - 25) + b'"}'
    assert len(head) == MAX_HEAD
    found = read_frame(frame_of(head, bytes(MAX_BODY)).read)
    assert found is not None
    assert len(found.body) == MAX_BODY


@pytest.mark.parametrize(
    ("heads", "flaw"),
    [
        ((b"", b"{", b"\xff{}", b"[" * 60_000, b'{"type": "a"} b'), "not JSON"),
        ((b"[]", b"null", b'"seen"', b"{}", b'{"type": 1}', b'{"type": ["seen"]}'), "not an object with a type"),
    ],
)
def test_a_head_that_is_no_json_object_with_a_type_is_an_error(heads: Sequence[bytes], flaw: str) -> None:
    for head in heads:
        with pytest.raises(FrameError, match=flaw):
            read_frame(frame_of(head).read)


def test_a_head_may_be_nested_as_deep_as_an_observation_and_no_deeper() -> None:
    for depth, fits in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False), (900, False)):
        inner = depth - 1  # the head itself is one level
        stream = frame_of(b'{"type": "seen", "tree": ' + b"[" * inner + b"]" * inner + b"}")
        if fits:
            assert read_frame(stream.read) is not None
        else:
            with pytest.raises(FrameError, match="nested deeper than 64 levels"):
                read_frame(stream.read)


def test_the_deepest_observation_fits() -> None:
    value: object = 1
    for _ in range(12):
        value = {"a": value}
    tree, _ = encode(value)
    assert read_frame(io.BytesIO(pack_frame(Frame({"type": "seen", "tree": tree}))).read) is not None


def test_the_frames_of_the_longest_notebook_are_not_too_many() -> None:
    runs = MAX_KERNELS + 1
    probes = max(
        sum(len(exercise.cases) for exercise in course.lesson_exercises(lesson)) for lesson in course.lesson_stems()
    )
    most = (runs + probes) * (MAX_CELLS + 1) + probes + 3  # a cell or a restart each; ready, cells-done, probe-end
    assert most + MAX_OUTPUTS <= MAX_FRAMES
    answers = probes * (MAX_BODY + MAX_HEAD)
    first_runs = runs * MAX_CELLS * 6 * 320  # bytes of messages in JSON
    assert answers + first_runs + MAX_OUTPUT + MAX_OUTPUTS * MAX_HEAD // 1000 <= MAX_TOTAL  # heads of sixty bytes


def test_a_request_may_have_a_larger_body() -> None:
    found = read_frame(frame_of(b'{"type": "notebook"}', bytes(MAX_BODY + 1)).read, max_body=MAX_BODY + 1)
    assert found is not None
    assert len(found.body) == MAX_BODY + 1
