"""What a witness told, judged in sentences."""

from __future__ import annotations

import inspect

import pytest

from graders.core.difference import Kind
from graders.core.expect import Mismatch, Seen
from graders.scenes.instruments import witness
from graders.verdict.conditions import CHANGE_SENTENCES, check_exception_passed_on, unwanted_changes


def changed(*found: list[str]) -> Seen:
    return Seen([list(change) for change in found], "changed")


def test_nothing_is_well_and_every_change_has_its_sentence() -> None:
    assert unwanted_changes(changed()) == []
    two = changed(["hook-removed", "model.block.0"], ["mode", "model"])
    assert unwanted_changes(two) == [
        (Kind.HOOK_GONE, "one of the caller's hooks on `model.block.0` was removed"),
        (Kind.CHANGED, "the mode (training or eval) of `model` has changed"),
    ]


def test_what_a_contract_allows() -> None:
    found = changed(["grad-filled", "x"], ["buffer", "model.norm.running_mean"], ["grad-filled", "w"])
    assert unwanted_changes(found, ["grad-* x", "buffer *"]) == [
        (Kind.CHANGED, "`w.grad` was `None` before and holds something now")
    ]
    assert unwanted_changes(found, ["grad-* *", "buffer *"]) == []


def test_hooks_for_all_modules() -> None:
    assert unwanted_changes(changed(["hook-left", "torch"])) == [
        (Kind.HOOK_LEFT, "one of your hooks is left for all modules")
    ]


def test_a_probe_that_told_nothing_is_no_pass() -> None:
    with pytest.raises(Mismatch, match="the witness told nothing"):
        unwanted_changes(Seen({})["changed"])


def test_a_kind_that_no_witness_has_is_a_wrong_answer_and_no_error() -> None:
    with pytest.raises(Mismatch, match="the witness told nothing"):
        unwanted_changes(changed(["mode", "model"], ["forged", "model"]))


def test_the_witness_knows_no_kind_without_a_sentence() -> None:
    source = inspect.getsource(witness)
    assert [kind for kind in CHANGE_SENTENCES if f'"{kind}"' not in source] == []


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("swallowed", "the model raised an exception, but your function did not pass it on"),
        ("never raised", "the model was meant to raise an exception, but your function never got that far"),
        ("ValueError: no", "a different one came out of your function: ValueError: no"),
    ],
)
def test_exceptions_that_did_not_come_through(what: str, message: str) -> None:
    with pytest.raises(Mismatch, match=message):
        check_exception_passed_on(Seen(what), "the model")
    check_exception_passed_on(Seen("came through"), "the model")
