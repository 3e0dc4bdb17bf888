"""Notebooks as learners hand them in, made from the text of their code cells."""

from __future__ import annotations

import json
from typing import Any

from tests.answers import answers_of

LESSON_1 = answers_of("01")

LESSON = "01_where_gradients_live"
KEYS = ("01-branch-grads", "01-chain-grads", "01-per-pass-grads")
BRANCH, CHAIN, PASSES = (LESSON_1.right[key][0].strip("\n") + "\n" for key in KEYS)
"""A right answer to each exercise of lesson 1. The answer to the first needs no import."""


def content(*cells: Any, **parts: Any) -> dict[str, Any]:
    """A notebook of format 4 with code cells of these sources, as odd as JSON allows; `parts` replace whole parts."""
    made = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "source": text,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for number, text in enumerate(cells)
    ]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made, **parts}


def text(*cells: Any, **parts: Any) -> str:
    return json.dumps(content(*cells, **parts))
