"""The web site, `pipx run nox -s site`; and Hookwork with the versions that people have: `pipx run nox -s newest`.

Each session makes an environment of its own, of up to 6 GB, and needs `uv` (`pip install uv`) or pip. nox looks for
this file at the top of a project and nowhere else. What was seen stands in the table of docs/versions.md.

The proof takes most of the time. What follows `--` is for `hookwork build --check`, instead of every lesson on three
seeds: `pipx run nox -s oldest -- --seeds 1 02 12`.
"""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["pinned"]

TIERS = ("A", "B", "D")
EVERY_LESSON = ("--seeds", "3")


def prove(session: nox.Session) -> None:
    """The ordinary tests, the matrix of hooks, the solutions with default limits in each tier, the proof."""
    session.run("python", "-c", "import torch; print('torch', torch.__version__)")
    session.run("pytest", "-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider")
    session.run("pytest", "-q", "-m", "slow", "tests/site/test_matrix.py", "-p", "no:cacheprovider")
    for tier in TIERS:
        session.run(
            "pytest", "graders", "--submissions", "solutions", "--isolation", tier, "-q", "-p", "no:cacheprovider"
        )
    # Runs every lesson from top to bottom, too: a fact that does not hold is an assert that fails.
    session.run("hookwork", "build", "--check", *(session.posargs or EVERY_LESSON), env={"OMP_NUM_THREADS": "1"})


@nox.session
def pinned(session: nox.Session) -> None:
    """The versions of constraints.txt; where pip finds torch's CPU build, that one."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    prove(session)


@nox.session
def newest(session: nox.Session) -> None:
    """Everything as `pip install hookwork` brings it today: on Linux, torch's build with CUDA."""
    session.install("-e", ".[dev]")
    prove(session)


@nox.session
def torch_2_4(session: nox.Session) -> None:
    """The oldest torch that is admitted, with the newest of everything else: numpy 2 among it."""
    session.install("torch==2.4.1", "-e", ".[dev]")
    prove(session)


@nox.session(venv_backend="uv")
def oldest(session: nox.Session) -> None:
    """The oldest version of everything that pyproject.toml admits."""
    session.install("--resolution", "lowest-direct", "-e", ".[dev]")
    prove(session)


@nox.session
def site(session: nox.Session) -> None:
    """The web site, in build/site: it may be opened from there, without a server."""
    session.install("-c", "constraints.txt", "-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "docs", "build/site")


@nox.session
def coverage(session: nox.Session) -> None:
    """Lines and branches that the ordinary tests reach in their own process.

    Not counted is what runs in others: boxes, `pytest graders` with its plugin, forked judges, most commands. In run,
    wire, judge and marking that leaves 96 of 100. The rest is forked judges and the control's probe (which run apart),
    Windows, macOS, control groups of version 2, and what happens when somebody else is faster.
    """
    session.install("-c", "constraints.txt", "-e", ".[dev]", "coverage>=7.6")
    session.run("coverage", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    session.run("coverage", "report")
