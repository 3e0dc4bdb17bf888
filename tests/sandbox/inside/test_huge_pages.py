"""Memory moves into huge pages, and stays what it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import re
from graders.sandbox.inside.huge_pages import HugePages

pages = HugePages()
pages.move()  # what is written afterwards is found, too
numbers = bytearray(range(256)) * (64 << 12)
before = bytes(numbers)
moved = 0
while step := pages.move():
    moved += step
assert numbers == before
with open("/proc/self/smaps") as file:
    huge = sum(int(size) for size in re.findall(r"AnonHugePages: +(\\d+) kB", file.read()))
print(moved >> 10, huge)
"""


def test_what_was_written_lies_in_huge_pages() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    moved, huge = map(int, done.stdout.split())
    if not moved:
        pytest.skip("this kernel does not move memory into huge pages: Linux before 6.1, or one built without them")
    assert moved >= 48 << 10
    assert huge >= 48 << 10
