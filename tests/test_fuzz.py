"""Random and mutated bytes for everything that reads what a stranger wrote: frames, observations, notebooks, archives.

Whatever comes in, the answer is valid data or the refusal that belongs to it: no other exception, no memory or time
without bound. A few hundred inputs each here; the slow tests take 2,000.
"""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from graders.core.results import Status
from graders.core.text import clean_text
from graders.core.transcript import Outcome, read_transcript
from graders.marking.cache import transcript_from_bytes, transcript_to_bytes
from graders.submissions.archives import CLASS_LIMITS, ArchiveLimits, unpack_archive
from graders.submissions.intake import MAX_CELLS, Notebook, Unreadable, parse_notebook
from graders.submissions.members import BadArchive
from graders.wire import frames
from graders.wire.data import Array, Refused, encode
from graders.wire.frames import Frame, FrameError
from tests import notebooks
from tests.fuzzing import DEEP, MANY, MEBIBYTES, SCALARS, dumps, fuzz, most_memory, nested, spoilt

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
# Frames.

SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, -1, 2**31, 2**62, 2**63, 10**30, 1.5, True, None]), max_size=9)
TENSORS = st.tuples(
    st.sampled_from(["float32", "bool", "bfloat16", "uint8", "complex64", 3]),
    SHAPES | SCALARS,
    st.sampled_from([0, 1, 4, -4, 2**70, "0"]),
    st.booleans() | SCALARS,
    st.sampled_from(["tensor", "array", "x", None]),
).map(lambda parts: {"t": list(parts)})
TREES = nested(SCALARS | TENSORS, ["l", "u", "d", "t", "x", "f"]) | DEEP
HEADS = st.fixed_dictionaries(
    {"type": st.sampled_from(["ready", "cell", "restart", "cells-done", "seen", "raised", "probe-end"]) | SCALARS},
    optional={
        "nonce": st.sampled_from(["n", "m", 3, None]),
        "tree": TREES,
        "cell": SCALARS,
        "status": st.sampled_from(["ok", "raised", "timed-out", "passed", "not-graded"]) | TREES,
        "message": TREES,
        "error": TREES,
        "line": SCALARS,
        "call": SCALARS,
    },
)
BODIES = st.binary(max_size=64) | st.integers(0, 1 << 20).map(bytes)


def packed(head: Any, body: bytes) -> bytes:
    raw = dumps(head).encode("utf-8", "replace")
    return struct.pack("<II", len(raw), len(body)) + raw + body


SEEN = {"a": torch.ones(2, 3), "b": [1, -0.5, "text", None, (True, float("inf"))], "c": {"d": torch.zeros(0, 4)}}
HONEST = b"".join(
    frames.pack_frame(frame)
    for frame in (
        Frame({"type": "ready"}),
        Frame({"type": "cell", "cell": 0, "status": "raised", "message": "ValueError: no", "seconds": 0.1}),
        Frame({"type": "seen", "tree": encode(SEEN)[0], "nonce": "n"}, encode(SEEN)[1]),
        Frame({"type": "probe-end"}),
    )
)
STREAMS = (
    st.binary(max_size=200)
    | st.lists(st.tuples(HEADS | TREES, BODIES).map(lambda parts: packed(*parts)), max_size=4).map(b"".join)
    | spoilt(st.just(HONEST))
    | spoilt(st.tuples(HEADS, BODIES).map(lambda parts: packed(*parts)))
    | st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=60)).map(
        lambda parts: struct.pack("<II", *parts[:2]) + parts[2]
    )
)


def is_data(value: Any) -> bool:
    """Whether a value is one of those that an observation may hold."""
    if type(value) in (list, tuple):
        return all(map(is_data, value))
    if type(value) is dict:
        return all(map(is_data, value.values()))
    return value is None or type(value) in (bool, int, float, str, Array, Refused)


def check_outcome(outcome: Outcome) -> None:
    """It has numbers or a status that a box may bring about, and its texts can be shown."""
    if outcome.seen is not None:
        assert is_data(outcome.seen.value)
    else:
        assert outcome.status not in (None, Status.PASSED, Status.WRONG, Status.NOT_GRADED)
    for text in (outcome.error, outcome.message, outcome.line, outcome.call):
        assert len(text) <= 300
        assert clean_text(text) == text


def check_stream(raw: bytes) -> None:
    """Read a stream as the judge does: frames, then what they say."""
    stream, found = io.BytesIO(raw), []

    def read_exactly(count: int) -> bytes:
        assert count <= frames.MAX_HEAD or count <= frames.MAX_BODY
        return stream.read(count)

    try:
        while (frame := frames.read_frame(read_exactly)) is not None:
            assert type(frame.type) is str
            found.append(frame)
    except FrameError as error:
        assert len(str(error)) < 200
    inside = [frame for frame in found if frame.type not in ("asked", "ended")]
    asked = Frame({"type": "asked", "key": "90-a", "case": 0, "cells": 0, "nonce": "n"})
    ended = Frame({"type": "ended", "how": "finished", "message": "", "seconds": 0.1})
    transcript = [asked, *inside, ended]
    run = read_transcript(transcript)
    for outcome in run.outcomes_by_place("90-a", 2)[0]:
        check_outcome(outcome)
    assert all(clean_text(cell.message) == cell.message and cell.index >= 0 for cell in run.cells)
    # What is kept can be judged again and says the same.
    assert transcript_to_bytes(transcript_from_bytes(transcript_to_bytes(transcript))) == transcript_to_bytes(
        transcript
    )


@MANY
def test_a_stream_of_frames_is_data_or_refused(count: int) -> None:
    fuzz(count, STREAMS, check_stream)


# Notebooks.

SOURCES = TREES | st.lists(SCALARS, max_size=3)
CELLS = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "raw", 3, None]),
        "source": SOURCES,
        "input": SOURCES,
        "outputs": TREES,
        "metadata": TREES,
        "id": SCALARS,
    },
)
CONTENTS = st.fixed_dictionaries(
    {"nbformat": st.sampled_from([4, 4, 4, 3, 2, 5, "4", 4.0, True, None, 10**400])},
    optional={
        "cells": st.lists(CELLS | TREES, max_size=4) | TREES,
        "worksheets": st.lists(st.fixed_dictionaries({"cells": st.lists(CELLS, max_size=3) | TREES}), max_size=2),
        "metadata": nested(SCALARS, ["hookwork", "lesson", "kernelspec"]) | DEEP,
        "nbformat_minor": SCALARS,
    },
)
ENCODINGS = st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32-be", "utf-7", "latin-1"])
WRITTEN = st.tuples(CONTENTS | TREES, ENCODINGS).map(lambda parts: dumps(parts[0]).encode(parts[1], "replace"))
GOOD = [
    notebooks.text("x = 1", "y = '\x1b'", metadata={"hookwork": {"lesson": "01_where_gradients_live"}}).encode(),
    Path(__file__).parents[1].joinpath("lessons/01_where_gradients_live.ipynb").read_bytes()[-3000:],
]
FILES = st.binary(max_size=300) | WRITTEN | spoilt(WRITTEN) | spoilt(st.sampled_from(GOOD))


def check_notebook(raw: bytes) -> None:
    """Parse the bytes of a file: code cells as valid text, or a sentence."""
    try:
        found = parse_notebook(raw)
    except Unreadable as error:
        assert str(error).endswith(".")
        assert clean_text(str(error)) == str(error)
        return
    assert type(found) is Notebook
    assert 1 <= len(found.cells) <= MAX_CELLS
    assert all(type(cell) is str and cell.encode() is not None for cell in found.cells)
    assert found.lesson is None or type(found.lesson) is str
    assert len(found.sha256) == 64


@MANY
def test_a_file_is_a_notebook_or_unreadable(count: int) -> None:
    fuzz(count, FILES, check_notebook)


# Archives.


def archive(name: str, *members: str) -> bytes:
    """A small zip or tar.gz file of good notebooks."""
    raw, content = io.BytesIO(), GOOD[0]
    if name.endswith(".zip"):
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as packed:
            for member in members:
                packed.writestr(member, content)
    else:
        with tarfile.open(fileobj=raw, mode="w:gz") as tarred:
            for member in members:
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tarred.addfile(info, io.BytesIO(content))
    return raw.getvalue()


PLACES = ["ann/01_a.ipynb", "ann/02_b.ipynb", "bob_12_345_01_a.ipynb", "é/x/c.ipynb"]
ZIPS = spoilt(st.just(archive("a.zip", *PLACES)))
TARS = st.one_of(
    spoilt(st.just(archive("a.tgz", *PLACES))),
    spoilt(st.just(gzip.decompress(archive("a.tgz", *PLACES)))).map(gzip.compress),
)


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "inputs"), [("a.zip", ZIPS), ("a.tgz", TARS)])
def test_an_archive_is_unpacked_or_refused(
    name: str, inputs: st.SearchStrategy[bytes], count: int, tmp_path: Path
) -> None:
    file, inner = tmp_path / name, tmp_path / "x" / "y"

    def check(raw: bytes) -> None:
        file.write_bytes(raw)
        inner.parent.mkdir()
        for limits in (ArchiveLimits(), CLASS_LIMITS):
            try:
                unpack_archive(file, inner, limits)
            except BadArchive as error:
                assert clean_text(str(error), 1000) == str(error)
            assert all(
                path.suffix == ".ipynb" and path.stat().st_size < 1000 for path in inner.rglob("*") if not path.is_dir()
            )
            shutil.rmtree(inner, ignore_errors=True)
        assert {path.name for path in tmp_path.rglob("*")} == {name, "x"}
        inner.parent.rmdir()

    fuzz(count, inputs, check)


# What random inputs do not find by themselves: little that claims to be much.


def test_tensors_that_share_their_bytes_take_no_memory() -> None:
    tree = {"l": [{"t": ["uint8", [1 << 20], 0, False, "tensor"]}] * 1200}
    stream = packed({"type": "seen", "nonce": "n", "tree": tree}, bytes(1 << 20))
    assert most_memory(lambda: check_stream(stream)) < MEBIBYTES


@pytest.mark.parametrize(
    "filling",  # what takes most, and the others among the long soaks
    [b"{},", *(pytest.param(other, marks=pytest.mark.slow) for other in (b'"ab",', b"1.5,", b"[[]],"))],
)
def test_a_file_of_twenty_megabytes_takes_bounded_memory(filling: bytes) -> None:
    raw = b'{"nbformat": 4, "a": [' + filling * ((19 << 20) // len(filling)) + b"0]}"

    def refused() -> None:
        with pytest.raises(Unreadable):
            parse_notebook(raw)

    assert most_memory(refused) < 600
