"""The kit: the few modules of the package that exist inside the box."""

from __future__ import annotations

import compileall
import functools
import hashlib
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graders.run.leftovers import sweep, temporary_folder

PACKAGE = Path(__file__).parent.parent
ROOMS = ("box", "wire", "scenes")
"""What runs inside, the language in which it is spoken to, and what callers do with a learner's function."""
STAND_INS = {"graders": "box/stand_in.py", "pip": "box/pip_stand_in.py"}
"""Packages that a notebook finds in place of others, and what they are made of."""
SHARED = ("figures.py", "nets")
"""Modules outside of these that lessons import and that do no harm there."""


@contextmanager
def empty_kit_folder() -> Iterator[Path]:
    """Where a kit for the boxes of this process may be made; removed afterwards."""
    sweep()
    with temporary_folder("kit") as folder:
        yield folder.resolve()  # a box may have no links that lead there


@contextmanager
def kit_folder() -> Iterator[Path]:
    """A kit for the boxes of this process, removed afterwards."""
    with empty_kit_folder() as folder:
        yield make_kit(folder)


def make_kit(folder: Path) -> Path:
    """Write the kit into `folder`, to be put on the box's import path, unless it is there; returns `folder`.

    matplotlib is imported for it, so a kit is made when something has to run, and not before.
    """
    if not folder.joinpath("graders").exists():
        write_modules(folder)
        write_font_list(folder)
    return folder


def write_modules(folder: Path) -> None:
    """The first part of a kit: all that is imported from it."""
    package = folder / "graders"
    for name, stand_in in STAND_INS.items():
        (folder / name).mkdir(parents=True)
        shutil.copyfile(PACKAGE / stand_in, folder / name / "__init__.py")
    for name in SHARED:
        source = PACKAGE / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, package / name)
    for room in ROOMS:
        (package / room).mkdir()
        for module in sorted((PACKAGE / room).glob("*.py")):
            shutil.copyfile(module, package / room / module.name)
    for name in STAND_INS:
        compileall.compile_dir(folder / name, quiet=1)
    for path in (folder, *folder.rglob("*")):  # boxes may run as another user, whatever umask this one has
        path.chmod(0o755 if path.is_dir() else 0o644)


def write_font_list(kit: Path) -> None:
    """The second part: matplotlib's list of fonts, which takes seconds to make anew in a fresh HOME."""
    with warnings.catch_warnings():  # what one version says of another is no news for a learner
        warnings.simplefilter("ignore")
        import matplotlib
        from matplotlib import font_manager  # noqa: F401 - importing it writes the font list

    folder = kit / "matplotlib"
    folder.mkdir(exist_ok=True)  # the warm process may have been faster
    folder.chmod(0o755)
    for file in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
        shutil.copyfile(file, folder / file.name).chmod(0o644)


@functools.cache
def kit_version() -> str:
    """A digest of everything that a kit is made of: another version may run a notebook differently."""
    digest = hashlib.sha256()
    for place in (PACKAGE / name for name in (*ROOMS, *SHARED)):
        for file in sorted(place.rglob("*") if place.is_dir() else [place]):
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
