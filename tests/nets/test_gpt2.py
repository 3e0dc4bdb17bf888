"""The cell of lesson 14 that puts its hooks on a GPT-2 of the package transformers, with the package and without it."""

from __future__ import annotations

import contextlib

import pytest
import torch

from graders.author.lesson import source_cells
from graders.core import course
from graders.nets import encode
from graders.nets.yours import ONLY_OURS


def run_cell() -> None:
    """The cell as it stands in the source, with its asserts."""
    (cell,) = (
        cell for cell in source_cells(course.lesson_source("14_inside_a_transformer")) if "your_gpt2()" in cell.source
    )
    exec(
        cell.source, {"contextlib": contextlib, "torch": torch, "tokens": encode(". fox owl bee cow yak . fox owl bee")}
    )


def test_hooks_see_the_stream_the_attention_and_the_heads_of_a_gpt2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="the extra [transformers] is not installed")
    monkeypatch.delenv(ONLY_OURS, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    run_cell()
    said = capsys.readouterr().out
    assert "the lens behind the last block is the output: True" in said
    assert "it goes on: " in said


def test_without_the_package_the_cell_says_what_it_would_show(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ONLY_OURS, "1")  # as in a build, which shows the same whatever is installed
    run_cell()
    assert capsys.readouterr().out.startswith("transformers is not installed.\nWith it, this cell would show ")
