"""Explains why a box did not start, from what its processes wrote: which limit or missing part, and what to do."""

from __future__ import annotations

import re

_EXCEPTION = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Refused))(?:: (.*))?$", re.MULTILINE)
_CONSEQUENCE = "Kernel died before replying"
"""In the message of the process that waits for a kernel. The kernel has said why before."""

_REMEDIES = (
    (
        r"failed to map segment|[Cc]annot allocate memory|can't allocate memory|MemoryError|bad_alloc",
        "memory",
        "torch needs 1 GB of address space, and its builds with CUDA 4 GB: lift the limit of this shell with "
        "`ulimit -v unlimited`, or end other programs",
    ),
    (r"Too many open files", "open files", "a notebook's kernel needs about 60: allow more with `ulimit -n 1024`"),
    (
        r"can't start new thread|Resource temporarily unavailable",
        "processes",
        "this user runs as many processes and threads as it may: allow more with `ulimit -u`, or end some",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "disk",
        "make room in the folder for temporary files, or set the variable TMPDIR to another folder",
    ),
    (r"File too large", "size of files", "allow larger ones with `ulimit -f unlimited`"),
    (
        r"File name too long|path too long|[Pp]ath is longer|longer than \d+ characters",
        "length of a path",
        "set the variable TMPDIR to a folder with a short path, such as /tmp",
    ),
    (r"signal SIGILL", "processor", "this build of torch needs a newer one: install another build of torch"),
    (
        r"signal SIGKILL",
        "",
        "the system ended it, as it does when memory runs out: end other programs, or use --jobs 1",
    ),
    (
        r"image not known|No such image",
        "missing image",
        "build it with `hookwork autograder container`, or set the variable HOOKWORK_IMAGE to its name",
    ),
    (
        r"capabilities: Operation not permitted",
        "closed folder",
        "other users may not enter the folder that holds Python or the one for temporary files, and each box is "
        "another user: allow them with `chmod o+x` on it and those above it, install Python elsewhere, or set TMPDIR",
    ),
    (
        r"No module named",
        "missing package",
        "install Hookwork again, from your clone: `python -m pip install --force-reinstall .`",
    ),
    (
        r"ImportError|cannot open shared object|undefined symbol",
        "broken package",
        "a package does not fit this Python or this system: install it again",
    ),
)


def explain_start_failure(errors: str) -> str:
    """One sentence on why a box did not start, with a remedy if one is known. `errors` is what it wrote to stderr."""
    said = [match[0] for match in _EXCEPTION.finditer(errors) if _CONSEQUENCE not in match[0]]
    lines = errors.strip().splitlines()
    cause = (said[0] if said else lines[-1] if lines else "it left no message")[:200]
    for pattern, what, remedy in _REMEDIES:
        if re.search(pattern, cause):
            return f"{what}: {cause}. Remedy: {remedy}" if what else f"{cause}. Remedy: {remedy}"
    return cause
