"""A podman of the tests, and images that are made here: a Debian from its packages, and on it what users get.

No registry of images is asked. What pip installs into an image was fetched before.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from graders.instructor import autograders

PROGRAMS = ("podman", "crun", "mmdebstrap")
"""What has to be there; each is a package of Debian, too."""
DEBIAN = "bookworm"
PYTHON = "3.11"
"""The one of that release."""
PIP = "[global]\nno-index = true\nfind-links = /wheels\n"
ULIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")
"""For a root who may not raise limits."""
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""What works on machines without systemd; limits as above, for building."""
WRAPPER = """#!/bin/sh
# crun wants cgroups of one version. On a machine that shows both, those of version 1 have the controllers.
export CONTAINERS_CONF={folder}/containers.conf
exec unshare --mount sh -c '! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
    exec {podman} --root={folder}/images --runroot={folder}/run "$@"' podman "$@"
"""


def missing() -> str:
    """What has to be there; empty when all is."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    if lacking:
        return f"not installed: apt install {' '.join(lacking)}"
    return "" if os.getuid() == 0 else "only root makes a root file system of Debian's packages"


@dataclass(frozen=True)
class Podman:
    """A podman whose images and containers lie in a folder; `program` is what PATH has to find."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "podman"

    def __call__(self, *arguments: str) -> str:
        """What podman prints. Raises `AssertionError` with all that it said."""
        done = subprocess.run([str(self.program), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"podman {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def build(self, context: Path, name: str, *options: str) -> str:
        """Build the Dockerfile in a folder on `debian`; the image's name."""
        wheels = f"--volume={self.folder}/wheels:/wheels:ro"
        base = "--build-arg=BASE_IMAGE=debian"
        self("build", "-q", "--network=host", wheels, base, f"--tag={name}", *options, str(context))
        return name


@contextmanager
def podman(folder: Path) -> Iterator[Podman]:
    """A podman with an image `debian`: Python, and a pip that takes all from `/wheels`. Nothing is left of it."""
    found = Podman(folder)
    (folder / "containers.conf").write_text(CONFIGURATION)
    (folder / "bin").mkdir()
    found.program.write_text(WRAPPER.format(folder=shlex.quote(str(folder)), podman=shutil.which("podman")))
    found.program.chmod(0o755)
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", f"--python-version={PYTHON}"]
    subprocess.run(
        [*fetch, f"--dest={folder}/wheels", *autograders.pinned_requirements()], check=True, capture_output=True
    )
    (folder / "pip.conf").write_text(PIP)
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-venv,python3-pip,bubblewrap",
         "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
         f"--customize-hook=copy-in {folder}/pip.conf /etc", DEBIAN, f"{folder}/debian.tar"],
        check=True,
    )  # fmt: skip
    try:
        found("import", f"{folder}/debian.tar", "debian")
        yield found
    finally:
        found("rm", "--all", "--force")
        shutil.rmtree(folder, ignore_errors=True)
