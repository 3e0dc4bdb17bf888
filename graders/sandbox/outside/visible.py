"""Lists the files on this machine that a notebook may read: what Python and its packages need, and nobody's work.

These are only lists of paths. Each tier has its own way of showing or hiding them (`graders.sandbox.outside.tiers`).
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import site
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from graders.sandbox.inside.confine import is_below

PACKAGE = Path(__file__).parents[2]
PARTS = ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg")
"""What programs and Python need in a prefix such as /usr. Nothing else in it is shown."""
_PACKAGES = ("site-packages", "dist-packages")
_DEPTH = 2
"""How many levels below readable folders to search for copies of this package. Among packages it is one more."""


@functools.cache
def readable_paths() -> tuple[str, ...]:
    """The files and folders that every notebook may read, with links unresolved. None is within another."""
    found = {os.path.join(prefix, part) for prefix in _prefixes() for part in PARTS}
    found |= {os.path.realpath(os.path.dirname(os.__file__)), *_packages(), *_libraries()}
    return tuple(_outermost_paths(path for path in found if os.path.exists(path)))  # `exists` drops broken links


def _prefixes() -> set[str]:
    """The prefixes of the system and of this Python."""
    ours = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    return {"/", "/usr", "/usr/local", str(Path(sys.executable).resolve().parent.parent), *map(os.path.realpath, ours)}


def _packages() -> set[str]:
    """Folders of packages outside of the prefixes as well: a user's own, or one that a .pth file points to."""
    named = [folder for folder in sys.path if os.path.basename(folder) in _PACKAGES]
    return {os.path.realpath(folder) for folder in (*site.getsitepackages(), *named) if os.path.isdir(folder)}


def _libraries() -> set[str]:
    """Folders in a prefix where the loader looks for libraries, such as CUDA's in /usr/local/cuda."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for file in ("/etc/ld.so.conf", *glob.glob("/etc/ld.so.conf.d/*.conf")):
        with contextlib.suppress(OSError, ValueError):
            named += Path(file).read_text(encoding="utf-8").splitlines()
    prefixes = _prefixes() - {"/"}
    return {
        path
        for path in map(os.path.normpath, filter(os.path.isabs, named))
        if os.path.isdir(path) and path not in prefixes and any(is_below(path, prefix) for prefix in prefixes)
    }


def hidden_paths(private: Iterable[str] = ()) -> tuple[str, ...]:
    """The real paths of files and folders within `readable_paths` that stay hidden.

    These are the `private` ones, temporary files, and every copy of this package with its solutions, graders and
    answers. A folder that contains Python itself cannot be hidden; the self-test then finds that it is readable.
    """
    needed = [os.path.realpath(os.path.dirname(os.__file__)), *_packages()]
    wanted = {*map(os.path.realpath, (*private, tempfile.gettempdir())), *kept_from_notebooks()}
    tops = list(map(os.path.realpath, readable_paths()))
    return tuple(
        _outermost_paths(
            path
            for path in wanted
            if os.path.lexists(path)
            and any(is_below(path, top) for top in tops)
            and not any(is_below(place, path) for place in needed)
        )
    )


@functools.cache
def kept_from_notebooks() -> tuple[str, ...]:
    """The paths of every copy of this package and what belongs to it. Cached, since the search takes tens of ms."""
    return tuple(str(place) for copy in package_copies() for place in _package_and_beside(copy))


def package_copies() -> list[Path]:
    """All folders of this package that a notebook might be able to read, including remains of old installations."""
    near = [PACKAGE, *(Path(folder, "graders") for folder in {*sys.path, *_packages()} if folder)]
    found = {os.path.realpath(folder) for folder in near if folder.is_dir()}
    for top in readable_paths():
        found |= set(map(os.path.realpath, _named_graders(top, _DEPTH)))
    return sorted(map(Path, found))


def _named_graders(folder: str, depth: int) -> Iterator[str]:
    own = os.path.join(folder, "graders")
    if os.path.isdir(own):
        yield own
    if depth == 0 and os.path.basename(folder) not in _PACKAGES:
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _named_graders(entry.path, max(0, depth - 1))


def _package_and_beside(package: Path) -> list[Path]:
    """The package with its solutions and answers next to it; in a checkout, the whole checkout."""
    folder = package.parent
    if folder.name not in _PACKAGES and (folder / "pyproject.toml").exists():
        return [folder]
    return [package, folder / "solutions", folder / "tests/answers"]


def _outermost_paths(paths: Iterable[str]) -> list[str]:
    """These paths, sorted, without those that are within another."""
    found: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not found or not is_below(path, found[-1]):
            found.append(path)
    return found
