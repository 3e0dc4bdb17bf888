"""What an answer can read around itself, asked in the way in which a box asks it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from graders.sandbox.outside.box_modules import write_modules
from graders.sandbox.outside.conversation import Probe

SPY = """
def NAME(*args, **kwargs):
    import gc, importlib.machinery, json, sys, torch, types, weakref

    ours = [module for name, module in list(sys.modules.items()) if name == "probe" or name.startswith("graders.")]
    others = [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
    closed = {id(vars(module)) for module in others if module not in ours}
    closed |= {id(globals()), id(sys._getframe()), id(sys.modules)}
    texts, containers, met = set(), set(), set()
    todo, frame = [args, kwargs], sys._getframe().f_back
    while frame is not None:
        todo += [frame.f_code, frame.f_globals, *frame.f_locals.values()]  # a frame that runs has no referents
        frame = frame.f_back
    while todo:
        thing = todo.pop()
        if type(thing) is str:
            texts.add(thing[:200])
            continue
        if id(thing) in closed or id(thing) in met or type(thing) in (int, float, bytes):
            continue
        met.add(id(thing))
        if isinstance(thing, types.ModuleType) and thing not in ours:
            continue
        if isinstance(thing, importlib.machinery.ModuleSpec) or "dataclasses" in (
            type(thing).__module__, isinstance(thing, types.FunctionType) and thing.__module__
        ):
            continue  # their own words, such as "frozen"
        if isinstance(thing, type):
            texts.add(thing.__name__)
            if not thing.__module__.startswith(("graders.", "probe")):
                continue
        if isinstance(thing, types.FunctionType):
            closed.add(id(thing.__annotations__))
        if isinstance(thing, types.CodeType):
            texts.add(thing.co_name)
        if type(thing) in (list, tuple, dict) and 1 < len(thing) < 1000:
            try:
                containers.add(json.dumps(thing))
            except (TypeError, ValueError, RecursionError):
                pass
        todo.extend(thing if isinstance(thing, dict) else ())
        todo.append(thing() if type(thing) is weakref.ref else None)
        if isinstance(thing, torch.Tensor):
            todo += [thing._backward_hooks, getattr(thing, "_post_accumulate_grad_hooks", None)]
        todo.extend(gc.get_referents(thing))
    FOUND[0] |= texts
    FOUND[1] |= containers
    for own in (closed, texts, containers, met, todo):
        own.clear()  # the exception keeps this frame, and the next call would look through all that is in it
    raise RuntimeError("seen enough")
"""
"""An answer that uses no hook: it notes all texts and all plain containers that it reaches from its arguments, from the
frames that called it, and from modules of ours in their namespaces; then it raises."""

MAIN = """
import json, sys
from graders.sandbox.inside.kernel import run_probe
from graders.wire.frames import Frame

def main():
    for line in sys.stdin:
        asked = json.loads(line)
        for tree, body in asked["cases"]:
            request = Frame({"draw": tree, "source": asked["source"], "seed": asked["seed"]}, bytes.fromhex(body))
            namespace = {"__name__": "__main__", "FOUND": [set(), set()]}
            exec(asked["spy"], namespace)
            head = run_probe(namespace, request).head
            assert namespace["FOUND"][0], head
            print(json.dumps([sorted(part) for part in namespace["FOUND"]]))

main()
"""


class Spied:
    """What was reached in one case."""

    def __init__(self, line: str) -> None:
        """`line` is what the process wrote."""
        texts, containers = json.loads(line)
        self.texts, self.containers = set(texts), set(containers)

    def finds(self, value: Any) -> bool:
        """Whether a text, or a container that is equal to `value`, was reached."""
        return value in self.texts if type(value) is str else json.dumps(value) in self.containers


def spied(folder: Path, exercises: Iterable[Sequence[Probe]]) -> list[list[Spied]]:
    """What an answer reaches in each case, for the probes of each exercise. `folder` is empty.

    As in a kernel, the draws of all cases are in the frames that called the answer.
    """
    write_modules(folder)
    exercises = list(exercises)
    asked = [
        {
            "spy": SPY.replace("NAME", probes[0].name), "source": probes[0].source, "seed": probes[0].seed,
            "cases": [[probe.tree, probe.body.hex()] for probe in probes],
        }
        for probes in exercises
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", MAIN],
        cwd=folder, input="\n".join(map(json.dumps, asked)), text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    return [[Spied(next(lines)) for _ in probes] for probes in exercises]
