"""The environment variables of a box."""

from __future__ import annotations

import os
from pathlib import Path

_PASSED_ON = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH")
"""Variables that a Python process may need to start; no other variable of ours enters the box."""


def environment(kit: Path, folder: str) -> dict[str, str]:
    """The variables of a box that finds itself in `folder`; its modules lie in `kit`."""
    home = folder + "/home"
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {
        "HOME": home,
        "USER": "learner",
        "LOGNAME": "learner",
        "TMPDIR": folder + "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(kit),
        "PYTHONDONTWRITEBYTECODE": "1",
        "IPYTHONDIR": home + "/ipython",
        "JUPYTER_CONFIG_DIR": home + "/jupyter",
        "JUPYTER_DATA_DIR": home + "/jupyter-data",
        "JUPYTER_RUNTIME_DIR": home + "/jupyter-run",
        "MPLCONFIGDIR": home + "/matplotlib",
        # matplotlib reads it when it is imported, which may be before there is a kernel.
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        # One thread: equal numbers on every machine, and a kernel that can be forked.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        # glibc reserves 64 MiB of address space for each thread's heap, and the memory limit counts it.
        "MALLOC_ARENA_MAX": "1",
    }
