from __future__ import annotations

import pytest

from graders.run.decoded import Decoded
from graders.wire.data import DataError

TREE = '{"l": [1, 2]}'


def test_an_answer_is_decoded_once() -> None:
    decoded = Decoded()
    first = decoded.seen("a", TREE, b"")
    assert first.value == [1, 2]
    assert decoded.seen("a", TREE, b"") is first
    assert decoded.seen("b", TREE, b"") is not first


def test_no_more_is_remembered_than_there_is_room_for_and_the_oldest_goes_first() -> None:
    decoded = Decoded(room=10 * len(TREE))
    first = [decoded.seen(str(number), TREE, b"") for number in range(10)]
    assert decoded.seen("0", TREE, b"") is first[0]
    decoded.seen("10", TREE, b"")
    assert len(decoded) == 10
    assert decoded.seen("0", TREE, b"") is first[0]
    assert decoded.seen("1", TREE, b"") is not first[1]


def test_what_is_large_is_not_remembered_and_pushes_nothing_out() -> None:
    decoded = Decoded(room=10 * len(TREE))
    first = decoded.seen("a", TREE, b"")
    large = "[" + ", ".join(["1"] * 100) + "]"
    assert decoded.seen("b", f'{{"l": {large}}}', b"").value == [1] * 100
    assert len(decoded) == 1
    assert decoded.seen("a", TREE, b"") is first


def test_what_is_no_data_is_refused_each_time() -> None:
    decoded = Decoded()
    for _ in range(2):
        with pytest.raises(DataError):
            decoded.seen("a", '{"z": []}', b"")
    assert len(decoded) == 0
