"""The kit: the few modules of the package that exist inside the box."""

from __future__ import annotations

import compileall
import functools
import hashlib
import shutil
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
SHARED = ("figures.py", "nets")
"""Modules outside `graders.box` that lessons import and that do no harm there."""


def make_kit(folder: Path) -> Path:
    """Write the kit into `folder`, to be put on the box's import path; returns `folder`.

    matplotlib is imported for it, so a kit is made when something has to run, and not before.
    """
    package = folder / "graders"
    package.mkdir(parents=True)
    folder.chmod(0o755)
    (package / "__init__.py").write_text(
        (PACKAGE / "box" / "stand_in.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    for name in SHARED:
        source = PACKAGE / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, package / name)
    (package / "box").mkdir()
    for module in sorted((PACKAGE / "box").glob("*.py")):
        shutil.copyfile(module, package / "box" / module.name)
    compileall.compile_dir(package, quiet=1)
    _copy_font_list(folder / "matplotlib")
    for path in folder.rglob("*"):  # boxes may run as another user, whatever umask this one has
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@functools.cache
def kit_version() -> str:
    """A digest of everything that a kit is made of: another version may run a notebook differently."""
    digest = hashlib.sha256()
    places = [PACKAGE / "box", *(PACKAGE / name for name in SHARED)]
    for place in places:
        for file in sorted(place.rglob("*") if place.is_dir() else [place]):
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _copy_font_list(folder: Path) -> None:
    """Give each box matplotlib's list of fonts, which takes seconds to make anew in a fresh HOME."""
    import matplotlib
    from matplotlib import font_manager  # noqa: F401 - importing it writes the font list

    folder.mkdir()
    for file in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
        shutil.copyfile(file, folder / file.name)
