"""Where commands print."""

from __future__ import annotations

from rich.console import Console


def console() -> Console:
    """Where the commands print; of a width that can be read."""
    found = Console(highlight=False)
    found.width = min(found.width, 120)
    return found
