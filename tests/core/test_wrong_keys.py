from __future__ import annotations

import pytest

from graders.core.difference import Difference, Kind
from graders.core.wrong_keys import explain_keys


def missing(key: str, *there: str) -> Difference:
    return Difference(Kind.MISSING, "the result", note=f"the key {key!r} is missing; there are {list(there)}")


def too_many(key: str, *expected: str) -> Difference:
    note = f"the key {key!r} does not belong there; expected the keys {list(expected)}"
    return Difference(Kind.VALUE, "the result", note=note)


@pytest.mark.parametrize(
    ("difference", "id"),
    [
        (missing("norm", "<BatchNorm1d>", "<Identity>"), "keyed-by-module"),
        (missing("norm", "BatchNorm1d"), "keyed-by-type"),
        (missing("Tanh", "ReLU"), None),
        (missing("", "norm"), "without-the-model"),
        (missing("block.pair", "norm", "pair"), "half-a-name"),
        (missing("block.pair", "norm", "head"), "children-only"),
        (missing("block.pair", "block.one"), None),
        (missing("block.pair"), "nothing-recorded"),
        (Difference(Kind.VALUE, "the result", "", "3 entries", "0"), "nothing-recorded"),
        (Difference(Kind.VALUE, "the result", "", "0 entries", "3"), None),
        (missing("norm", "head"), None),
        (too_many("skip2", "norm", "skip"), "names-that-begin-alike"),
        (too_many("block.pair", "norm", "block"), None),
        (too_many("head", "norm"), None),
        (Difference(Kind.VALUE, "the result", "", "1", "2"), None),
    ],
)
def test_which_keys_a_dict_has_tells_how_they_were_found(difference: Difference, id: str | None) -> None:
    found = explain_keys([difference])
    assert (found and found.id) == id


def test_one_reason_has_to_explain_all_differences() -> None:
    both = explain_keys([missing("", "norm"), missing("block.pair", "norm")])
    assert both is not None
    assert both.id == "children-only"
    assert explain_keys([missing("block.pair", "norm"), too_many("norm2", "norm")]) is None


def test_the_message_names_the_module_that_is_missing() -> None:
    found = explain_keys([missing("block.pair", "norm")])
    assert found is not None
    assert "`block.pair`" in found.message
