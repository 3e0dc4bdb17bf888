"""Plain nbclient: `python -m tests.benchmarks.fresh_kernels WORKERS NOTEBOOK...` runs each in a fresh kernel.

A notebook whose checks fail raises, and ends the run.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(file: Path) -> None:
    """Run one notebook, and write it with its outputs beside itself."""
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(file.parent)}}).execute()
    nbformat.write(notebook, file.with_suffix(".executed"))


def main() -> None:
    with ThreadPoolExecutor(int(sys.argv[1])) as pool:
        list(pool.map(execute, map(Path, sys.argv[2:])))


if __name__ == "__main__":
    main()
