"""Finds the symbolic links on the way to this Python, such as a home folder or a cluster module that is a link.

A box shows the folders of this Python under their real paths. A path that leads there through a link works in the box
only if the link exists there, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

MOST_LINKS = 40
"""Linux gives up on a path with more links than this."""


def python_path() -> str:
    """The path of this Python in its real folder. The file itself may be a link, which tells Python its environment."""
    folder, name = os.path.split(os.path.abspath(sys.executable))
    return os.path.join(os.path.realpath(folder), name)


def python_links() -> dict[str, str]:
    """The links on the way to this Python, its base Python and its packages: maps the path of each to its target."""
    base = getattr(sys, "_base_executable", sys.executable)  # a virtual environment may name it through a link
    paths = (sys.executable, python_path(), base, sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path)
    return links_to(os.path.abspath(path) for path in paths if path)


def links_to(paths: Iterable[str]) -> dict[str, str]:
    """The links on the way to absolute paths. Maps the real path of each link to its target as written."""
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
