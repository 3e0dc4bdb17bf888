"""What counts as too much output."""

from __future__ import annotations

import pytest

from graders.sandbox.inside.client import CountingClient, make_notebook


@pytest.mark.parametrize(
    ("written", "shown", "too_much"), [(10, 10, False), (11, 11, True), (10, 80, False), (0, 81, True)]
)
def test_text_has_a_limit_and_with_pictures_eight_times_as_much(written: int, shown: int, too_much: bool) -> None:
    client = CountingClient(make_notebook([]))
    client.output_limit, client.written, client.shown = 10, written, shown
    assert client.too_much is too_much
