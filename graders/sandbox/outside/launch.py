"""How a box is started, and the environment variables that it gets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graders.sandbox.outside.links import python_path
from graders.wire.launch import LaunchPlan

BOX_FOLDER = "/box"
"""The path of the box's own folder inside, in tiers A and C."""


@dataclass(frozen=True)
class Launch:
    """How to start a box: a plan for `graders.sandbox.inside.start`, or the command of a container."""

    folder: str
    """The box's own folder, as the box sees it. Not used in tier C."""
    plan: LaunchPlan | None = None
    command: tuple[str, ...] = ()
    cleanup: tuple[str, ...] = ()
    """A command to run after the process has ended."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for a command that starts the box but does not pass them on; empty means the usual ones."""

    @property
    def supervised(self) -> bool:
        """Whether the first process ends all others when it gets SIGTERM."""
        return self.plan is not None and self.plan.supervised

    def start_command(self, descriptor: int) -> list[str]:
        """The command that starts the box as a program, which writes its frames to `descriptor`."""
        plan = self.plan
        if plan is None:
            return list(self.command)
        if plan.uid is None and not plan.supervised:
            return [*plan.command, str(descriptor), plan.box.to_json()]
        return [python_path(), "-S", "-m", "graders.sandbox.inside.start", str(descriptor), plan.to_json()]


def inherited_variables() -> dict[str, str]:
    """The variables of ours that a Python process may need to start. No other enters the box.

    This Python's folder is first in PATH, so that `python` and `pip` are its own even if no environment is activated.
    """
    found = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return found | {"PATH": os.pathsep.join([os.path.dirname(python_path()), os.environ.get("PATH", os.defpath)])}


def box_environment(folder: str, box_modules: str | Path) -> dict[str, str]:
    """The environment variables of a box. `folder` and `box_modules` are paths as the box sees them."""
    home = folder + "/home"
    return {
        "HOME": home,
        "USERPROFILE": home,  # HOME on Windows
        "USER": "learner",
        "LOGNAME": "learner",
        "TMPDIR": folder + "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(box_modules),
        "PYTHONDONTWRITEBYTECODE": "1",
        "IPYTHONDIR": home + "/ipython",
        "JUPYTER_CONFIG_DIR": home + "/jupyter",
        "JUPYTER_DATA_DIR": home + "/jupyter-data",
        "JUPYTER_RUNTIME_DIR": home + "/jupyter-run",
        "MPLCONFIGDIR": home + "/matplotlib",
        # matplotlib reads this when it is imported, which may be before there is a kernel.
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        # With one thread, numbers are equal on every machine, and the kernel can be forked.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MODELS_OF_THE_COURSE": "1",  # `your_model` of a lesson imports no large packages
        "CUDA_VISIBLE_DEVICES": "",
        # Without these, installers would try again and again to reach a network.
        "PIP_NO_INDEX": "1",
        "PIP_RETRIES": "0",
        "PIP_TIMEOUT": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_OFFLINE": "1",
        "CONDA_OFFLINE": "1",
        # By default glibc reserves 64 MiB of address space for each thread's heap, which the memory limit counts.
        "MALLOC_ARENA_MAX": "1",
    }
