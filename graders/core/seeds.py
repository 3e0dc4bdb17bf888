"""Make seeds, the numbers that decide every input when an answer is marked."""

from __future__ import annotations

import secrets

SEED_LIMIT = 2**53
"""Seeds are below this bound, so that every JSON reader keeps them exactly."""


def new_seed() -> int:
    """A random seed from the operating system, which nobody can predict."""
    return secrets.randbelow(SEED_LIMIT)
