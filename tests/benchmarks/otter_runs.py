"""`otter run` on each file: `python otter_runs.py PYTHON WORKERS NOTEBOOK...`; nothing else is imported or done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def otter_run(python: str, workers: int, files: Sequence[str]) -> None:
    """`otter run` on each file, so many at a time."""

    def mark(file: str) -> None:
        out = Path("otter") / Path(file).parent.name
        command = [python, "-m", "otter", "run", "-a", "autograder.zip", "-o", str(out), "--no-logo", file]
        subprocess.run(command, check=True)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(mark, files))


if __name__ == "__main__":
    otter_run(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
