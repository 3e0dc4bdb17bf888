"""The matrix of docs/matrix.md: each cell is run, and does what the page says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from docs.matrix_page import DATA, GRIDS, page

MATRIX: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
NEWEST, OLDEST = "2.13", "2.5"
"""From the first on, the cells are those of the page; below the second, those of the page's last section."""


@pytest.fixture(scope="module")
def ran() -> dict[str, dict[str, str]]:
    command = [sys.executable, "-m", "tests.site.matrix"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow  # it decides over the page and PyTorch, not over the course
@pytest.mark.parametrize("situation", MATRIX["situations"])
def test_each_cell_does_what_the_page_says(situation: str, ran: dict[str, dict[str, str]]) -> None:
    if situation not in ran:
        pytest.skip("needs torch.distributed and, for FSDP, PyTorch 2.6")
    newest = MATRIX["cells"][situation]
    oldest = newest | MATRIX["older"].get(situation, {})
    if torch.__version__ >= NEWEST:
        assert ran[situation] == newest
    elif torch.__version__ < OLDEST:
        assert ran[situation] == oldest
    else:  # somewhere between the two it changed
        assert [hook for hook, word in ran[situation].items() if word not in (newest[hook], oldest[hook])] == []


def test_each_cell_that_is_not_as_one_expects_has_one_note_of_its_kind() -> None:
    noted = [
        (situation, hook, note["word"])
        for note in MATRIX["notes"]
        for situation, hooks in note["cells"].items()
        for hook in hooks
    ]
    cells = [(situation, hook, word) for situation, row in MATRIX["cells"].items() for hook, word in row.items()]
    assert len(noted) == len({(situation, hook) for situation, hook, _ in noted})
    assert set(noted) <= set(cells)
    assert [cell for cell in cells if cell not in noted and cell[2] not in ("called", "–")] == []


def test_the_page_has_all_situations_and_hooks_and_leads_from_cells_to_notes() -> None:
    text = page(MATRIX)
    keys = list(MATRIX["situations"])
    assert (GRIDS[0][1], GRIDS[-1][2]) == (keys[0], keys[-1])
    assert text.count("scope='col'") == len(keys)
    assert text.count("scope='row'") == len(GRIDS) * len(MATRIX["hooks"])
    assert all(
        f"(note-{number})=" in text and f"#note-{number}'" in text for number in range(1, len(MATRIX["notes"]) + 1)
    )
