from __future__ import annotations

import pytest

from graders.core.decoded import DecodedAnswers
from graders.wire.data import DataError

TREE = '{"l": [1, 2]}'


def test_an_answer_is_decoded_once() -> None:
    decoded = DecodedAnswers()
    first = decoded.decode_answer("a", TREE, b"")
    assert first.value == [1, 2]
    assert decoded.decode_answer("a", TREE, b"") is first
    assert decoded.decode_answer("b", TREE, b"") is not first


def test_no_more_is_remembered_than_there_is_room_for_and_the_oldest_goes_first() -> None:
    decoded = DecodedAnswers(room=10 * len(TREE))
    first = [decoded.decode_answer(str(number), TREE, b"") for number in range(10)]
    assert decoded.decode_answer("0", TREE, b"") is first[0]
    decoded.decode_answer("10", TREE, b"")
    assert len(decoded) == 10
    assert decoded.decode_answer("0", TREE, b"") is first[0]
    assert decoded.decode_answer("1", TREE, b"") is not first[1]


def test_what_is_large_is_not_remembered_and_pushes_nothing_out() -> None:
    decoded = DecodedAnswers(room=10 * len(TREE))
    first = decoded.decode_answer("a", TREE, b"")
    large = "[" + ", ".join(["1"] * 100) + "]"
    assert decoded.decode_answer("b", f'{{"l": {large}}}', b"").value == [1] * 100
    assert len(decoded) == 1
    assert decoded.decode_answer("a", TREE, b"") is first


def test_what_is_no_data_is_refused_each_time() -> None:
    decoded = DecodedAnswers()
    for _ in range(2):
        with pytest.raises(DataError):
            decoded.decode_answer("a", '{"z": []}', b"")
    assert len(decoded) == 0
