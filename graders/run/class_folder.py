"""Whether what was handed in is that of a class: its shape decides, however many students are in it."""

from __future__ import annotations

from pathlib import Path

from graders.run.archives import is_wanted
from graders.run.lms import owner_of_file
from graders.run.members import is_archive


def is_class(where: Path) -> bool:
    """Whether a path is a folder of students' folders, an archive, or something that a platform named.

    A folder with notebooks right in it is somebody's own.
    """
    if not where.is_dir():
        return is_archive(where) or owner_of_file(where.name) is not None
    direct = [name for name in (path.name for path in where.iterdir()) if is_wanted(name)]
    return not direct or any(map(owner_of_file, direct))
