"""Results that do not come to an end are told from functions that do not."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from graders.probing.asking import answer_probe
from graders.probing.endless_results import Clock
from graders.probing.forked import ForkedProbes
from graders.sandbox.inside.kernel import run_probe
from graders.wire import forking
from graders.wire.frames import Frame
from tests.probing.test_asking import notebook, probed

SECONDS = 0.5
WITHIN_4_TENTHS = "its result does not end within 0.4 seconds; return a list"
alarms = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="takes a signal that comes at a time")


def read_by(reading: Callable[[Any], Any], cell: str, **draw: Any) -> dict[str, Any]:
    """The head of the answer of a probe that reads the result of `f` like this."""
    found = answer_probe(lambda student: reading(student.f()), notebook(cell), draw, 1, clock=Clock(SECONDS))
    return found.head


def endless(message: str) -> dict[str, Any]:
    return {"type": "raised", "status": "over-limit", "message": message}


@pytest.mark.parametrize(
    "expression",
    ["itertools.count()", "(0 for _ in itertools.repeat(0))", "map(abs, itertools.cycle([1]))", "iter(int, 1)",
     "enumerate(itertools.count())"],
)  # fmt: skip
def test_an_iterator_of_python_s_own_is_read_so_far(expression: str) -> None:
    found = probed(f"import itertools\ndef f(x):\n    return {expression}", lambda student, x: list(student.f(x)), x=1)
    assert found.head == endless("its result does not end within 4000 values; return a list")


def test_an_iterator_with_an_end_can_be_read_and_keeps_its_name() -> None:
    cell = "def f(x):\n    return map(abs, [-x, x])"
    assert probed(cell, lambda student, x: list(student.f(x)), x=1).head["tree"] == {"l": [1, 1]}
    assert probed(cell, x=1).head["tree"]["x"][0] == "map"


def last(values: Any) -> Any:
    """Reads to the end, and keeps nothing."""
    for _ in values:
        continue
    return None


ENDLESS = {
    "an iterator": (last, "class E:\n    def __iter__(self): return self\n    def __next__(self): return 1"),
    "a list of an iterator that sleeps": (
        list, "import time\nclass E:\n    def __iter__(self): return self\n    def __next__(self): time.sleep(0.05)"
    ),
    "an iterator that never answers": (
        list, "class E:\n    def __iter__(self): return self\n    def __next__(self):\n        while True: pass"
    ),
    "an iterable without a length": (last, "class E:\n    def __iter__(self):\n        while True: yield 1"),
    "a sequence without a length": (last, "class E:\n    def __getitem__(self, index): return index"),
    "a length that does not come": (len, "class E:\n    def __len__(self):\n        while True: pass"),
    "the view of a dict": (
        lambda found: last(found.items()),
        "class E(dict):\n    def items(self):\n        while True: yield 1, 1",
    ),
    "the view of a mapping": (
        lambda found: last(found.items()),
        "from collections.abc import Mapping\nclass E(Mapping):\n    def __getitem__(self, key): return 1\n"
        "    def __len__(self): return 1\n    def __iter__(self):\n        while True: yield 1",
    ),
    "a generator that sleeps": (list, "import time\ndef E():\n    while True:\n        yield time.sleep(0.05)"),
    "a set of what is never equal": (
        lambda found: found == 1, "class E:\n    def __eq__(self, other):\n        while True: pass"
    ),
}  # fmt: skip


@alarms
@pytest.mark.parametrize("kind", ENDLESS)
def test_what_is_still_being_read_when_the_time_is_nearly_over_has_no_end(kind: str) -> None:
    reading, cell = ENDLESS[kind]
    started = time.monotonic()
    assert read_by(reading, cell + "\ndef f(): return E()") == endless(WITHIN_4_TENTHS)
    assert time.monotonic() - started < 10


@pytest.mark.skipif(not forking.can_fork, reason="needs a fork")
def test_a_forked_probe_says_it_before_it_is_ended() -> None:
    names = notebook("class E:\n    def __getitem__(self, index): return 1\ndef f(): return E()")
    source = "def probe(student):\n    return sum(1 for _ in student.f())"
    head = {"type": "probe", "source": source, "draw": {"d": []}, "seed": 1, "seconds": 3.0, "pace": 2.0}
    probes = ForkedProbes(lambda request: run_probe(names, request))
    found = probes.answer("90-a", Frame(head), 3.0, 2.0)
    probes.end()
    assert found.head == endless("its result does not end within 1.2 seconds; return a list")


@alarms
def test_a_function_that_is_still_running_then_goes_on() -> None:
    cell = "import time\ndef f():\n    time.sleep(0.6)\n    return sum(1 for _ in range(3))"
    assert read_by(lambda found: found, cell)["tree"] == 3
    reads_its_own = (
        "import time\nclass E:\n    def __len__(self):\n        time.sleep(0.6)\n        return 3\n"
        "def f(): return len(E())"
    )
    assert read_by(lambda found: found, reads_its_own)["tree"] == 3


@alarms
def test_a_hook_that_is_slow_is_no_endless_result() -> None:
    cell = (
        "import time, torch\nclass Hook:\n    def __call__(self, grad): time.sleep(0.6)\n"
        "def f():\n    x = torch.ones(2, requires_grad=True)\n    x.register_hook(Hook())\n    return x"
    )
    assert read_by(lambda x: x.sum().backward(), cell)["type"] == "seen"


@alarms
def test_nothing_of_the_clock_is_left() -> None:
    before = signal.getsignal(signal.SIGALRM)
    read_by(lambda found: found, "def f(): return 1")
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_memory_that_runs_out_while_it_is_read_is_its_own_too() -> None:
    cell = (
        "class E:\n    def __iter__(self): return self\n    def __next__(self): raise MemoryError\ndef f(): return E()"
    )
    assert read_by(list, cell) == endless("its result does not end within the available memory; return a list")
    assert read_by(list, "def f(): raise MemoryError")["message"].startswith("memory")
