"""Starts our own Python processes, so that they import nothing from the current folder, whose files may be strangers'.

`python -c` and `python -m`, and with them `multiprocessing`, look for every module in the current folder first: a
`types.py` that somebody handed in would run there, outside of any box.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_HERE = Path(__file__).parent


def isolated_command(program: str, *arguments: str) -> list[str]:
    """The command that runs `program`, the text of one in Python, in a process that finds the modules that we find.

    The current folder is searched only if its path is among our own places.
    """
    first = f"import sys; sys.path[:] = {[place for place in sys.path if place]!r}"
    return [sys.executable, "-I", *(["-B"] if sys.dont_write_bytecode else []), "-c", f"{first}\n{program}", *arguments]


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that does what `python -m` does with this module and these arguments, and is isolated."""
    program = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return isolated_command(program, *arguments)


class ProcessEnded(Exception):
    """A process of our own ended, or was ended, before it had answered."""


class OwnProcess:
    """A process that calls functions of ours. It is started when first needed, and again after it has ended.

    It ends when this process does.
    """

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, function: Callable[..., T], *arguments: object, seconds: float | None = None) -> T:
        """What `function` returns there. Function and arguments are pickled, and so is the result.

        Raises `ProcessEnded` if the process ends, as it does after `seconds`, and what the function raises.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(seconds or 0.0, _kill, [process])
        if seconds is not None:
            timer.start()
        try:
            # Pickle is safe here: this is our own data, on its way to a process of our own.
            pickle.dump((function, arguments), process.stdin)
            process.stdin.flush()
            found, error, where = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            raise ProcessEnded from None
        finally:
            timer.cancel()
        if error is not None:
            raise error from RuntimeError(where)
        result: T = found
        return result

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._process = subprocess.Popen(
            isolated_command(f"from {__name__} import serve_calls; serve_calls()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_HERE,  # some packages read settings from the current folder
            start_new_session=True,  # Ctrl-C is meant for this process, and its children end with it
        )
        return self._process

    def close(self) -> None:
        """End the process, if there is one, and what it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what was not sent yet
                if pipe is not None:
                    pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:  # its number may be another process's by now
        return
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


class OwnProcesses:
    """A pool of `count` such processes. A context manager, which ends them."""

    def __init__(self, count: int) -> None:
        """Nothing is started yet."""
        self._threads, self._every = ThreadPoolExecutor(count), [OwnProcess() for _ in range(count)]
        self._free: queue.SimpleQueue[OwnProcess] = queue.SimpleQueue()
        for process in self._every:
            self._free.put(process)

    def __enter__(self) -> OwnProcesses:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what was submitted, or drop it after an exception; then end the processes."""
        if error is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._close_processes()
        self._threads.shutdown()
        self._close_processes()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have one of the processes call this function, as `OwnProcess.call` does. Only positional arguments."""
        return self._threads.submit(self._call, function, *args)

    def _call(self, function: Callable[..., T], *arguments: object) -> T:
        process = self._free.get()
        try:
            return process.call(function, *arguments)
        finally:
            self._free.put(process)

    def _close_processes(self) -> None:
        for process in self._every:
            process.close()


def serve_calls() -> None:
    """Call what arrives on standard input, and answer with what came out, until it is closed. Runs in the process."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed does not get among the answers
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _answer_call(requests, answers)


def _answer_call(requests: BinaryIO, answers: BinaryIO) -> None:
    function, arguments = pickle.load(requests)
    try:
        answer = pickle.dumps((function(*arguments), None, ""))
    except Exception as error:
        where = traceback.format_exc()
        try:
            pickle.loads(answer := pickle.dumps((None, error, where)))
        except Exception:  # not every exception can be pickled
            answer = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}"), where))
    answers.write(answer)
    answers.flush()
