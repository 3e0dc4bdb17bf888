"""Chooses the tier of isolation. A tier is used only after a self-test from inside, and never if that is unclear."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from graders.core.errors import ExitCode, HookworkError
from graders.core.text import clean_text
from graders.sandbox.inside.wall_checks import WALLS
from graders.sandbox.outside.box_process import BoxDied, BoxTimeout
from graders.sandbox.outside.canaries import canaries
from graders.sandbox.outside.container import container_memory
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.start_failure import explain_start_failure
from graders.sandbox.outside.tiers import WARM_TIERS, missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire.forking import ForkerDied
from graders.wire.frames import Frame, FrameError

SECONDS = 60.0
"""How long a self-test may take."""
MOST_PROCESSES = 32
"""The limit on processes during the self-test, which tries to exceed it."""


class NoIsolation(HookworkError):
    """No tier that would be good enough works here; the message says why, and what can be done."""

    exit_code = ExitCode.NOT_GRADED


def missing_for_runner(runner: BoxRunner) -> str:
    """What a runner needs but is missing here, in a few words; empty if it can be tried."""
    return missing_for_tier(runner.tier, warm=runner.warm is not None)


def self_test(runner: BoxRunner) -> str:
    """Test the boxes of a runner from inside: what is wrong with them, in a few words, and empty if nothing is.

    A kernel is started with all limits on, torch computes in it, and every wall is tried. Tier D has no walls to try.
    """
    tier, limits = runner.tier, replace(runner.limits, processes=min(runner.limits.processes, MOST_PROCESSES))
    walled = tier != "D"
    with canaries(runner.private if walled else None) as bait:
        request = {
            "type": "self-test",
            "limits": asdict(limits),
            "walls": walled,
            "closed": bait.closed,
            "write": bait.outside,
            "port": bait.port,
            "sockets": bait.sockets if walled else [],
            # In the other tiers memory is bounded from outside, which the self-test cannot see.
            "memory": container_memory(limits) if tier == "C" else 0,
        }
        deadline = time.monotonic() + SECONDS
        computed: dict[str, Any] = {}
        try:
            with replace(runner, limits=limits).box() as box:
                try:
                    box.send(Frame(request), deadline)
                    while (frame := box.receive(deadline)).type == "cell":
                        computed = computed if computed.get("status", "ok") != "ok" else frame.head
                except BoxTimeout:
                    return f"it did not start within {SECONDS:g} seconds ({explain_start_failure(box.errors())})"
                except (BoxDied, FrameError):
                    return f"it does not start here ({explain_start_failure(box.errors())})"
        except (OSError, ForkerDied) as error:
            return f"it does not start here ({explain_start_failure(f'{type(error).__name__}: {error}')})"
        if short := frame.head.get("short"):
            return f"the limits of this shell are too low ({str(short)[:300]})"
        if computed.get("status") != "ok":
            return f"torch cannot compute in it ({explain_start_failure(str(computed.get('message')))})"
        held = frame.head.get("held")
        if not isinstance(held, dict) or (walled and not {*bait.closed, *WALLS} <= set(held)):
            return "its self-test gave no answer"
        broken = [clean_text(wall, 400) for wall, standing in held.items() if standing is not True]
        broken += bait.what_was_reached()
        return f"not prevented: {', '.join(broken)}" if broken else ""


def choose_runner(
    run_options: RunOptions,
    box_modules: Path,
    warm: WarmProcess,
    *,
    lacking: Callable[[BoxRunner], str] = missing_for_runner,
    test: Callable[[BoxRunner], str] = self_test,
) -> BoxRunner:
    """A runner in the tier that the options name, or with "auto" in the best that works here.

    Boxes are forked from `warm` if possible. A runner is used only if `lacking` and `test` find nothing wrong. Tier D
    isolates nothing, so it is used only for the user's own work, or if the options allow it. Raises `NoIsolation`.
    """

    def runner_in(tier: str, process: WarmProcess | None) -> BoxRunner:
        return BoxRunner(
            box_modules=box_modules,
            tier=tier,
            limits=run_options.limits,
            warm=process,
            keep_outputs=run_options.keep_outputs,
            private=run_options.private,
        )

    reasons: dict[str, list[str]] = {}
    for tier in ("A", "B") if run_options.isolation == "auto" else (run_options.isolation,):
        if tier == "D":
            break
        problems = []
        for process in (warm, None) if tier in WARM_TIERS else (None,):
            runner = runner_in(tier, process)
            if problem := lacking(runner):
                problems.append(problem)
            elif problem := test(runner):
                problems.insert(0, problem)
            else:
                return runner
        reasons.setdefault(problems[0], []).append(tier)
    if run_options.isolation in ("auto", "D") and (run_options.own_work or run_options.allow_unisolated):
        if not warm.is_available():  # starting a kernel just for a test would take seconds: go without one
            return runner_in("D", None)
        runner = runner_in("D", warm)
        if not (problem := test(runner)):
            return runner
        reasons.setdefault(problem, []).append("D")
    elif run_options.isolation in ("auto", "D"):
        reasons["the notebooks of a class could read your files and use your network. Install bubblewrap, run on "
                "Linux or in a container, or accept that with --allow-unisolated"] = ["D"]  # fmt: skip
    details = "; ".join(f"tier {', '.join(tiers)}: {problem}" for problem, tiers in reasons.items())
    raise NoIsolation(f"No notebook was run, because no tier of isolation works here. {details}.")
