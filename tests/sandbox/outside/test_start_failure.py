from __future__ import annotations

import pytest

from graders.sandbox.outside.start_failure import explain_start_failure

DIED = """\
Traceback (most recent call last):
  File "session.py", line 251, in start
RuntimeError: Kernel died before replying to kernel_info (exit code 1)
"""


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        ("ImportError: libtorch_cpu.so: failed to map segment from shared object", "memory"),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", "memory"),
        ("OSError: [Errno 12] Cannot allocate memory", "memory"),
        ("MemoryError", "memory"),
        ("ZMQError: Too many open files (addr='ipc:///box/k1-ipc-1')", "open files"),
        ("RuntimeError: can't start new thread", "processes"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "processes"),
        ("OSError: [Errno 28] No space left on device", "disk"),
        ("OSError: [Errno 27] File too large", "size of files"),
        ("OSError: AF_UNIX path too long", "length of a path"),
        ("ModuleNotFoundError: No module named 'ipykernel'", "missing package"),
        ("ImportError: libgomp.so.1: cannot open shared object file", "broken package"),
    ],
)
def test_the_kernels_own_error_names_the_limit_and_comes_with_a_remedy(error: str, limit: str) -> None:
    found = explain_start_failure(f"Traceback (most recent call last):\n  File kernel.py\n{error}\n{DIED}")
    assert found.startswith(f"{limit}: {error}. Remedy: ")


@pytest.mark.parametrize(
    "error", ["Error: hookwork: image not known", "docker: Error response from daemon: No such image: hookwork:latest."]
)
def test_where_there_is_no_image_it_says_how_to_make_one(error: str) -> None:
    assert explain_start_failure(error) == (
        f"missing image: {error}. Remedy: build it with `hookwork autograder container`, or set the variable "
        "HOOKWORK_IMAGE to its name"
    )


def test_root_that_may_not_read_everything_learns_what_to_open() -> None:
    said = "graders.sandbox.inside.confine.CannotConfine: [Errno 1] capabilities: Operation not permitted"
    assert explain_start_failure(said).startswith(f"closed folder: {said}. Remedy: other users may not enter")


def test_a_kernel_that_a_signal_ended_left_no_error_of_its_own() -> None:
    killed = "RuntimeError: Kernel died before replying to kernel_info (signal {})"
    assert explain_start_failure(killed.format("SIGILL")).startswith(f"processor: {killed.format('SIGILL')}. Remedy: ")
    assert explain_start_failure(killed.format("SIGKILL")).startswith(
        f"{killed.format('SIGKILL')}. Remedy: the system ended it"
    )
    assert explain_start_failure(killed.format("SIGSEGV")) == killed.format("SIGSEGV")


def test_what_is_not_known_is_quoted() -> None:
    assert explain_start_failure("one\nline and another\n") == "line and another"
    assert explain_start_failure("ValueError: seven\n" + DIED) == "ValueError: seven"
    assert explain_start_failure("") == "it left no message"
    assert len(explain_start_failure("x" * 10_000)) == 200
