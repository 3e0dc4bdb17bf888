"""Copies the few modules of this package that exist inside a box into a folder of their own."""

from __future__ import annotations

import compileall
import contextlib
import functools
import hashlib
import shutil
import warnings
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

from graders.sandbox.outside.leftovers import remove_leftovers, temporary_folder

PACKAGE = Path(__file__).parents[2]
BOX_PACKAGES = ("sandbox", "sandbox/inside", "wire", "probing", "scenes", "scenes/stories")
"""What runs inside, the protocol it speaks, and what asks a learner's function: the modules of these folders."""
STUB_PACKAGES = {"graders": "sandbox/inside/stub_package.py", "pip": "sandbox/inside/stub_pip.py"}
"""Packages that a notebook finds instead of the real ones, and the file that becomes their `__init__.py`."""
SHARED = ("figures.py", "nets")
"""Other modules, which lessons import and which give nothing away."""


@contextlib.contextmanager
def empty_modules_folder() -> Iterator[Path]:
    """An empty folder for the modules of boxes; removed afterwards."""
    remove_leftovers()
    with temporary_folder("modules") as folder:
        yield folder.resolve()  # links on the way may not exist inside a box


@contextlib.contextmanager
def box_modules_folder() -> Iterator[Path]:
    """A folder with the modules of boxes; removed afterwards."""
    with empty_modules_folder() as folder:
        yield write_box_modules(folder)


def write_box_modules(folder: Path) -> Path:
    """Write the modules into `folder`, for the import path of boxes, unless they are there. Returns `folder`.

    This imports matplotlib, so call it only when something has to run.
    """
    if not folder.joinpath("graders").exists():
        write_modules(folder)
        write_font_list(folder)
    return folder


def write_modules(folder: Path) -> None:
    """Write everything of ours that is imported in a box."""
    package = folder / "graders"
    for name, stub in STUB_PACKAGES.items():
        (folder / name).mkdir(parents=True)
        shutil.copyfile(PACKAGE / stub, folder / name / "__init__.py")
    for name in SHARED:
        source = PACKAGE / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, package / name)
    for room in BOX_PACKAGES:
        (package / room).mkdir()
        for module in sorted((PACKAGE / room).glob("*.py")):
            copy_module(module, package / room / module.name)
    for name in STUB_PACKAGES:
        compileall.compile_dir(folder / name, quiet=1)
    for path in (folder, *folder.rglob("*")):  # boxes may run as another user, and our umask may be strict
        path.chmod(0o755 if path.is_dir() else 0o644)


def copy_module(module: Path, copy: Path) -> None:
    """Copy a module with its time, so that what Python has compiled of it, if anything, stays valid beside the copy."""
    shutil.copy2(module, copy)
    compiled, place = (Path(cache_from_source(str(file))) for file in (module, copy))
    with contextlib.suppress(OSError):  # there is none, or another user compiled it: then it is compiled here
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(compiled, place)


def write_font_list(box_modules: Path) -> None:
    """Write matplotlib's list of fonts, which takes seconds to build in a fresh HOME."""
    with warnings.catch_warnings():  # version warnings are of no use to a learner
        warnings.simplefilter("ignore")
        import matplotlib
        from matplotlib import font_manager  # noqa: F401 - importing it writes the font list

    folder = box_modules / "matplotlib"
    folder.mkdir(exist_ok=True)  # the warm process may have been faster
    folder.chmod(0o755)
    for file in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
        shutil.copyfile(file, folder / file.name).chmod(0o644)


@functools.cache
def box_modules_version() -> str:
    """A SHA-256 of everything of ours in a box. With another version, a notebook may run differently."""
    digest = hashlib.sha256()
    for place in (PACKAGE / name for name in (*BOX_PACKAGES, *SHARED)):
        for file in sorted(place.rglob("*") if place.is_dir() else [place]):
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
