"""What a watch told, judged in sentences."""

from __future__ import annotations

import inspect

import pytest

from graders.core.difference import Kind
from graders.scenes import watch
from graders.verdict.changes import CHANGE_SENTENCES, unwanted_changes
from graders.wire.data import Changes


def judged(*found: tuple[str, str], allowed: tuple[tuple[str, str], ...] = ()) -> list[tuple[Kind, str]]:
    return unwanted_changes(Changes(found), Changes(allowed))


def test_nothing_is_well_and_every_change_has_its_sentence() -> None:
    assert judged() == []
    assert judged(("hook-removed", "model.block.0"), ("mode", "model")) == [
        (Kind.HOOK_GONE, "one of the caller's hooks on `model.block.0` is gone"),
        (Kind.CHANGED, "the mode (training or eval) of `model` has changed"),
    ]


def test_what_the_reference_changes_as_well_is_no_fault() -> None:
    assert judged(("grad-filled", "x"), ("grad-filled", "w"), allowed=(("grad-filled", "x"),)) == [
        (Kind.CHANGED, "`w.grad` holds something, and was `None` before")
    ]


def test_hooks_for_all_modules() -> None:
    assert judged(("hook-left", "torch")) == [(Kind.HOOK_LEFT, "one of your hooks is still registered for all modules")]


def test_a_kind_that_no_watch_has_is_refused() -> None:
    with pytest.raises(ValueError, match="no watch reports forged"):
        judged(("mode", "model"), ("forged", "model"))


def test_a_watch_knows_no_kind_without_a_sentence_and_the_other_way_round() -> None:
    source = inspect.getsource(watch)
    assert [kind for kind in CHANGE_SENTENCES if f'"{kind}"' not in source] == []
