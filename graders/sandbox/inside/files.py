"""Find out whether a notebook has written too many files, and remove them."""

from __future__ import annotations

import contextlib
import os
import shutil

from graders.wire.limits import FILES_SLACK, NOTEBOOK_FOLDERS, Limits

_PRIVATE_MOUNTS = ("/tmp", "/dev/shm")
"""Where a box may have file systems of its own, in memory, besides its folder."""


def files_over_limit(folder: str, limits: Limits) -> str | None:
    """Return what the folder or a file system of the box holds too much of, as "more than 4000 files", or None."""
    own = [place for place in (folder, *_PRIVATE_MOUNTS) if _is_our_own(place)]
    found = [_file_system_usage(place) for place in own]
    if folder not in own:
        found.append(_folder_usage(folder, limits))
    if any(count > limits.inodes for count, _ in found):
        return f"more than {limits.inodes} files"
    over = any(size > limits.files + FILES_SLACK for _, size in found)
    return f"more than {limits.files >> 20} MiB of files" if over else None


def _is_our_own(place: str) -> bool:
    """Whether a file system was mounted here for this box: root owns the machine's, and a box of root has none."""
    with contextlib.suppress(OSError, AttributeError):  # AttributeError: Windows has no user ids
        own, above = os.stat(place), os.stat(os.path.join(place, os.pardir))
        return own.st_uid == os.getuid() != 0 and own.st_dev != above.st_dev
    return False


def _file_system_usage(place: str) -> tuple[int, int]:
    """Files and bytes of a whole file system, even those in closed folders and deleted files that are still open."""
    facts = os.statvfs(place)
    return facts.f_files - facts.f_ffree, (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def _folder_usage(folder: str, limits: Limits) -> tuple[int, int]:
    """Files and bytes found in a folder, counted until a limit is exceeded."""
    folders = [folder]
    count = size = 0
    while folders and count <= limits.inodes and size <= limits.files + FILES_SLACK:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        facts = entry.stat(follow_symlinks=False)
                        size += facts.st_blocks * 512 if hasattr(facts, "st_blocks") else facts.st_size
                    if count > limits.inodes:
                        break
        except OSError:  # gone by now, closed, or a path longer than the system allows
            continue
    return count, size


def remove_notebook_files(folder: str) -> None:
    """Remove all that a notebook may have written, even in folders that it closed. Its kernel must have ended."""
    for place in (*(os.path.join(folder, name) for name in NOTEBOOK_FOLDERS), *filter(_is_our_own, _PRIVATE_MOUNTS)):
        with contextlib.suppress(OSError):
            _empty_folder(place)


def _empty_folder(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    _make_accessible(folder)
    for at, folders, _ in os.walk(folder):
        for name in folders:
            _make_accessible(os.path.join(at, name))  # before it is entered
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):  # it was a folder
            os.unlink(path)


def _make_accessible(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
