"""Seeds: numbers that decide every input of a marking."""

from __future__ import annotations

import secrets

SEED_LIMIT = 2**53
"""Seeds are below this bound, so that every JSON reader keeps them exact."""


def new_seed() -> int:
    """A seed from the operating system."""
    return secrets.randbelow(SEED_LIMIT)
