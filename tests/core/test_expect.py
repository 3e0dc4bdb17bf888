from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from graders.core.difference import Difference, Kind
from graders.core.expect import FLOAT32, Mismatch, Seen, expect
from graders.core.shown import MISSING, describe_pair, describe_type, describe_value
from graders.wire.data import Refused, decode, encode


def out_of_the_box(value: Any) -> Seen:
    """A value as the judge gets it: encoded, decoded, wrapped."""
    return Seen(decode(*encode(value)))


def why(comparison: Callable[..., None], *args: Any, **kwargs: Any) -> str:
    """The message of a comparison that does not hold."""
    with pytest.raises(Mismatch) as caught:
        comparison(*args, **kwargs)
    return str(caught.value)


def test_a_path_is_written_as_the_learner_would_write_it() -> None:
    seen = Seen({"grads": {"a": [10, 20]}})
    assert seen["grads"]["a"][1].path == "grads['a'][1]"
    assert seen["grads"]["a"][1].value == 20
    assert Seen([5])[0].path == "the result[0]"


@pytest.mark.parametrize("value", [None, 3, "ab", [1], {"a": 1}, torch.ones(2)])
def test_what_is_not_there_is_missing_and_raises_nothing(value: Any) -> None:
    seen = out_of_the_box(value)
    assert seen["b"].value is MISSING
    assert seen[7].value is MISSING
    assert seen["b"]["c"][0].path == "b['c'][0]"


def test_only_lists_and_tuples_have_entries_to_visit() -> None:
    assert [entry.value for entry in Seen([1, 2])] == [1, 2]
    assert [entry.path for entry in Seen((1, 2), "pair")] == ["pair[0]", "pair[1]"]
    assert list(Seen("ab")) == list(Seen({"a": 1})) == list(Seen(None)) == []


def test_length_keys_and_tensor_of_other_values_are_empty() -> None:
    assert [len(Seen(value)) for value in ([1, 2], (1,), {"a": 1}, "abc", 5, None)] == [2, 1, 1, 3, 0, 0]
    assert Seen({"b": 1, "a": 2}).keys == ["b", "a"]
    assert Seen([1]).keys == []
    assert Seen([1]).tensor is None
    assert out_of_the_box(torch.tensor([1.0, 2.0])).tensor.tolist() == [1.0, 2.0]
    assert bool(Seen(0)) is True


def test_the_tolerance_is_an_absolute_and_a_relative_one() -> None:
    for number, near, far in ((3.0, 0.39, 0.41), (0.0, 0.09, 0.11)):
        expected = torch.tensor([number])
        expect(out_of_the_box(expected + near)).close_to(expected, lambda _: (0.1, 0.1))
        assert "expected" in why(expect(out_of_the_box(expected + far)).close_to, expected, lambda _: (0.1, 0.1))


def test_an_equal_tensor_holds() -> None:
    for tensor in (torch.tensor([1.0, 2.0]), torch.tensor(1.5), torch.empty(0)):
        expect(out_of_the_box(tensor)).close_to(tensor)


def test_the_first_different_entry_is_named_with_both_numbers() -> None:
    value = {"grads": torch.tensor([[1.0, 2.0], [3.0, 5.0]])}
    message = why(expect(out_of_the_box(value)["grads"]).close_to, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert message == "grads: expected 4, saw 5 at [1][1]; 1 of 4 entries differ"
    message = why(expect(out_of_the_box(value)["grads"]).close_to, torch.zeros(2, 2))
    assert message == "grads: expected 0, saw 1 at [0][0]; all entries differ"


def test_a_tensor_of_one_entry_needs_no_place() -> None:
    message = why(expect(out_of_the_box(torch.tensor([2.5]))).close_to, torch.tensor([-1.0]))
    assert message == "the result: expected -1, saw 2.5"


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (torch.ones(3), "expected the shape (2,), saw (3,)"),
        (torch.ones(2, 1), "expected the shape (2,), saw (2, 1)"),
        (torch.ones(2, dtype=torch.float64), "expected the dtype torch.float32, saw torch.float64"),
        (torch.tensor([math.nan, 1.0]), "expected 1, saw nan at [0]; 1 of 2 entries differ"),
        (torch.ones(2, requires_grad=True), "still requires grad; return it detached"),
        (np.ones(2, dtype=np.float32), "expected a tensor, saw a numpy array"),
        ([1.0, 1.0], "expected a tensor, saw a list"),
        (None, "expected a tensor, saw None"),
        (torch.ones(2).to_sparse(), "expected a tensor, saw a Tensor (it is not an ordinary dense tensor"),
    ],
)
def test_another_kind_shape_dtype_or_a_graph_is_named(value: Any, part: str) -> None:
    assert part in why(expect(out_of_the_box(value)).close_to, torch.ones(2))


def test_a_graph_can_be_admitted() -> None:
    expect(out_of_the_box(torch.ones(2, requires_grad=True))).close_to(torch.ones(2), detached=False)


def test_what_is_missing_is_called_nothing() -> None:
    message = why(expect(Seen({})["grads"]["a"]).close_to, torch.ones(2))
    assert message == "grads['a']: expected a tensor, saw nothing"


def test_a_number_is_compared_with_a_number_only() -> None:
    for value, message in ((2.5, "3, saw 2.5"), (True, "the number 3, saw a bool"), ("3", "the number 3, saw a str")):
        assert why(expect(Seen(value)).number_close_to, 3.0, *FLOAT32) == f"the result: expected {message}"
    assert why(expect(out_of_the_box(torch.tensor(3.0))).number_close_to, 3.0, 0, 0).endswith("3, saw a tensor")
    expect(Seen(3)).number_close_to(3.0, 0, 0)


def test_arrays_are_compared_as_arrays() -> None:
    seen, same = expect(out_of_the_box(np.array([[1.0, 2.0]]))), torch.tensor([[1.0, 2.0]]).double()
    seen.array_close_to(same)
    assert "expected 3, saw 2 at [0][1]" in why(seen.array_close_to, torch.tensor([[1.0, 3.0]]).double())
    assert "dtype float32, saw float64" in why(seen.array_close_to, same.float())
    assert "expected a numpy array, saw a tensor" in why(expect(out_of_the_box(same)).array_close_to, same)


@pytest.mark.parametrize("value", [3, 1.5, "text", True, None, [1, "a", [False]], (1, 2), {"a": 1}])
def test_equal_values_of_the_same_type_are_equal(value: Any) -> None:
    expect(out_of_the_box(value)).equals(value)


@pytest.mark.parametrize(
    ("value", "expected", "message"),
    [
        (2, 3, "expected 3, saw 2"),
        (True, 1, "expected 1, saw a bool (True)"),
        (1.0, 1, "expected 1, saw a float (1)"),
        (None, 0, "expected 0, saw None"),
        ((1, 2), [1, 2], "expected [1, 2], saw a tuple"),
        ([1, 2], [1, 3], "expected [1, 3], saw [1, 2]"),
        ([1], [1, 2], "expected [1, 2], saw [1]"),
        ([True, 0], [1, 0], "expected [1, 0], saw [True, 0]"),
        ({"a": 1.0}, {"a": 2}, "expected {'a': 2}, saw {'a': 1}"),
        ([*range(9), 1], [*range(9), 2], "[9]: expected 2, saw 1"),
        ([*range(9)], [*range(10)], "expected 10 entries, saw 9"),
        ([[1.0]], [[1]], "[0][0]: expected 1, saw a float (1)"),
        ([1 / 3 + 1e-9], [1 / 3], "[0]: expected 0.333333333, saw 0.333333334"),
    ],
)
def test_equals_asks_for_the_same_type_at_every_level(value: Any, expected: Any, message: str) -> None:
    where = "the result" if message.startswith("[") else "the result: "
    assert why(expect(out_of_the_box(value)).equals, expected) == where + message


def test_a_dict_has_exactly_the_keys_that_are_asked_for() -> None:
    expect(Seen({"b": 1, "a": 2})).has_keys("a", "b")
    assert "the key 'c' is missing; there are ['a']" in why(expect(Seen({"a": 1})).has_keys, "a", "c")
    more = expect(Seen({"a": 1, "b": 2}))
    assert "the key 'b' does not belong there; expected the keys ['a']" in why(more.has_keys, "a")
    assert "the key 'a' does not belong there; expected no key" in why(more.has_keys)
    assert "expected a dict, saw a list" in why(expect(Seen([1])).has_keys, "a")


def test_a_list_or_a_tuple_has_the_length_that_is_asked_for() -> None:
    expect(Seen([1, 2])).has_length(2, list)
    assert why(expect(Seen([1], "grads")).has_length, 3, list) == "grads: expected 3 entries, saw 1"
    assert why(expect(Seen([1, 2], "grads")).has_length, 1, list) == "grads: expected 1 entry, saw 2"
    assert why(expect(Seen((1, 2))).has_length, 2, list) == "the result: expected a list, saw a tuple"
    expect(Seen((1, 2))).has_length(2, tuple)
    assert why(expect(Seen([1, 2], "g")).has_length, 2, tuple) == "g: expected a tuple, saw a list"


def test_timelines_part_at_the_first_event_that_differs() -> None:
    expect(Seen(["a", "b"])).equals_timeline(["a", "b"])
    assert why(expect(Seen(["a", "c"], "log")).equals_timeline, ["a", "b"]) == (
        "log: the lists differ from entry 2 on: expected b, saw c\n  expected  seen\n  a         a\n→ b         c"
    )
    assert "differ from entry 3" in why(expect(Seen(["a", "b", "c"])).equals_timeline, ["a", "b"])
    assert "expected a list of texts, saw a list [1]" in why(expect(Seen([1])).equals_timeline, ["a"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1 / 3, "0.333333"),
        (2.0, "2"),
        (1e-9, "1e-09"),
        (7, "7"),
        ("a\x1bb", "'a\\x1bb'"),
        (list(range(10)), "[0, 1, 2, 3, 4, 5, 6, 7, …]"),
        ((1, 2.5), "(1, 2.5)"),
        ({"a": [0.5]}, "{'a': [0.5]}"),
        (torch.tensor([[1.0, 2.0]]), "[[1, 2]]"),
        (torch.arange(8.0), "a tensor of shape (8,) that starts [0, 1, 2, 3, …"),
        (Refused("Fake", "it is a subclass of float"), "a Fake (it is a subclass of float)"),
    ],
)
def test_a_value_is_shown_in_few_words(value: Any, text: str) -> None:
    assert describe_value(value) == text


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (MISSING, "nothing"), (None, "None"), (1, "an int"), (1.0, "a float"), ("", "a str"), ([], "a list"),
        ({}, "a dict"), (True, "a bool"), (Refused("Module", "why"), "a Module (why)"),
        (Refused("int64", "why"), "an int64 (why)"),
        (Refused("class Linear", "why"), "the class Linear (why)"),
    ],
)  # fmt: skip
def test_a_type_has_its_article(value: Any, name: str) -> None:
    assert describe_type(value) == name


def test_nan_is_close_to_nan_where_it_is_expected() -> None:
    unknown = torch.tensor([math.nan, 1.0])
    expect(out_of_the_box(unknown.clone())).close_to(unknown)
    assert why(expect(out_of_the_box(torch.ones(2))).close_to, unknown).endswith("at [0]; 1 of 2 entries differ")


@pytest.mark.parametrize(
    ("expected", "seen", "texts"),
    [
        (3.0, 2.5, ("3", "2.5")),
        (9 / 14, 9 / 14 + 1e-8, ("0.642857143", "0.642857153")),
        (1.0, 1.0 + 2**-52, ("1", "1.0000000000000002")),
        ([1], [1.0], ("[1]", "[1.0]")),
    ],
)
def test_two_values_are_shown_with_as_many_digits_as_tell_them_apart(
    expected: Any, seen: Any, texts: tuple[str, str]
) -> None:
    assert describe_pair(expected, seen) == texts


def test_float64_that_went_through_float32_shows_its_digits_and_says_so() -> None:
    expected = torch.tensor([9 / 14, 0.5], dtype=torch.float64)
    with pytest.raises(Mismatch) as caught:
        expect(out_of_the_box(expected.float().double())).close_to(expected, lambda _: (1e-10, 1e-10))
    difference = caught.value.difference
    assert difference.kind is Kind.PRECISION
    assert (difference.expected, difference.seen, difference.entry) == ("0.642857143", "0.642857134", "[0]")
    assert difference.note == (
        "1 of 2 entries differ; the values are float64, and these agree only to float32 precision"
    )


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ([torch.finfo(torch.float32).max, torch.finfo(torch.float32).min, 0.0, 2.0], Kind.FINITE),
        ([0.0, 0.0, 0.0, 2.0], Kind.VALUE),
        ([torch.finfo(torch.float32).max, torch.finfo(torch.float32).min, 0.0, 3.0], Kind.VALUE),
    ],
)
def test_numbers_in_place_of_infinities_are_of_a_kind_of_their_own(seen: list[float], kind: Kind) -> None:
    with pytest.raises(Mismatch) as caught:
        expect(out_of_the_box(torch.tensor(seen))).close_to(torch.tensor([torch.inf, -torch.inf, torch.nan, 2.0]))
    assert caught.value.difference.kind is kind


@pytest.mark.parametrize(
    ("number", "kind", "note"),
    [
        (9 / 14 + 1e-7, Kind.PRECISION, "the values are float64, and these agree only to float32 precision"),
        (0.65, Kind.VALUE, ""),
    ],
)
def test_a_number_that_went_through_float32_says_so_and_another_one_does_not(
    number: float, kind: Kind, note: str
) -> None:
    with pytest.raises(Mismatch) as caught:
        expect(out_of_the_box(number)).number_close_to(9 / 14, 1e-10, 1e-10)
    assert (caught.value.difference.kind, caught.value.difference.note) == (kind, note)


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (torch.ones(2), torch.zeros(2), Kind.VALUE),
        (torch.ones(3), torch.ones(2), Kind.SHAPE),
        (torch.ones(2).double(), torch.ones(2), Kind.DTYPE),
        (torch.ones(2, requires_grad=True), torch.ones(2), Kind.GRAPH),
        ([1.0], torch.ones(1), Kind.TYPE),
        (MISSING, torch.ones(1), Kind.MISSING),
    ],
)
def test_a_difference_says_of_what_kind_it_is(value: Any, expected: torch.Tensor, kind: Kind) -> None:
    with pytest.raises(Mismatch) as caught:
        expect(Seen(value) if value is MISSING else out_of_the_box(value)).close_to(expected)
    assert caught.value.difference.kind is kind


@pytest.mark.parametrize(
    ("seen", "expected", "kind", "note"),
    [
        ([-2.0, 0.0, 6.0], [1.0, 0.0, -3.0], Kind.FACTOR, "each entry is -2 times what is expected"),
        ([2.0, 1.0, 6.0], [1.0, 0.0, 3.0], Kind.VALUE, "all entries differ"),
        ([2.0, 2.0, 0.0], [1.0, 1.0, 0.0], Kind.VALUE, "2 of 3 entries differ"),
        ([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], Kind.VALUE, "all entries differ"),
    ],
)
def test_a_factor_that_all_entries_share_is_told(seen: Any, expected: Any, kind: Kind, note: str) -> None:
    with pytest.raises(Mismatch) as caught:
        expect(out_of_the_box(torch.tensor(seen))).close_to(torch.tensor(expected))
    assert (caught.value.difference.kind, caught.value.difference.note) == (kind, note)


def test_a_condition_in_words_names_its_value() -> None:
    with pytest.raises(Mismatch, match=r"^a: it is gone$"):
        expect(Seen(1, "a")).fail("it is gone")
    with pytest.raises(Mismatch) as caught:
        expect(Seen(1, "a")).differs("two", "one", note="n")
    assert caught.value.difference == Difference(Kind.VALUE, "a", "", "two", "one", "n")


def test_a_tensor_without_entries_is_shown_by_its_shape_however_many_rows_it_has() -> None:
    assert describe_value(torch.empty(60_000, 0)) == "a tensor of shape (60000, 0), without entries"
    assert describe_value([torch.empty(0)]) == "[a tensor of shape (0,), without entries]"
