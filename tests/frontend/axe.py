"""What axe-core finds in a page: `.ci/programs` brings it from npm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

FILE = Path(sys.prefix) / "node/node_modules/axe-core/axe.min.js"
MISSING = "" if FILE.exists() else "axe-core is not installed: .ci/programs"


def violations(page: Any, inside: str = "body") -> list[str]:
    """What breaks a rule of accessibility within the elements of a selector, with the first place of each."""
    page.evaluate(FILE.read_text(encoding="utf-8"))
    found = page.evaluate("selector => axe.run({include: [[selector]]})", inside)
    assert found["passes"], "axe looked at nothing"
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]
