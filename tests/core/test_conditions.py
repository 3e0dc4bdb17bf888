"""What a witness told, judged in sentences."""

from __future__ import annotations

import inspect
from contextlib import suppress

import pytest

from graders.box import witness
from graders.box.failures import Failure, every_kind
from graders.core.conditions import (
    CHANGES,
    all_came_through,
    came_through,
    changes,
    no_hook_left,
    nothing_changed,
    unwanted,
)
from graders.core.difference import Kind
from graders.core.expect import Mismatch, Seen


def changed(*found: list[str]) -> Seen:
    return Seen([list(change) for change in found], "changed")


def test_nothing_is_well_and_every_change_has_its_sentence() -> None:
    nothing_changed(changed())
    two = changed(["hook-removed", "model.block.0"], ["mode", "model"])
    assert unwanted(two) == [
        (Kind.HOOK_GONE, "a hook of the caller on `model.block.0` was removed"),
        (Kind.CHANGED, "the mode (training or eval) of `model` is not as before"),
    ]
    with pytest.raises(Mismatch, match=r"^after an exception, a hook of the caller on `model.block.0` was removed$"):
        nothing_changed(two, when="after an exception")


def test_what_a_contract_allows() -> None:
    found = changed(["grad-filled", "x"], ["buffer", "model.norm.running_mean"], ["grad-filled", "w"])
    assert unwanted(found, ["grad-* x", "buffer *"]) == [
        (Kind.CHANGED, "`w.grad` was `None` before and holds something now")
    ]
    nothing_changed(found, ["grad-* *", "buffer *"])
    assert changes(found, "grad-* *") == [["grad-filled", "x"], ["grad-filled", "w"]]


def test_hooks_for_all_modules() -> None:
    assert unwanted(changed(["hook-left", "torch"])) == [(Kind.HOOK_LEFT, "a hook of yours is left for all modules")]


def test_a_probe_that_told_nothing_is_no_pass() -> None:
    with pytest.raises(Mismatch, match="the witness told nothing"):
        nothing_changed(Seen({})["changed"])


def test_the_witness_knows_no_kind_without_a_sentence() -> None:
    source = inspect.getsource(witness)
    assert [kind for kind in CHANGES if f'"{kind}"' not in source] == []


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("swallowed", "the model raised an exception, and your function did not pass it on"),
        ("never raised", "the model was to raise an exception, and your function never came there"),
        ("ValueError: no", "another one came out of your function: ValueError: no"),
    ],
)
def test_exceptions_that_did_not_come_through(what: str, message: str) -> None:
    with pytest.raises(Mismatch, match=message):
        came_through(Seen(what), "the model")
    came_through(Seen("came through"), "the model")


def test_exceptions_of_every_kind() -> None:
    def caught(failure: Failure) -> None:
        with suppress(KeyError):
            failure.strike()

    def passed_on(failure: Failure) -> None:
        failure.strike()

    all_came_through(Seen(every_kind(passed_on)), "the model")
    told = every_kind(caught)
    assert [kind for kind, became in told.items() if became != "came through"] == ["KeyError"]
    for what in (told, {}, None):
        with pytest.raises(Mismatch, match="the model raised an exception"):
            all_came_through(Seen(what), "the model")


@pytest.mark.parametrize(
    ("count", "before", "kind", "sentence"),
    [
        (-1, 0, Kind.HOOK_GONE, "a hook that was there before is gone"),
        (-3, 0, Kind.HOOK_GONE, "3 hooks that were there before are gone"),
        (0, 1, Kind.HOOK_GONE, "a hook that was there before is gone"),
        (1, 0, Kind.HOOK_LEFT, "a hook of yours is still there"),
        (4, 2, Kind.HOOK_LEFT, "2 hooks of yours are still there"),
        (None, 0, Kind.MISSING, "hooks: expected 0, saw None"),
    ],
)
def test_hooks_are_told_in_words(count: object, before: int, kind: Kind, sentence: str) -> None:
    with pytest.raises(Mismatch) as caught:
        no_hook_left(Seen(count, "hooks"), before)
    assert caught.value.difference.kind is kind
    assert str(caught.value) == sentence


def test_when_they_were_counted_can_be_said() -> None:
    with pytest.raises(Mismatch, match=r"^after an exception, a hook of yours is still there$"):
        no_hook_left(Seen(1), when="after an exception")


def test_as_many_as_before_is_right() -> None:
    no_hook_left(Seen(0))
    no_hook_left(Seen(2), before=2)
