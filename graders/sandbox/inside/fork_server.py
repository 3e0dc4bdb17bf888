"""The warm process: it imports torch, Jupyter and matplotlib once, and then forks a box for each notebook.

    warm process              trusted: no code of a notebook ever runs in it
    └ first process of a box  gives up root, enters the tier (`start.py`)
      └ nest                  forks the kernels of its box, and reaps; nothing else. In tier A it is process 1
        ├ main                runs the notebook with nbclient, writes frames (`main.py`)
        └ kernel              the learner's code

Run as `python -m graders.sandbox.inside.fork_server DESCRIPTOR [MODULE...]`, with the environment of a box. The
descriptor is the socket for requests, on which it first sends `ready`. The modules, of `LATE_MODULES`, are what
notebooks will need.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pkgutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any, NoReturn

import numpy

from graders import scenes
from graders.probing.process_limits import die_with_parent, limit_processes
from graders.sandbox.inside import confine, forker, main, start
from graders.sandbox.inside.huge_pages import HugePages
from graders.sandbox.inside.preloaded import Preloaded
from graders.wire.launch import BoxPlan, BoxRequest
from graders.wire.limits import Limits

PRELOADED_MODULES = (
    *(f"graders.sandbox.inside.{name}" for name in ("kernel", "session")),
    *("ipykernel.debugger", "tornado.platform.asyncio", "faulthandler"),
    *("IPython.core.completer", "IPython.core.completerlib", "IPython.core.debugger", "IPython.core.logger"),
    *("IPython.core.oinspect", "IPython.extensions.storemagic", "sqlite3", "encodings.unicode_escape"),
)
"""Modules that every kernel, every process that runs a notebook, or most probes import."""
BROUGHT_BY_SCENES = ("safetensors.torch", "graders.nets.echo", "graders.nets.shapes")
"""What scenes import. It is hidden from a notebook until that imports it, too."""


def preload_modules() -> Preloaded:
    """Import what notebooks and the programs around them need, without leaving a thread behind.

    It takes 1.4 s of processor time, once instead of for each notebook. The scenes of an exercise would take 5 ms in
    the child of each.
    """
    with _pretend_absent("rfc3987_syntax"):
        for name in PRELOADED_MODULES:
            importlib.import_module(name)
    preloaded = Preloaded(*BROUGHT_BY_SCENES)
    for module in pkgutil.walk_packages(scenes.__path__, f"{scenes.__name__}."):
        importlib.import_module(module.name)
    preloaded.hide()
    import torch

    torch.set_num_threads(1)
    ones = torch.ones(2, requires_grad=True)
    torch.autograd.backward((ones * ones).sum())
    str(ones.grad)
    return preloaded


def background_steps(modules: Iterable[str], import_late: Callable[[str], None]) -> Iterator[None]:
    """Do what can wait until there are boxes: one step after each fork, while the box runs on another core.

    The first steps import one of `modules` each, while the self-test and the control run, which need none. All others
    move memory into huge pages. They go on as long as boxes are asked for, because a module may be imported later.
    """
    for name in modules:
        import_late(name)
        yield
    pages = HugePages()
    while True:
        pages.move()
        yield


def import_late_module(name: str, preloaded: Preloaded) -> None:
    """Import one of `LATE_MODULES`: the compiler takes 1.2 s, and matplotlib with its fonts 0.4 s."""
    with _ready_to_fork():
        preloaded.add(name)
        if name == "matplotlib":
            preloaded.add("matplotlib.pyplot")
            _draw_once()
        preloaded.hide()


@contextlib.contextmanager
def _pretend_absent(name: str) -> Iterator[None]:
    """Make a module look as if it were not installed.

    jsonschema, which Jupyter imports, can do without `rfc3987_syntax`, a grammar for URLs. JupyterLab installs it, and
    then importing jsonschema takes 1.5 s with it and 0.1 s without.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None marks a module that must not be imported
    try:
        yield
    finally:
        del sys.modules[name]


def _draw_once() -> None:
    """Make matplotlib load its fonts and renderer, without pyplot, which would choose a backend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow([[0.0, 1.0], [1.0, 0.0]])
    axes.set_title("title")
    figure.savefig(BytesIO(), format="png", bbox_inches="tight")


def serve_boxes() -> None:
    """Entry point of the warm process: prepare, then fork a box for each request."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the process that asks
    confine.become_subreaper()  # reap what boxes leave behind: the first process of a container may not
    with _ready_to_fork():
        preloaded = preload_modules()
    control.send(b"ready")

    import_late = functools.cache(lambda name: import_late_module(name, preloaded))

    def before(request: dict[str, Any]) -> None:
        for name in request["modules"]:
            import_late(name)

    def box(request: dict[str, Any], descriptors: list[int], answer: int) -> None:
        os.close(answer)
        _become_box(BoxRequest.from_data(request), descriptors)

    forker.serve_fork_requests(
        control, box, background_steps=background_steps(sys.argv[2:], import_late), before=before
    )


@contextlib.contextmanager
def _ready_to_fork() -> Iterator[None]:
    """Import without the garbage collector, which would take 0.3 s of 1.7 s; exit unless one thread is left."""
    gc.disable()
    yield
    gc.freeze()  # the collector writes to all objects that it visits, and written pages are no longer shared
    gc.enable()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        sys.exit(f"{threads} threads are running: a fork would not be safe")


def _become_box(request: BoxRequest, descriptors: list[int]) -> NoReturn:
    """In the forked process: do what starting a new process would have done, then enter the tier."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    requests, out, errors = descriptors
    for source, target in ((requests, 0), (null, 1), (errors, 2)):
        os.dup2(source, target)
    for descriptor in (requests, errors, null):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request.environment)
    tempfile.tempdir = None  # to be found again from the new environment
    os.chdir(request.folder)
    start.enter_tier(request.plan, out, lambda inner: _become_kernel_forker(inner, out, request.limits))


def _become_kernel_forker(inner: BoxPlan, out: int, limits: Limits) -> NoReturn:
    """Confine this process, fork the one that runs the notebook, and fork kernels for it until it ends."""
    main.prepare_box(inner)
    limit_processes(limits)
    control, main_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = os.fork()
    if process == 0:
        forker.close_all_but({0, 1, 2, out, main_end.fileno()})
        die_with_parent()
        main.run(out, main_end)
        os._exit(0)
    main_end.close()
    os.close(out)
    os.dup2(1, 0)

    def kernel(request: dict[str, Any], descriptors: list[int], answer: int) -> None:
        _become_kernel(request, answer, limits)

    code = forker.serve_fork_requests(control, kernel, until=process)
    os._exit(code if code >= 0 else 1)


def _become_kernel(request: dict[str, Any], answer: int, limits: Limits) -> None:
    """In the forked process: become an IPython kernel, as fresh as a newly started one."""
    os.setsid()
    confine.set_dumpable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    numpy.random.seed()  # `random` reseeds itself after a fork, and torch has the same seed in every new process

    from graders.sandbox.inside import kernel

    sys.path[0] = os.getcwd()
    connection, pictures = request["argv"][
        4:6
    ]  # python -m graders.sandbox.inside.kernel LIMITS CONNECTION drawn|undrawn
    sys.argv = [kernel.__file__, "-f", connection]
    app = kernel.initialize_kernel_app(limits.to_json(), connection, pictures)
    os.write(answer, b"ready\n")
    os.close(answer)
    app.start()


if __name__ == "__main__":
    serve_boxes()
    os._exit(0)  # an ordinary exit takes 0.15 s with torch
