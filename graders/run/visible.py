"""What a notebook may read of this machine's files: what Python and its packages need, and nobody's work.

Only lists of paths. How they are shown, or closed, is each tier's own (`graders.run.tiers`).
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

PACKAGE = Path(__file__).parent.parent
PARTS = ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg")
"""What a prefix holds for programs and for Python. Whatever else lies in it is not ours to show."""
_PACKAGES = ("site-packages", "dist-packages")
_DEPTH = 2
"""A copy of this package is looked for so many levels below what is open, and one deeper among packages."""


@functools.cache
def readable_paths() -> tuple[str, ...]:
    """The files and folders that are open to every notebook, as they are named. None lies within another."""
    found = {os.path.join(prefix, part) for prefix in _prefixes() for part in PARTS}
    found |= {os.path.realpath(os.path.dirname(os.__file__)), *_packages(), *_libraries()}
    return tuple(_outermost_paths(path for path in found if os.path.exists(path)))  # and no link that leads nowhere


def _prefixes() -> set[str]:
    """Of the system, and of this Python."""
    ours = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    return {"/", "/usr", "/usr/local", str(Path(sys.executable).resolve().parent.parent), *map(os.path.realpath, ours)}


def _packages() -> set[str]:
    """Folders of packages, which may lie elsewhere: a user's own, or where a .pth file points to."""
    named = [folder for folder in sys.path if os.path.basename(folder) in _PACKAGES]
    return {os.path.realpath(folder) for folder in (*site.getsitepackages(), *named) if os.path.isdir(folder)}


def _libraries() -> set[str]:
    """Folders in a prefix in which the loader looks for libraries, such as CUDA's in /usr/local/cuda."""
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
    """Within what is open, the files and folders that stay closed, as real paths.

    These are the `private` ones, temporary files, and every copy of this package with its solutions, graders and
    answers. What Python itself lies in cannot be closed; that such a place is open, the self-test finds.
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
    """Every copy of this package, and what may lie beside it. Looked for once: it takes some hundredths of a second."""
    return tuple(str(place) for copy in package_copies() for place in _package_and_beside(copy))


def package_copies() -> list[Path]:
    """The folders of this package on this machine, or what an installation left of it, as far as notebooks can look."""
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
    """The package and what may lie beside it: in a checkout, everything."""
    folder = package.parent
    if folder.name not in _PACKAGES and (folder / "pyproject.toml").exists():
        return [folder]
    return [package, folder / "solutions", folder / "tests/answers"]


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _outermost_paths(paths: Iterable[str]) -> list[str]:
    """These paths in order, without those that lie in another."""
    found: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not found or not is_below(path, found[-1]):
            found.append(path)
    return found
