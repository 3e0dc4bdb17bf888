"""Links on the way to Python: a home folder that is one, a checkout, the prefix of a cluster's module.

A box shows what lies in the folders of this Python, by their real paths. A path that leads there through a link leads
nowhere in it, unless the link is there, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

MOST_LINKS = 40
"""After so many Linux itself takes a path for an endless one."""


def python_path() -> str:
    """The path of this Python in its real folder. It may be a link itself: by its place it knows its packages."""
    folder, name = os.path.split(os.path.abspath(sys.executable))
    return os.path.join(os.path.realpath(folder), name)


def python_links() -> dict[str, str]:
    """The links through which this Python, what it was made from and its packages are reached: texts by place."""
    base = getattr(sys, "_base_executable", sys.executable)  # a virtual environment names it in its own words
    paths = (sys.executable, python_path(), base, sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path)
    return links_to(os.path.abspath(path) for path in paths if path)


def links_to(paths: Iterable[str]) -> dict[str, str]:
    """The links that are met on the way to absolute paths: their texts by place, a path without links."""
    return {place: text for path in paths for place, text in _links_on_path(path)}


def _links_on_path(path: str) -> Iterator[tuple[str, str]]:
    reached, left, count = "/", path.split("/")[::-1], 0
    while left and count < MOST_LINKS:
        name = left.pop()
        place = os.path.normpath(os.path.join(reached, name))
        if os.path.islink(place):
            text = os.readlink(place)
            yield place, text
            count += 1
            left += text.split("/")[::-1]
            reached = "/" if text.startswith("/") else reached
        else:
            reached = place
