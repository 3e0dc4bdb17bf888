"""Strangers' notebooks in tiers A and B: what they try, what they get, and what must not happen.

Each case is one cell that runs before the answers. `LEAKS` try to reach what must be out of reach, and hand in right
answers only if they succeed: points would mean that a wall is down. `CHEATS` hand in wrong answers and try to have
them taken for right. `ODDITIES` are honest and keep their marks. `DAMAGE` costs what depends on it, no more.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from graders.box.limits import Limits
from graders.core.results import SubmissionResult
from graders.marking import Marking, kit_folder
from graders.run.submissions import Submission
from graders.run.tiers import missing
from tests import make_class
from tests.answers import lesson_01

pytestmark = pytest.mark.slow  # about 170 notebooks, of which many run until a clock stops them

LESSON = "01_where_gradients_live"
KEYS = ("01-branch-grads", "01-chain-grads", "01-per-pass-grads")
RIGHT = [lesson_01.RIGHT[key][0] for key in KEYS]
WRONG = [next(iter(lesson_01.WRONG[key].values())) for key in KEYS]
MOST = 4.0

LEAKS = {
    "reads a file outside": "leaked = bool(open({secret!r}).read())",
    "writes a file outside": "open({outside!r}, 'w').write('x')\nleaked = True",
    "deletes a file outside": "import os\nos.unlink({outside!r})\nleaked = True",
    "makes a file beside the submissions": "open({folder!r} + '/planted.py', 'w').write('x')\nleaked = True",
    "reads another submission": "leaked = 'def branch_grads' in open({neighbour!r}).read()",
    "finds solutions or graders on disk": (
        "import glob, os, sys\n"
        "roots = [*sys.path, os.path.expanduser('~'), {package!r}, {package!r} + '/..']\n"
        "found = [f for root in roots for f in glob.glob(root + '/**/test_01_where*.py', recursive=True)\n"
        "         + glob.glob(root + '/**/01_where*.py', recursive=True)]\n"
        "leaked = any(open(f).read() for f in found)"
    ),
    "imports the graders": "import graders.test_01_where_gradients_live\nleaked = True",
    "imports the judge": "import graders.judge.mark\nleaked = True",
    "finds expected values in memory": (
        "import gc\nleaked = any(type(o).__name__ in ('Exercise', 'Mistake', 'Check') for o in gc.get_objects())"
    ),
    "reads the environment of the grader": (
        "import glob, os\n"
        "leaked = 'HOOKWORK_TEST_SECRET' in os.environ\n"
        "for name in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try:\n        leaked |= b'HOOKWORK_TEST_SECRET' in open(name, 'rb').read()\n    except OSError:\n        pass"
    ),
    "reads through the parent's cwd and root": (
        "import os\nleaked = False\n"
        "for pid in (1, os.getppid()):\n"
        "    for way in ('cwd', 'root'):\n"
        "        try:\n            leaked |= os.path.exists(f'/proc/{{pid}}/{{way}}{secret}')\n"
        "            leaked |= bool(open(f'/proc/{{pid}}/root{secret}').read())\n        except OSError:\n            pass"
    ),
    "connects to a server on this machine": (
        "import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)\nleaked = True"
    ),
    "sends a datagram": (
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.sendto(b'x', ('127.0.0.1', {port}))\nleaked = True"
    ),
    "opens a server": "import socket\nsocket.create_server(('127.0.0.1', 0))\nleaked = True",
    "connects to an abstract socket": (
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({abstract!r})\nleaked = True"
    ),
    "signals the grader": "import os, signal\nos.kill({pid}, 0)\nleaked = True",
    "reads the grader's memory": "open('/proc/{pid}/mem', 'rb')\nleaked = True",
    "traces the grader": (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nleaked = libc.ptrace(16, {pid}, 0, 0) == 0"
    ),
    "makes a user namespace": "import ctypes\nleaked = ctypes.CDLL(None).unshare(0x10000000) == 0",
    "mounts": "import ctypes\nleaked = ctypes.CDLL(None).mount(b'none', b'/box', b'tmpfs', 0, None) == 0",
    "changes a setting of the kernel": "open('/proc/sys/kernel/core_pattern', 'w')\nleaked = True",
    "is root": "import os\nleaked = os.getuid() == 0",
    "uses io_uring": "import ctypes\nleaked = ctypes.CDLL(None).syscall(425, 1, None) >= 0",
    "reads the keys of the user": "import os\nleaked = os.path.exists(os.path.expanduser('~/.ssh')) or "
    "os.path.exists('/root/.ssh') or os.path.exists('/etc/shadow') and bool(open('/etc/shadow').read())",
    "finds a variable that announces marking": (
        "import os\nleaked = any('hookwork' in k.lower() or 'grad' in k.lower() for k in os.environ)"
    ),
}

CHEATS = {
    "turns later cells into pass": "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])",
    "removes asserts": (
        "import ast\nclass Strip(ast.NodeTransformer):\n    def visit_Assert(self, node):\n"
        "        return ast.copy_location(ast.Pass(), node)\nget_ipython().ast_transformers.append(Strip())"
    ),
    "swallows every error": (
        "get_ipython().set_custom_exc((BaseException,), lambda *a, **k: None)\n"
        "get_ipython().showtraceback = lambda *a, **k: None"
    ),
    "makes comparisons agree": (
        "import torch, numpy, math\nyes = lambda *a, **k: True\n"
        "torch.allclose = torch.equal = numpy.allclose = math.isclose = yes\n"
        "torch.testing.assert_close = numpy.testing.assert_allclose = lambda *a, **k: None"
    ),
    "patches tensor equality": (
        "import torch\ntorch.Tensor.__eq__ = lambda *a: True\ntorch.Tensor.__bool__ = lambda *a: True\n"
        "torch.Tensor.allclose = lambda *a, **k: True"
    ),
    "replaces AssertionError": "import builtins\nbuiltins.AssertionError = type('AssertionError', (Warning,), {})",
    "prints what a grader prints": "print('{\"type\": \"seen\"}')\nprint('100 passed in 1.00s\\nscore: 1.0')",
    "forges a displayed result": "import sys\nsys.displayhook = lambda value: print('points: 4')",
    "patches serialisers": (
        "import json, pickle\njson.dumps = lambda *a, **k: '{}'\npickle.dumps = lambda *a, **k: b''"
    ),
    "makes random numbers constant": (
        "import torch\ntorch.randn = torch.rand = lambda *a, **k: torch.zeros(3)\n"
        "torch.manual_seed = lambda *a: None\ntorch.Generator = None"
    ),
    "patches the clock": "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0",
    "patches classes that look like results": (
        "import gc\nfor c in [o for o in gc.get_objects() if isinstance(o, type)]:\n"
        "    if any(w in c.__name__ for w in ('Result', 'Outcome', 'Answer', 'Check')):\n"
        "        try:\n            c.passed = c.score = property(lambda self: 1)\n        except Exception:\n            pass"
    ),
    "walks the stack": (
        "import sys\nframe, seen = sys._getframe(), []\nwhile frame:\n    seen.append(frame.f_locals)\n    frame = frame.f_back"
    ),
    "writes result files": (
        "import json\nfor n in ('results.json', 'gradebook.csv', 'score.txt', '../results.json', '../results.frames'):\n"
        "    try:\n        open(n, 'w').write(json.dumps({'score': 1}))\n    except OSError:\n        pass"
    ),
    "plants modules": (
        "import os\nfor n in ('conftest.py', 'torch.py', 'sitecustomize.py', 'graders.py', 'nbclient.py'):\n"
        "    open(n, 'w').write('raise SystemExit')\n"
        "os.makedirs(os.path.expanduser('~/.ipython/profile_default/startup'), exist_ok=True)\n"
        "open(os.path.expanduser('~/.ipython/profile_default/startup/x.py'), 'w').write('1/0')"
    ),
    "floods comms": (
        "from ipykernel.comm import Comm\nfor i in range(50):\n    Comm(target_name='x' * 100, data={'a': [i] * 10})"
    ),
    "writes frames to descriptors": (
        "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00{}')\n"
        "    except OSError:\n        pass"
    ),
}

ODDITIES = {
    "another default dtype": "import torch\ntorch.set_default_dtype(torch.float64)",
    "no grad mode": "import torch\ntorch.set_grad_enabled(False)",
    "many threads": "import torch\ntorch.set_num_threads(16)\nx = torch.randn(256, 256)\nx @ x",
    "warnings as errors": "import warnings, logging\nwarnings.simplefilter('error')\nlogging.disable()",
    "a replaced stdout": "import sys, io\nsys.stdout = sys.stderr = io.StringIO()",
    "no stderr": "import sys\nsys.stderr = None",
    "global hooks": (
        "from torch.nn.modules.module import register_module_forward_hook\n"
        "register_module_forward_hook(lambda m, a, o: o * 2)"
    ),
    "a default device": "import torch\ntorch.set_default_device('meta')",
    "an active function mode": (
        "from torch.overrides import TorchFunctionMode\n"
        "class Mode(TorchFunctionMode):\n    def __torch_function__(self, f, t, a=(), k=None):\n"
        "        return f(*a, **(k or {}))\nMode().__enter__()"
    ),
    "many figures": "import matplotlib.pyplot as plt\nfor _ in range(30):\n    plt.figure()\nplt.show()",
    "magics": "%matplotlib inline\nx = 1\n%time x + 1\n!echo hello",
    "workers of a DataLoader": (
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "n = sum(len(b[0]) for b in DataLoader(TensorDataset(torch.zeros(8, 2)), batch_size=2, num_workers=2))\n"
        "assert n == 8"
    ),
    "files in HOME": "import os\nopen(os.path.expanduser('~/notes.txt'), 'w').write('x' * 1000)",
    "temporary files": "import tempfile\nwith tempfile.NamedTemporaryFile() as f:\n    f.write(b'x' * 1000)",
    "a lot of text": "print('x' * 1_500_000)",
    "top-level await": "import asyncio\nawait asyncio.sleep(0.01)",
    "a late thread": (
        "import threading, time, torch\n"
        "def late():\n    time.sleep(1)\n    torch.Tensor.backward = None\nthreading.Thread(target=late, daemon=True).start()"
    ),
    "an atexit handler": "import atexit, os\natexit.register(lambda: os.write(1, b'late'))",
    "a daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(300)\n    os._exit(0)"
    ),
    "locked folders": "import os\nos.makedirs('a/b/c')\nos.chmod('a/b', 0)\nos.chmod('a', 0)",
    "a deep tree": "import os\nhere = os.getcwd()\nfor _ in range(1200):\n    os.mkdir('d'); os.chdir('d')\nos.chdir(here)",
    "shared memory": "open('/dev/shm/hookwork-test-left', 'wb').write(b'x' * 1000)",
    "pipes and links": "import os\nos.mkfifo('pipe')\nos.symlink('/etc/passwd', 'link')",
    "an error": "1 / 0",
    "an exit": "raise SystemExit(0)",
    "a keyboard interrupt": "raise KeyboardInterrupt",
    "a question": "input('name?')",
    "a breakpoint": "breakpoint()",
    "an exception chain": (
        "error = None\nfor i in range(2000):\n    new = ValueError(i)\n    new.__cause__ = error\n    error = new\nraise error"
    ),
    "an exit of the process": "import os\nos._exit(0)",
    "a kill": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "a segmentation fault": "import ctypes\nctypes.string_at(0)",
    "another program": "import os\nos.execvp('echo', ['echo', 'score: 1'])",
    "a file too large": "f = open('big', 'wb')\nwhile True:\n    f.write(b'0' * 1_000_000)",
    "memory without end": "import torch\nkept = []\nwhile True:\n    kept.append(torch.ones(10_000_000))",
    "an endless loop": "while True:\n    pass",
    "an endless loop that swallows interrupts": (
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
    ),
    "sleep": "import time\ntime.sleep(1000)",
    "a stop": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "forks without end": "import os\nwhile True:\n    os.fork()",
    "files without end": "for i in range(100_000):\n    open(f'f{i}', 'w').close()",
    "text without end": "while True:\n    print('x' * 10_000)",
}

DAMAGE = {  # source of the first answer, and the status it costs that exercise
    "loops": ("def branch_grads(w, x):\n    while True:\n        pass", "timed-out"),
    "exits": ("def branch_grads(w, x):\n    import os\n    os._exit(0)", "crashed"),
    "crashes": ("def branch_grads(w, x):\n    import ctypes\n    ctypes.string_at(0)", "crashed"),
    "returns a giant": ("import torch\ndef branch_grads(w, x):\n    return torch.zeros(50_000_000)", "over-limit"),
    "takes all memory": (
        "import torch\ndef branch_grads(w, x):\n    kept = []\n    while True:\n        kept.append(torch.ones(10_000_000))",
        "over-limit",
    ),
    "raises a BaseException": ("def branch_grads(w, x):\n    raise GeneratorExit", "raised"),
    "returns a subclass": (
        "import torch\nclass Yes(torch.Tensor):\n    @classmethod\n"
        "    def __torch_function__(cls, f, t, a=(), k=None):\n        return True\n"
        "def branch_grads(w, x):\n    return {n: torch.zeros(3).as_subclass(Yes) for n in 'wxab'}",
        "wrong",
    ),
    "returns what equals everything": (
        "class Yes:\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return 1\n"
        "def branch_grads(w, x):\n    return {n: Yes() for n in 'wxab'}",
        "wrong",
    ),
    "returns what runs when unpickled": (
        "class Bomb:\n    def __reduce__(self):\n        import os\n        return os.system, ('touch bomb',)\n"
        "def branch_grads(w, x):\n    return Bomb()",
        "wrong",
    ),
    "returns NaN": ("def branch_grads(w, x):\n    return {n: w.detach() * float('nan') for n in 'wxab'}", "wrong"),
    "returns another dtype": ("def branch_grads(w, x):\n    return {n: (w > 0) for n in 'wxab'}", "wrong"),
    "returns meta tensors": ("def branch_grads(w, x):\n    return {n: w.detach().to('meta') for n in 'wxab'}", "wrong"),
    "returns sparse tensors": (
        "def branch_grads(w, x):\n    return {n: w.detach().reshape(-1).to_sparse() for n in 'wxab'}",
        "wrong",
    ),
    "prints without end": ("def branch_grads(w, x):\n    while True:\n        print('x' * 10000)", "timed-out"),
    "is no function": ("branch_grads = 3", "raised"),
    "hides bidi in its error": (
        "def branch_grads(w, x):\n    raise ValueError('\\u202e\\x1b]0;title\\x07=1+1 <script>alert(1)</script>')",
        "raised",
    ),
}


@dataclass
class Outcome:
    """What a tier made of all cases, and of the canaries."""

    results: dict[str, SubmissionResult] = field(default_factory=dict)
    visitors: int = 0
    outside: str = ""
    planted: bool = False
    folders: set[str] = field(default_factory=set)
    processes: str = ""
    shared: bool = False


@pytest.fixture(scope="module", params=["A", "B"])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All cases, run once in a tier, two at a time."""
    tier: str = request.param
    if reason := missing(tier):
        pytest.skip(f"tier {tier} cannot be tried here: {reason}")
    folder = tmp_path_factory.mktemp(f"tier{tier}")
    folder.chmod(0o755)
    outside, secret = folder / "outside.txt", folder / "secret.txt"
    for file in (outside, secret):
        file.write_text("kept")
        file.chmod(0o666)
    os.environ["HOOKWORK_TEST_SECRET"] = "token"
    with tempfile.TemporaryDirectory(prefix="t") as own:  # boxes of others on this machine are not counted
        os.chmod(own, 0o755)
        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(tempfile, "tempdir", own)
        found = run_cases(tier, folder, outside, secret)
        found.folders = {path.name for path in Path(own).iterdir()}
        monkeypatch.undo()
    del os.environ["HOOKWORK_TEST_SECRET"]
    found.outside = outside.read_text() if outside.exists() else "deleted"
    found.planted = (folder / "planted.py").exists()
    found.shared = Path("/dev/shm/hookwork-test-left").exists()
    return found


def run_cases(tier: str, folder: Path, outside: Path, secret: Path) -> Outcome:
    """Mark all notebooks of the catalogue, with a silent listener of each kind."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        kit_folder() as kit,
    ):
        name = f"\0hookwork-test-{os.getpid()}-{tier}"
        abstract.bind(name)
        abstract.listen()
        cases = notebooks(folder, outside, secret, server.getsockname()[1], name)
        limits = Limits(cell_seconds=5, probe_seconds=3, memory=1500 << 20)
        marking = Marking(3, limits, 2, kit, tier=tier)
        found = Outcome()
        by_file = {str(file): case for case, file in cases.items()}
        submissions = [Submission(file.parent.name, LESSON, file) for file in cases.values()]
        marking.start(submissions, lambda result: found.results.update({by_file[result.file]: result}))
        marking.close()
        for listener in (server, abstract):
            listener.settimeout(0.05)
            try:
                listener.accept()
                found.visitors += 1
            except TimeoutError:
                continue
        listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
        found.processes = "\n".join(line for line in listed.splitlines() if str(kit) in line)
    return found


def notebooks(folder: Path, outside: Path, secret: Path, port: int, abstract: str) -> dict[str, Path]:
    """One notebook for each case."""
    neighbour = make_class.hand_in(folder / "neighbour", LESSON, [make_class.SETUP, *RIGHT])
    package = str(Path(__file__).parents[2] / "graders")
    values = {"outside": str(outside), "secret": str(secret), "port": port, "abstract": abstract, "pid": os.getpid(),
              "folder": str(folder), "neighbour": str(neighbour), "package": package}  # fmt: skip
    cases = {"neighbour": neighbour}

    def hand_in(case: str, cells: list[str]) -> None:
        cases[case] = make_class.hand_in(folder / f"case{len(cases)}", LESSON, [make_class.SETUP, *cells])

    for case, source in LEAKS.items():
        source = source.format(**values)
        answers = f"exec({RIGHT!r}[i] if leaked else {WRONG!r}[i], globals())"
        hand_in(case, ["leaked = False", source, f"for i in range(3):\n    {answers}"])
    for case, source in CHEATS.items():
        hand_in(case, [source, *WRONG])
    for case, source in ODDITIES.items():
        hand_in(case, [source, *RIGHT])
    for case, (source, _) in DAMAGE.items():
        hand_in(f"an answer that {case}", [source, *RIGHT[1:]])
    return cases


def statuses(result: SubmissionResult) -> list[str]:
    return [exercise.status.value for exercise in result.exercises]


@pytest.mark.parametrize("case", LEAKS)
def test_what_must_be_out_of_reach_is(outcome: Outcome, case: str) -> None:
    result = outcome.results[case]
    assert (result.status.value, result.score) == ("graded", 0)
    assert statuses(result) == ["wrong", "wrong", "wrong"]


@pytest.mark.parametrize("case", CHEATS)
def test_cheats_earn_nothing(outcome: Outcome, case: str) -> None:
    result = outcome.results[case]
    assert (result.status.value, result.score) == ("graded", 0)
    assert "passed" not in statuses(result)


@pytest.mark.parametrize("case", ODDITIES)
def test_honest_oddities_keep_their_marks(outcome: Outcome, case: str) -> None:
    result = outcome.results[case]
    assert (result.score, statuses(result)) == (MOST, ["passed"] * 3), result.exercises


@pytest.mark.parametrize("case", DAMAGE)
def test_a_bad_answer_costs_itself_alone(outcome: Outcome, case: str) -> None:
    result = outcome.results[f"an answer that {case}"]
    assert statuses(result) == [DAMAGE[case][1], "passed", "passed"], result.exercises[0]
    message = result.exercises[0].message
    assert not any(character in message for character in "\x1b\x07\u202e")


def test_the_neighbour_comes_out_right(outcome: Outcome) -> None:
    assert outcome.results["neighbour"].score == MOST


def test_the_canaries_are_alive(outcome: Outcome) -> None:
    assert (outcome.visitors, outcome.outside, outcome.planted) == (0, "kept", False)


def test_nothing_is_left(outcome: Outcome) -> None:
    assert (outcome.folders, outcome.processes, outcome.shared) == (set(), "", False)
