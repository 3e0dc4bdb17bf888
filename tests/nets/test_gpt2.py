"""The cell of lesson 14 that puts its hooks on a GPT-2 of the package transformers, with the package and without it."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from graders.author.lesson import source_cells
from graders.core import course
from graders.nets import encode


def run_cell(find_spec: Callable[[str], object] = importlib.util.find_spec) -> None:
    """The cell as it stands in the source, with its asserts; `find_spec` tells which packages there are."""
    (cell,) = (
        cell for cell in source_cells(course.lesson_source("14_inside_a_transformer")) if "GPT2Config" in cell.source
    )
    tokens = encode(". fox owl bee cow yak . fox owl bee")
    found = SimpleNamespace(util=SimpleNamespace(find_spec=find_spec))
    exec(cell.source, {"contextlib": contextlib, "importlib": found, "torch": torch, "tokens": tokens})


def test_hooks_see_the_stream_the_attention_and_the_heads_of_a_gpt2(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="the extra [transformers] is not installed")
    run_cell()
    said = capsys.readouterr().out
    assert "stream: (3, 1, 10, 64)   attention weights: (1, 4, 10, 10)" in said
    assert "the lens behind the last block is the output: True" in said


def test_without_the_package_the_cell_says_what_it_would_show(capsys: pytest.CaptureFixture[str]) -> None:
    run_cell(lambda name: None)
    assert "transformers is not installed" in capsys.readouterr().out
