"""What strangers' notebooks try: a case for each, with the statuses that its three exercises must get.

Names with a prefix such as `res_` are those of the catalogue in which such attacks are collected; `BEYOND` are ours.
Every notebook begins with a cell that defines the canaries: SECRET and OUTSIDE (files), FOLDER (of the submissions),
GRADEBOOK, NEIGHBOUR (another submission), HOME (with keys in it), PORT, ABSTRACT, SOCKETS and DATAGRAMS (listeners),
GRADER (its pid), PACKAGE, AMONG_PYTHON (a folder in the environment, with a submission and a gradebook).
"""

from __future__ import annotations

from dataclasses import dataclass

from graders.wire.limits import MIB, Limits
from tests.answers import answers_of

LESSON_1 = answers_of("01")

LESSON = "01_where_gradients_live"
KEYS = ("01-branch-grads", "01-chain-grads", "01-per-pass-grads")
RIGHT = [LESSON_1.right[key][0] for key in KEYS]
WRONG = [next(iter(LESSON_1.wrong[key].values())) for key in KEYS]

AMPLE = Limits(memory=1500 * MIB)
"""For notebooks that come to an end by themselves, on a busy machine, too."""
SHORT = Limits(cell_seconds=4, probe_seconds=3, memory=1500 * MIB)
"""For notebooks that a clock has to stop."""
BRIEF = Limits(cell_seconds=4, probe_seconds=3, notebook_seconds=10, memory=1500 * MIB)
"""For those that stop the process that keeps the clock inside."""
SMALL = Limits(memory=1000 * MIB)
TINY = Limits(memory=128 * MIB)
"""With those of our own processes, 896 MiB for all of them."""


@dataclass(frozen=True)
class Case:
    """The cells of a notebook, and for each exercise the status that it must get; `|` separates alternatives."""

    cells: tuple[str, ...]
    statuses: tuple[str, str, str]
    limits: Limits = AMPLE


FULL = ("passed", "passed", "passed")
NOTHING_RIGHT = "wrong|raised|not-attempted|syntax-error|suspect|over-limit|crashed|timed-out"


def honest(source: str, limits: Limits = AMPLE) -> Case:
    """Odd, but followed by right answers: keeps its marks."""
    return Case((source, *RIGHT), FULL, limits)


def leak(source: str) -> Case:
    """Sets `leaked` when it reached what must be out of reach, and only then hands in right answers."""
    answers = f"for i in range(3):\n    exec({RIGHT!r}[i] if leaked else {WRONG!r}[i], globals())"
    return Case(("leaked = False", source, answers), ("wrong", "wrong", "wrong"))


def cheat(source: str) -> Case:
    """Tries to have wrong answers taken for right ones."""
    return Case((source, *WRONG), (NOTHING_RIGHT, NOTHING_RIGHT, NOTHING_RIGHT))


def damage(status: str, source: str, limits: Limits = AMPLE) -> Case:
    """The cell of the first answer does harm; it costs that answer, and nothing else."""
    return Case((source, *RIGHT[1:]), (status, "passed", "passed"), limits)


def in_cell(status: str, source: str, limits: Limits = AMPLE) -> Case:
    """The harm is done above the first answer, in its cell."""
    return damage(status, source + "\n" + RIGHT[0], limits)


def fatal(status: str, source: str, limits: Limits = AMPLE) -> Case:
    """Takes the whole notebook with it."""
    return Case((source, *RIGHT), (status, status, status), limits)


def in_function(body: str) -> str:
    """A first answer with this body."""
    return "def branch_grads(w, x):\n" + "\n".join("    " + line for line in body.splitlines())


# Writes to NAMES what the kernel refused with EPERM (or does not know), and leaks when it allowed anything.
REFUSED = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def refused(*arguments):
    ctypes.set_errno(0)
    result = libc.syscall(*arguments)
    return result == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
leaked = not all(refused(*one) for one in {calls})
"""
HIDDEN = "leaked = False\nfor way in {ways}:\n    try:\n        leaked |= bool(open(way, 'rb').read(1))\n    except OSError:\n        pass"
FAMILY = "import socket\nleaked = False\nfor family, kind in {families}:\n    try:\n        socket.socket(family, kind); leaked = True\n    except OSError:\n        pass"

BASELINE = {
    "ok_reference": honest("x = 1"),
    "ok_wrong": Case(tuple(WRONG), ("wrong", "wrong", "wrong")),
    "ok_partial": damage("raised", in_function("raise ValueError('no')")),
    "ok_stub": damage("not-attempted", in_function("raise NotImplementedError")),
    "ok_syntax_error": damage("syntax-error", "def branch_grads(w, x)\n    return 1"),
    "ok_extra_cells": Case((*RIGHT, "1 / 0", "branch_grads(1)", "raise SystemExit"), FULL),
}

RESOURCE = {
    "res_infinite_loop": in_cell("timed-out", "while True:\n    pass", SHORT),
    "an endless loop that swallows interrupts": in_cell(
        "timed-out",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        SHORT,
    ),
    "an endless loop in a cell of its own": honest("while True:\n    pass", SHORT),
    "res_loop_in_function": damage("timed-out", in_function("while True:\n    pass"), SHORT),
    "res_sleep": in_cell("timed-out", "import time\ntime.sleep(1000)", SHORT),
    "res_infinite_output": in_cell("over-limit", "while True:\n    print('x' * 10_000)"),
    "text without end from a function": damage("timed-out", in_function("while True:\n    print('x' * 10000)"), SHORT),
    "res_giant_result": damage("over-limit", "import torch\n" + in_function("return torch.zeros(50_000_000)")),
    "res_memory_torch": in_cell(
        "over-limit", "import torch\nkept = []\nwhile True:\n    kept.append(torch.ones(10_000_000))"
    ),
    "memory without end in a function": damage(
        "over-limit",
        "import torch\n" + in_function("kept = []\nwhile True:\n    kept.append(torch.ones(10_000_000))"),
    ),
    "res_fork_bomb": in_cell("over-limit", "import os\nwhile True:\n    os.fork()"),
    "res_thread_bomb": in_cell(
        "over-limit", "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,)).start()"
    ),
    "res_many_files": in_cell(
        "over-limit", "for i in range(100_000):\n    open(f'f{i}', 'w').close()\nwhile True: pass"
    ),
    "a file too large": in_cell("over-limit", "f = open('big', 'wb')\nwhile True:\n    f.write(b'0' * 1_000_000)"),
    "res_deep_tree": honest(
        "import os\nhere = os.getcwd()\nfor _ in range(1200):\n    os.mkdir('d'); os.chdir('d')\nos.chdir(here)"
    ),
    "res_shm_leak": honest("open('/dev/shm/hookwork-test-left', 'wb').write(b'x' * 1000)"),
    "res_recursion": in_cell(
        "crashed|over-limit|not-attempted",
        "import sys\nsys.setrecursionlimit(10**9)\nclass R:\n    def __repr__(self):\n        return repr(self)\nrepr(R())",
    ),
    "res_bigint_print": in_cell("timed-out", "import sys\nsys.set_int_max_str_digits(0)\nprint(1 << 10**8)", SHORT),
}

PROCESS = {
    "proc_os_exit0": in_cell("crashed", "import os\nos._exit(0)"),
    "proc_sys_exit0": in_cell("not-attempted", "import sys\nsys.exit(0)"),
    "proc_keyboardinterrupt": in_cell("not-attempted", "raise KeyboardInterrupt"),
    "proc_segfault": in_cell("crashed", "import ctypes\nctypes.string_at(0)"),
    "proc_sigkill_self": in_cell("crashed", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
    "proc_exit_in_function": damage("crashed", in_function("import os\nos._exit(0)")),
    "a crash in a function": damage("crashed", in_function("import ctypes\nctypes.string_at(0)")),
    "proc_baseexception": damage("raised", in_function("raise GeneratorExit")),
    "a StopIteration": damage("raised", in_function("raise StopIteration")),
    # In tier A the parent is process 1, which no signal from inside ends.
    "proc_kill_parent": fatal("passed|crashed", "import os\nos.kill(os.getppid(), 9)"),
    "proc_sigstop": in_cell("timed-out", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", SHORT),
    "proc_exec_replace": in_cell("crashed", "import os\nos.execvp('echo', ['echo', 'score: 1'])"),
    "proc_daemon": honest(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1)\n"
        "        try:\n            open(OUTSIDE, 'w').write('late')\n        finally:\n            time.sleep(300)\n"
        "    os._exit(0)"
    ),
    "proc_atexit": cheat(
        "import atexit, os\natexit.register(lambda: os.write(1, b'score: 4'))\n"
        "class Late:\n    def __del__(self):\n        open('results.json', 'w').write('{\"score\": 4}')\nlate = Late()"
    ),
    "proc_input": in_cell("not-attempted", "input('name?')"),
    "proc_breakpoint": in_cell("not-attempted|passed", "breakpoint()"),
}

FILESYSTEM = {
    "fs_delete_outside": leak("import os\nos.unlink(OUTSIDE)\nleaked = True"),
    "fs_overwrite_outside": leak("open(OUTSIDE, 'w').write('x')\nleaked = True"),
    "reads a file outside": leak("leaked = bool(open(SECRET).read())"),
    "makes a file beside the submissions": leak("open(FOLDER + '/planted.py', 'w').write('x')\nleaked = True"),
    "reads another submission": leak("leaked = 'def branch_grads' in open(NEIGHBOUR).read()"),
    "executes another submission that lies among Python's own files": Case(
        (
            *WRONG,
            f"import json\nfor cell in json.load(open(AMONG_PYTHON + '/ada/{LESSON}.ipynb'))['cells']:\n    exec(cell['source'])",
        ),
        ("wrong", "wrong", "wrong"),
    ),
    "changes results that lie among Python's own files": leak(
        "f = open(AMONG_PYTHON + '/gradebook.csv', 'a')\nf.write('mallory')\nf.close()\nleaked = True"
    ),
    "fs_edit_gradebook": leak("f = open(GRADEBOOK, 'a')\nf.write('mallory,100')\nf.close()\nleaked = True"),
    "fs_read_solutions": leak(
        "import os, site, sys\n"
        "roots = {*sys.path, *site.getsitepackages(), os.path.expanduser('~'), PACKAGE, PACKAGE + '/..'}\n"
        "found = [at + '/' + f for root in roots for place in ('', '/graders', '/solutions', '/tests')\n"
        "         for at, _, files in os.walk(root + place) if place or root in (PACKAGE, PACKAGE + '/..') for f in files\n"
        "         if f.startswith(('test_01_where', '01_where', 'lesson_01'))]\n"
        "for f in found:\n    try:\n        leaked |= bool(open(f, 'rb').read(1))\n    except OSError:\n        pass"
    ),
    "fs_read_parent_cwd": leak(
        HIDDEN.format(
            ways="[f'/proc/{pid}/{way}{SECRET}' for pid in (1, os.getppid(), GRADER) "
            "for way in ('root', 'cwd/../../../../../..')]"
        ).replace("leaked", "import os\nleaked", 1)
    ),
    "fs_fake_results": cheat(
        "import json\nfor n in ('results.json', 'gradebook.csv', 'score.txt', '../results.json', '../results.frames'):\n"
        "    try:\n        open(n, 'w').write(json.dumps({'score': 1}))\n    except OSError:\n        pass"
    ),
    "fs_plant_conftest": cheat(
        "for n in ('conftest.py', 'pytest.ini', 'torch.py', 'sitecustomize.py', 'graders.py', 'nbclient.py'):\n"
        "    for where in ('', '../', '../../'):\n"
        "        try:\n            open(where + n, 'w').write('raise SystemExit')\n        except OSError:\n            pass"
    ),
    "fs_plant_home": honest(
        "import os\nhome = os.path.expanduser('~')\n"
        "for n in ('.ipython/profile_default/startup/x.py', 'ipython/profile_default/startup/x.py',\n"
        "          '.local/lib/python3.11/site-packages/usercustomize.py', '.config/matplotlib/matplotlibrc'):\n"
        "    os.makedirs(os.path.dirname(home + '/' + n), exist_ok=True)\n"
        "    assert not os.path.exists(home + '/' + n)\n    open(home + '/' + n, 'w').write('1/0')"
    ),
    "fs_symlink_out": honest(
        "import os\nfor n in ('results.json', 'gradebook.csv', 'out.ipynb'):\n    os.symlink(OUTSIDE, n)\n"
        "os.symlink(FOLDER, 'class')"
    ),
    "fs_fifo": honest("import os\nfor n in ('results.json', 'pipe', '../k9.json'):\n    os.mkfifo(n)"),
    "fs_chmod_workdir": honest(
        "import os\nos.makedirs('a/b/c')\nos.chmod('a/b', 0)\nos.chmod('a', 0)\nos.chmod('.', 0)"
    ),
    "fs_local_file": in_cell("not-attempted", "data = open('C:/Users/me/data.csv').read()"),
}

NETWORK = {
    "net_loopback": leak("import socket\nsocket.create_connection(('127.0.0.1', PORT), timeout=2)\nleaked = True"),
    "net_udp": leak(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.sendto(b'x', ('127.0.0.1', PORT))\nleaked = True"
    ),
    "net_listen": leak("import socket\nsocket.create_server(('127.0.0.1', 0))\nleaked = True"),
    "net_abstract_unix": leak("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(ABSTRACT)\nleaked = True"),
}

SECRETS = {
    "sec_environ": leak(
        "import glob, os\n"
        "leaked = 'HOOKWORK_TEST_SECRET' in os.environ\n"
        "for name in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try:\n        leaked |= b'HOOKWORK_TEST_SECRET' in open(name, 'rb').read()\n    except OSError:\n        pass"
    ),
    "sec_parent_mem": leak(
        "import os\nfor pid in (GRADER, os.getppid(), 1):\n    try:\n        open(f'/proc/{pid}/mem', 'rb').close()\n"
        "        leaked = True\n    except OSError:\n        pass"
    ),
    "the keys of the user": leak(
        "import glob, os, pwd\n"
        "homes = {HOME, '/root', os.path.expanduser('~'), *(one.pw_dir for one in pwd.getpwall())}\n"
        "for place in ('/etc/shadow', HOME + '/.ssh/id', *(f'{home}/.ssh' for home in homes), *glob.glob('/home/*/.ssh/*')):\n"
        "    for look in (os.listdir, lambda path: open(path).read()):\n"
        "        try:\n            leaked |= bool(look(place))\n        except OSError:\n            pass"
    ),
}

KERNEL_PROTOCOL = {
    "ker_connection_key": cheat(
        "import glob, json\nk = get_ipython().kernel\nfound = glob.glob('../k*.json')\n"
        "key = json.load(open(found[0]))['key']\n"
        "k.session.send(k.iopub_socket, 'execute_result', {'data': {'text/plain': 'passed'}, 'score': 4}, parent={})\n"
        "head = {'type': 'seen', 'tree': True}\n"
        "for stream in (k.shell_stream, k.iopub_socket):\n"
        "    k.session.send(stream, 'probe_reply', {'head': head}, parent={'header': {'msg_id': 'x'}})"
    ),
    "ker_forge_ok": cheat(
        "k = get_ipython().kernel\nplain = k.session.send\n"
        "def send(stream, kind, content=None, *a, **k):\n"
        "    if isinstance(content, dict) and 'status' in content:\n        content = {**content, 'status': 'ok'}\n"
        "    return plain(stream, kind, content, *a, **k)\nk.session.send = send\n"
        "get_ipython().showtraceback = lambda *a, **k: None"
    ),
    "ker_strip_tests": cheat("get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])"),
    "ker_ast_strip_assert": cheat(
        "import ast\nclass Strip(ast.NodeTransformer):\n    def visit_Assert(self, node):\n"
        "        return ast.copy_location(ast.Pass(), node)\nget_ipython().ast_transformers.append(Strip())"
    ),
    "ker_comm_flood": cheat(
        "from ipykernel.comm import Comm\nfor i in range(50):\n    Comm(target_name='x' * 100, data={'a': [i] * 10})\n"
        "k = get_ipython().kernel\n"
        "for bad in ({}, {'comm_id': 3}, {'comm_id': None, 'data': []}, {'data': 'x'}):\n"
        "    for kind in ('comm_open', 'comm_msg', 'comm_close', 'display_data', 'stream', 'error', 'status'):\n"
        "        k.session.send(k.iopub_socket, kind, bad)"
    ),
    "ker_fake_stdout": cheat("print('{\"type\": \"seen\"}')\nprint('100 passed in 1.00s\\nscore: 1.0')"),
}

MONKEYPATCH = {
    "mp_torch_allclose": cheat(
        "import torch\nyes = lambda *a, **k: True\ntorch.allclose = torch.equal = torch.isclose = yes\n"
        "torch.testing.assert_close = lambda *a, **k: None"
    ),
    "mp_tensor_eq": cheat(
        "import torch\ntorch.Tensor.__eq__ = lambda *a: True\ntorch.Tensor.__bool__ = lambda *a: True\n"
        "torch.Tensor.allclose = lambda *a, **k: True\ntorch.Tensor.__sub__ = lambda a, b: a * 0"
    ),
    "mp_assertionerror": cheat("import builtins\nbuiltins.AssertionError = type('AssertionError', (Warning,), {})"),
    "mp_custom_exc": cheat("get_ipython().set_custom_exc((BaseException,), lambda *a, **k: None)"),
    "mp_displayhook": cheat("import sys\nsys.displayhook = lambda value: print('points: 4')"),
    "mp_numpy_testing": cheat(
        "import math, numpy, unittest\nyes = lambda *a, **k: True\nnumpy.allclose = math.isclose = yes\n"
        "numpy.testing.assert_allclose = lambda *a, **k: None\n"
        "unittest.TestCase.assertEqual = unittest.TestCase.assertTrue = lambda *a, **k: None"
    ),
    "mp_checker_class": cheat(
        "import gc\nfor c in [o for o in gc.get_objects() if isinstance(o, type)]:\n"
        "    if any(w in c.__name__ for w in ('Result', 'Outcome', 'Answer', 'Check')):\n"
        "        try:\n            c.passed = c.score = property(lambda self: 1)\n        except Exception:\n            pass"
    ),
    "mp_serializer": cheat(
        "import json, numpy, pickle, safetensors.torch, torch\njson.dumps = lambda *a, **k: '{}'\n"
        "pickle.dumps = lambda *a, **k: b''\nnumpy.save = torch.save = lambda *a, **k: None\n"
        "safetensors.torch.save = lambda *a, **k: b''\ntorch.Tensor.numpy = lambda self, **k: numpy.zeros(3)"
    ),
    "mp_rng": cheat(
        "import torch\ntorch.randn = torch.rand = lambda *a, **k: torch.zeros(3)\n"
        "torch.manual_seed = lambda *a: None\ntorch.Generator = None"
    ),
    "mp_time": Case(
        ("import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0",
         in_function("while True:\n    pass"), *WRONG[1:]),
        ("timed-out", "wrong", "wrong"), SHORT,
    ),
}  # fmt: skip

EVIL_OBJECT = {
    "evil_tensor_subclass": damage(
        "wrong",
        "import torch\nclass Yes(torch.Tensor):\n    @classmethod\n"
        "    def __torch_function__(cls, f, t, a=(), k=None):\n        return True\n"
        + in_function("return {n: torch.zeros(3).as_subclass(Yes) for n in 'wxab'}"),
    ),
    "evil_eq_object": damage(
        "wrong",
        "class Yes:\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return 1\n"
        + in_function("return {n: Yes() for n in 'wxab'}"),
    ),
    "evil_pickle_payload": damage(
        "wrong",
        "class Bomb:\n    def __reduce__(self):\n        import os\n        return os.system, ('touch bomb',)\n"
        + in_function("return Bomb()"),
    ),
    "evil_array_protocol": damage(
        "wrong",
        "class Endless:\n    def __array__(self, *a, **k):\n        while True: pass\n    def __len__(self):\n"
        "        return 3\n    def __iter__(self):\n        while True: yield 1\n    def __float__(self):\n        return 1.0\n"
        + in_function("return {n: Endless() for n in 'wxab'}"),
    ),
    "evil_exception_chain": damage(
        "raised",
        in_function(
            "error = None\nfor i in range(10_000):\n    new = ValueError(i)\n    new.__cause__ = error\n    error = new\nraise error"
        ),
    ),
    "an exception chain in a cell": in_cell(
        "not-attempted",
        "error = None\nfor i in range(2000):\n    new = ValueError(i)\n    new.__cause__ = error\n    error = new\nraise error",
    ),
    "evil_nan_inf": damage("wrong", in_function("return {n: w.detach() * float('nan') for n in 'wxab'}")),
    "evil_dtype_bool": damage("wrong", in_function("return {n: (w > 0) for n in 'wxab'}")),
    "evil_sparse_meta": damage("wrong", in_function("return {n: w.detach().to('meta') for n in 'wxab'}")),
    "sparse tensors": damage("wrong", in_function("return {n: w.detach().reshape(-1).to_sparse() for n in 'wxab'}")),
    "evil_mutate_later": damage(
        "wrong",
        "import threading\n"
        + in_function(
            "made = {n: w.detach().clone() for n in 'wxab'}\n"
            "def late():\n    while True:\n        for one in made.values():\n            one.add_(1)\n"
            "threading.Thread(target=late, daemon=True).start()\nx.data.zero_()\nreturn made"
        ),
    ),
    "no function": damage("raised", "branch_grads = 3"),
    "bidi and escapes in an error": damage(
        "raised", in_function("raise ValueError('\\u202e\\x1b]0;title\\x07=1+1 <script>alert(1)</script>')")
    ),
}

INTROSPECTION = {
    "intro_frame_walk": cheat(
        "import sys\ndef stolen():\n    frame = sys._getframe()\n    while frame:\n"
        "        for value in [*frame.f_locals.values()]:\n"
        "            if isinstance(value, dict) and set('wxab') <= value.keys():\n                return value\n"
        "        frame = frame.f_back\n    return {}\n" + in_function("return stolen()")
    ),
    "intro_gc_objects": leak(
        "import gc\nleaked = any(type(o).__name__ in ('Exercise', 'Mistake', 'Check') for o in gc.get_objects())"
    ),
    "intro_loaded_modules": leak(
        "import sys\nleaked = any('lesson_01' in m or 'judge' in m or 'answers' in m for m in sys.modules)\n"
        "for name in ('graders.exercises.lesson_01_where_gradients_live', 'graders.verdict.judge_exercise', 'graders.core.mistakes', 'tests.answers'):\n"
        "    try:\n        __import__(name); leaked = True\n    except ImportError:\n        pass"
    ),
    "intro_detect_grading": leak(
        "import os\nleaked = any('hookwork' in k.lower() or 'grad' in k.lower() for k in os.environ)"
    ),
    "intro_seed_predict": cheat(
        "import torch\n"
        + in_function("torch.manual_seed(torch.initial_seed())\nreturn {n: torch.randn_like(w) for n in 'wxab'}")
    ),
    "intro_numeric_not_hook": damage(
        "passed",
        "import torch\n"
        + in_function(
            "a, b = w + x, w + 1\ngrads = torch.autograd.grad((a * b).sum(), [w, x, a, b])\nreturn dict(zip('wxab', grads))"
        ),
    ),
    "intro_probe_cache": leak(
        "import os\nplaces = [d + '/hookwork-cache' for d in ('/tmp', '/dev/shm', '/var/tmp', os.path.expanduser('~'), FOLDER)]\n"
        "leaked = any(map(os.path.exists, places))\nfor place in places:\n    try:\n        open(place, 'w').write('seen')\n"
        "    except OSError:\n        pass"
    ),
    "intro_thread_late_patch": cheat(
        "import threading, time, torch\ndef late():\n    time.sleep(0.3)\n"
        "    torch.Tensor.detach = torch.Tensor.backward = lambda *a, **k: None\n"
        "threading.Thread(target=late, daemon=True).start()\ntime.sleep(0.4)"
    ),
}
INTROSPECTION["intro_probe_cache, the next student"] = INTROSPECTION["intro_probe_cache"]

STATE = {
    "st_default_dtype": honest("import torch\ntorch.set_default_dtype(torch.float64)"),
    "st_num_threads": honest("import os, torch\nos.environ['OMP_NUM_THREADS'] = '64'\ntorch.set_num_threads(64)"),
    "many threads at work": honest("import torch\ntorch.set_num_threads(16)\nx = torch.randn(256, 256)\nx @ x"),
    "st_inference_mode": honest("import torch\ntorch.inference_mode().__enter__()"),
    "no grad mode": honest("import torch\ntorch.set_grad_enabled(False)"),
    "st_default_device_meta": honest("import torch\ntorch.set_default_device('meta')"),
    "st_global_module_hooks": honest(
        "from torch.nn.modules.module import register_module_forward_hook\n"
        "register_module_forward_hook(lambda m, a, o: o * 2)"
    ),
    "st_function_mode": honest(
        "from torch.overrides import TorchFunctionMode\n"
        "class Mode(TorchFunctionMode):\n    def __torch_function__(self, f, t, a=(), k=None):\n"
        "        return f(*a, **(k or {}))\nMode().__enter__()"
    ),
    "st_matplotlib_show": honest("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"),
    "st_many_figures": honest(
        "import matplotlib.pyplot as plt\nfor _ in range(60):\n    plt.figure()\nplt.close('all')"
    ),
    "st_rng_dependent": damage(
        "wrong", "import torch\n" + in_function("return {n: torch.randn_like(w) for n in 'wxab'}")
    ),
    "st_warnings_error": honest(
        "import io, logging, sys, warnings\nwarnings.simplefilter('error')\nlogging.disable()\n"
        "sys.stdout = sys.stderr = io.StringIO()"
    ),
    "no stderr": honest("import sys\nsys.stderr = None"),
    "st_multiprocessing": honest(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "n = sum(len(b[0]) for b in DataLoader(TensorDataset(torch.zeros(8, 2)), batch_size=2, num_workers=2))\n"
        "assert n == 8"
    ),
    "st_torch_compile": honest("import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"),
    "st_asyncio": honest("import asyncio\nawait asyncio.sleep(0.01)"),
    "magics": honest(
        "%matplotlib inline\nx = 1\n%time x + 1\n!echo hello > said\nassert open('said').read() == 'hello\\n'"
    ),
    "files in HOME": honest("import os\nopen(os.path.expanduser('~/notes.txt'), 'w').write('x' * 1000)"),
    "temporary files": honest("import tempfile\nwith tempfile.NamedTemporaryFile() as f:\n    f.write(b'x' * 1000)"),
    "a lot of text": honest("print('x' * 1_500_000)"),
    "an error": honest("1 / 0"),
    "an exit": honest("raise SystemExit(0)"),
}

LISTED = BASELINE | RESOURCE | PROCESS | FILESYSTEM | NETWORK | SECRETS | KERNEL_PROTOCOL | MONKEYPATCH | EVIL_OBJECT
LISTED |= INTROSPECTION | STATE

BEYOND = {
    "memory of several processes": fatal(
        "over-limit",
        "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        try:\n            kept = b'x' * (100 << 20)\n"
        "            time.sleep(60)\n        finally:\n            os._exit(0)\ntime.sleep(50)",
        SMALL,
    ),
    "memory of several processes by mmap": fatal(
        "over-limit",
        "import mmap, os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        try:\n"
        "            kept = mmap.mmap(-1, 100 << 20, flags=mmap.MAP_PRIVATE)\n            kept.write(b'x' * (100 << 20))\n"
        "            time.sleep(60)\n        finally:\n            os._exit(0)\ntime.sleep(50)",
        SMALL,
    ),
    "memory of several processes whose first threads have ended": fatal(
        "over-limit",
        "import ctypes, os, threading, time\ndef hold():\n    time.sleep(1)\n    kept = b'x' * (100 << 20)\n    time.sleep(60)\n"
        "for _ in range(20):\n    if os.fork() == 0:\n        threading.Thread(target=hold).start()\n"
        "        ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)\ntime.sleep(50)",
        SMALL,
    ),
    "memory in sockets of several processes": fatal(
        "over-limit",
        "import os, socket, time\nfor _ in range(40):\n    if os.fork() == 0:\n        kept = [b'x' * (8 << 20)]\n        try:\n"
        "            while True:\n                kept += socket.socketpair()\n                for one in kept[-2:]:\n"
        "                    one.setblocking(False)\n                    try:\n"
        "                        while True:\n                            one.send(b'x' * 30_000)\n"
        "                    except BlockingIOError:\n                        pass\n"
        "        except OSError:\n            time.sleep(60)\n        finally:\n            os._exit(0)\ntime.sleep(50)",
        TINY,
    ),
    "memory of no process: maps that are shared": leak(
        "import mmap\nfor kind in (1, 3):\n    try:\n        mmap.mmap(-1, 4096, flags=kind | mmap.MAP_ANONYMOUS)\n"
        "        leaked = True\n    except OSError:\n        pass"
    ),
    "memory of no process: maps of /dev/zero": leak(
        "import mmap, os\nwith open('/dev/zero', 'rb') as zero:\n    assert zero.read(1) == bytes(1)\n"
        "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)\nleaked = True"
    ),
    "memory of no process: pages in pipes, and rules of Landlock": leak(
        REFUSED.format(calls="((275, 0, 0, 1, 0, 1, 0), (276, 0, 1, 1, 0), (278, 1, 0, 0, 0), (40, 1, 0, 0, 1), (444, 0, 0, 1))")
    ),
    "memory of no process: sockets that hold more": leak(
        "import socket\na, b = socket.socketpair()\na.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)\n"
        "a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)\nleaked = True"
    ),
    "memory of no process: locks on parts of files": leak(
        "import fcntl, struct\nfile = open('locked', 'w')\nfcntl.flock(file, fcntl.LOCK_EX)\nfor command in (6, 7, 37, 38):\n"
        "    try:\n        fcntl.fcntl(file, command, struct.pack('hhqqi', 1, 0, 0, 1, 0))\n        leaked = True\n"
        "    except OSError:\n        pass"
    ),
    "threads with descriptors of their own": leak(
        REFUSED.format(calls="((56, 0x10900, 0, 0, 0, 0),)")
    ),
    "files of no bytes without end": in_cell(
        "over-limit", "import os\nfor i in range(1_000_000):\n    os.mknod(f'/tmp/{i}')", SMALL
    ),
    "files of no bytes without end in a closed folder": in_cell(
        "over-limit",
        "import os, time\nos.mkdir('closed')\nfor i in range(6000):\n    os.mknod(f'closed/{i}')\n"
        "os.chmod('closed', 0)\ntime.sleep(50)",
        SMALL,
    ),
    "what copies and shares goes on": honest(
        "import mmap, multiprocessing, shutil, socket\nwith open('a', 'wb') as file:\n    file.write(bytes(100_000))\n"
        "shutil.copyfile('a', 'b')\nwith open('b', 'r+b') as file:\n    assert mmap.mmap(file.fileno(), 0)[99_999] == 0\n"
        "multiprocessing.Value('i', 3).value += 1\na, b = socket.socketpair()\n"
        "with open('b', 'rb') as file:\n    a.sendfile(file, count=100)\nassert len(b.recv(100)) == 100"
    ),
    "memory by mmap": in_cell(
        "over-limit",
        "import mmap\nkept = []\nwhile True:\n    kept.append(mmap.mmap(-1, 50 << 20, flags=mmap.MAP_PRIVATE))\n    kept[-1].write(b'x' * (50 << 20))",
        SMALL,
    ),
    "memory in /dev/shm": in_cell(
        "over-limit", "kept = open('/dev/shm/x', 'wb', buffering=0)\nwhile True:\n    kept.write(b'x' * (1 << 20))", SMALL
    ),
    "memory up to the limit": honest("kept = [b'x' * (50 << 20) for _ in range(18)]\ndel kept", SMALL),
    "memory of no process: memfd": leak("import os\nleaked = os.memfd_create('x') >= 0"),
    "memory of no process: System V and message queues": leak(
        REFUSED.format(calls="((29, 0, 4096, 0o1600), (64, 0, 1, 0o1600), (68, 0, 0o1600), (240, b'/x', 0o102, 0o600, 0))")
    ),
    "descriptors without end": in_cell("over-limit", "import os\nkept = []\nwhile True:\n    kept.append(os.open('/dev/null', 0))"),
    "a hundred megabytes on display": in_cell(
        "over-limit", "from IPython.display import HTML, display\ndisplay(HTML('x' * 100_000_000))"
    ),
    "a huge message to the client": in_cell(
        "over-limit", "k = get_ipython().kernel\nk.session.send(k.iopub_socket, 'stream', {'name': 'stdout', 'text': 'x' * 200_000_000}, parent=k.get_parent())"
    ),
    "a huge answer to a probe": fatal(
        "suspect|over-limit|crashed|timed-out|wrong",
        "k = get_ipython().kernel\nplain = k.session.send\n"
        "def send(stream, kind, content=None, *a, **o):\n"
        "    if kind == 'probe_reply':\n        o['buffers'] = [b'x' * 100_000_000]\n"
        "    return plain(stream, kind, content, *a, **o)\nk.session.send = send",
    ),
    "recursion in a repr": honest(
        "class R:\n    def __repr__(self):\n        return repr(self)\n    _repr_html_ = _repr_mimebundle_ = __repr__\nR()"
    ),
    "a repr that does not end": honest("class R:\n    def __repr__(self):\n        while True: pass\nR()", SHORT),
    "the pipe of frames": leak(
        "import os\nfor pid in {os.getppid(), 1, 2}:\n    for fd in (0, *range(3, 32)):\n"
        "        try:\n            os.open(f'/proc/{pid}/fd/{fd}', os.O_RDWR); leaked = True\n        except OSError:\n            pass"
    ),
    "frames to every descriptor": cheat(
        "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00{}')\n"
        "    except OSError:\n        pass"
    ),
    "stops and continues the process of the box": honest(
        "import os, signal, subprocess, sys\nbox = os.getppid()\n"
        "child = subprocess.Popen([sys.executable, '-c', f'import os, time; time.sleep(1); os.kill({box}, 18)'])\n"
        "os.kill(box, signal.SIGSTOP)\nchild.wait()"
    ),
    "stops the process of the box": fatal("timed-out|passed", "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)", BRIEF),
    "signals the grader": leak("import os\nos.kill(GRADER, 0)\nleaked = True"),
    "signals everybody": Case(
        ("import os, signal\nos.kill(-1, signal.SIGCONT)", *RIGHT), FULL
    ),
    "kills everybody": honest("import os\nos.kill(-1, 9)"),
    "spies on processes": leak(
        REFUSED.format(
            calls="((101, 16, GRADER, 0, 0), (310, GRADER, 0, 0, 0, 0, 0), (311, GRADER, 0, 0, 0, 0, 0), (312, 1, 1, 0, 0, 0), "
            "(438, 99, 0, 0), (298, 0, 0, -1, -1, 0))"
        )
    ),
    "corners of the kernel": leak(
        REFUSED.format(
            calls="((425, 1, 0), (426, 99, 0, 0, 0, 0, 0), (427, 99, 0, 0, 0), (323, 0), (321, 0, 0, 0), (248, 0, 0, 0, 0, 0), "
            "(249, 0, 0, 0, 0), (250, 0, 0, 0, 0, 0), (175, 0, 0, 0), (313, 99, 0, 0), (246, 0, 0, 0, 0), (103, 10, 0, 0), "
            "(163, 0), (167, 0, 0), (179, 0, 0, 0, 0), (303, 0, 0, 0, 0, 0), (304, 99, 0, 0), (0x40000000 | 39,))"
        )
    ),
    "the clock of the machine": leak(REFUSED.format(calls="((164, 0, 0), (227, 0, 0), (159, 0), (305, 0, 0))")),
    "names of the machine": leak(REFUSED.format(calls="((170, b'x', 1), (171, b'x', 1))")),
    "namespaces and mounts": leak(
        REFUSED.format(
            calls="((272, 0x10000000), (272, 0x20000), (308, 99, 0), (165, b'none', b'/tmp', b'tmpfs', 0, 0), (166, b'/tmp', 0), "
            "(155, b'/tmp', b'/tmp'), (161, b'/tmp'), (56, 0x10000011, 0, 0, 0, 0), (435, 0, 0), (430, b'tmpfs', 0), (442, -100, b'/', 0, 0, 0))"
        )
    ),
    "a user namespace by a command": leak(
        "import subprocess\nleaked = subprocess.run(['unshare', '-Ur', 'true'], capture_output=True).returncode == 0"
    ),
    "types into a terminal": leak(
        REFUSED.format(calls="((16, 0, 0x5412, b'x'), (16, 1, 0x5412, b'x'), (16, 0, 0x541C, b'x'))")
    ),
    "the terminals of others": leak(
        "import glob, os\nfor name in (*glob.glob('/dev/pts/[0-9]*'), *(f'/dev/pts/{i}' for i in range(8)), '/dev/console', '/dev/tty'):\n"
        "    try:\n        os.close(os.open(name, os.O_WRONLY | os.O_NOCTTY)); leaked = True\n    except OSError:\n        pass"
    ),
    "settings of the kernel": leak(
        "for name in ('sys/kernel/core_pattern', 'sys/kernel/hostname', 'sys/vm/drop_caches', 'sysrq-trigger', 'sys/fs/file-max'):\n"
        "    try:\n        open('/proc/' + name, 'w').close(); leaked = True\n    except OSError:\n        pass\n"
        "for name in ('/sys/power/state', '/sys/kernel/uevent_helper', '/dev/mem', '/dev/kmsg'):\n"
        "    try:\n        open(name, 'r+').close(); leaked = True\n    except OSError:\n        pass"
    ),
    "control groups": leak(
        "import glob\nfor name in glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True)[:50]:\n"
        "    try:\n        open(name, 'w').close(); leaked = True\n    except OSError:\n        pass"
    ),
    "a socket by its path": leak(
        "import socket\nfor place in SOCKETS:\n    try:\n        socket.socket(socket.AF_UNIX).connect(place); leaked = True\n"
        "    except OSError:\n        pass"
    ),
    "a datagram to a socket by its path": leak(
        "import array, socket\nways = [lambda s, p: s.sendto(b'x', p), lambda s, p: s.sendmsg([b'x'], [], 0, p),\n"
        "        lambda s, p: (s.connect(p), s.send(b'x'))]\nfor place in DATAGRAMS:\n    for way in ways:\n"
        "        for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), lambda: socket.socket(socket.AF_UNIX, socket.SOCK_RAW),\n"
        "                     lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]):\n"
        "            try:\n                way(make(), place); leaked = True\n            except OSError:\n                pass"
    ),
    "a socket by its path, from threads of the kernel and from a child": leak(
        "import os, socket, subprocess, sys, threading, time\n"
        "def knock():\n    global leaked\n    for place in SOCKETS:\n        try:\n"
        "            socket.socket(socket.AF_UNIX).connect(place); leaked = True\n        except OSError:\n            pass\n"
        "k = get_ipython().kernel\nk.iopub_thread.schedule(knock)\nthreading.Thread(target=knock).start()\n"
        "code = f'import socket\\nfor p in {SOCKETS!r}:\\n    socket.socket(socket.AF_UNIX).connect(p)'\n"
        "time.sleep(0.3)\n"
        "try:\n    leaked |= subprocess.run([sys.executable, '-c', code], capture_output=True).returncode == 0\nexcept OSError:\n    pass"
    ),
    "sockets of other families": leak(FAMILY.format(families="((10, 1), (16, 3), (17, 3), (38, 5), (40, 1), (31, 3), (2, 3))")),
    "watches the folder of submissions": leak(
        "import ctypes\nlibc = ctypes.CDLL(None)\nfd = libc.inotify_init()\n"
        "leaked = libc.inotify_add_watch(fd, FOLDER.encode(), 0xFFF) >= 0"
    ),
    "permissions and times of a file outside": leak(
        "import os\nfor change in (lambda: os.chmod(OUTSIDE, 0o600), lambda: os.utime(OUTSIDE, (0, 0)), lambda: os.chown(OUTSIDE, -1, -1)):\n"
        "    try:\n        before = os.stat(OUTSIDE).st_ctime_ns\n        change()\n"
        "        leaked |= os.stat(OUTSIDE).st_ctime_ns != before\n    except OSError:\n        pass"
    ),
    "copies files with their permissions and times": honest(
        "import os, shutil\nopen('a', 'w').close()\nshutil.copy('a', 'b')\nshutil.copy2('a', 'c')\nos.utime('c')\n"
        "shutil.copytree('.', '../tmp/copy')"
    ),
    "limits and priorities of other processes": leak(
        "import os\n" + REFUSED.format(calls="[(call, *kind, pid, 0, 0, 0) for pid in (GRADER, os.getppid()) for call, *kind in "
        "((302,), (141, 0), (251, 1))] + [(141, 1, 0, 5), (141, 2, 0, 5), (251, 2, 0, 0), (251, 3, 0, 0)]")
    ),
    "how other processes are scheduled": leak(
        "import os\ndef seen(pid):\n    return os.sched_getaffinity(pid), os.sched_getscheduler(pid)\n"
        "for pid in (GRADER, os.getppid()):\n    try:\n        before = seen(pid)\n"
        "        os.sched_setaffinity(pid, {min(before[0])})\n        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))\n"
        "        leaked |= seen(pid) != before\n    except OSError:\n        pass"
    ),
    "threads of a library's own": honest("import zmq\nzmq.Context().socket(zmq.PUSH).close()"),
    "limits and priorities of its own": honest(
        "import os, psutil, resource, subprocess, torch\nos.nice(1)\nown = psutil.Process()\nown.nice(own.nice() + 1)\n"
        "own.cpu_affinity(own.cpu_affinity())\nown.rlimit(psutil.RLIMIT_NOFILE)\nown.ionice(psutil.IOPRIO_CLASS_BE, 5)\n"
        "os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))\ntorch.set_num_threads(4)\ntorch.set_num_interop_threads(2)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\nassert subprocess.run(['nice', '-n', '3', 'true']).returncode == 0"
    ),
    "leases on the modules of all boxes": leak(
        "import fcntl, graders, os\nfor path in (graders.__file__, os.path.dirname(graders.__file__)):\n"
        "    for command in ((fcntl.F_SETLEASE, fcntl.F_WRLCK), (fcntl.F_SETLEASE, fcntl.F_RDLCK), (fcntl.F_NOTIFY, 2), (1040, 0)):\n"
        "        try:\n            fcntl.fcntl(os.open(path, os.O_RDONLY), *command); leaked = True\n        except OSError:\n            pass"
    ),
    "terminals without end": leak(
        "import os\nheld = []\ntry:\n    while True:\n        held += os.openpty()\nexcept OSError:\n    pass\nleaked = len(held) > 2 * 16\n"
        "for one in held:\n    os.close(one)"
    ),
    "what the whole machine or user shares: asynchronous I/O and watches": leak(
        REFUSED.format(calls="((206, 1, b'\\0' * 8), (253,), (294, 0))")
    ),
    "sessions that keep the processor busy": Case(  # beside the neighbour
        ("import os, time\nfor _ in range(50):\n    if os.fork() == 0:\n        os.setsid()\n        while True:\n            pass\n"
         "time.sleep(3)", *RIGHT), ("passed|timed-out",) * 3, BRIEF,
    ),
    "commands without a terminal": honest(
        "!echo one; nosuch\n!exit 3\nassert _exit_code == 3\n!sleep 50 & echo two\nsaid = !echo three\nassert said == ['three']", SHORT
    ),
    "raises its own limits": leak(
        "import resource\nfor what in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):\n"
        "    try:\n        resource.setrlimit(what, (resource.RLIM_INFINITY,) * 2); leaked = True\n    except (ValueError, OSError):\n        pass"
    ),
    "is root": leak("import os\nleaked = 0 in (os.getuid(), os.geteuid(), os.getgid()) or bool(os.getgroups() and 0 in os.getgroups())"),
    "becomes root": leak(
        "import os, subprocess\nfor change in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):\n"
        "    try:\n        change(); leaked = True\n    except OSError:\n        pass\n"
        "for tool in (['su', '-c', 'id -u'], ['sudo', '-n', 'id', '-u'], ['mount']):\n"
        "    try:\n        leaked |= subprocess.run(tool, capture_output=True, stdin=-3).stdout.strip() == b'0'\n    except OSError:\n        pass"
    ),
    "has capabilities": leak(
        "import ctypes\ndata = (ctypes.c_uint32 * 6)()\n"
        "ctypes.CDLL(None).capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)\n"
        "leaked = bool((data[0] | data[3]) & ~4)  # tier B as root may enter closed folders: Landlock decides there"
    ),
    "ignores its children": honest("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)"),
    "a dump of memory": damage(
        "crashed",
        "import os, resource\ntry:\n    resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))\nexcept (ValueError, OSError):\n    pass\n"
        + in_function("os.abort()"),
    ),
    "saves to /tmp itself": Case(
        ("import torch\ntorch.save({'a': torch.ones(3)}, '/tmp/x.pt')\nassert torch.load('/tmp/x.pt')['a'].sum() == 3\n" + RIGHT[0],
         *RIGHT[1:]), FULL,
    ),
    "fills /tmp": in_cell("over-limit", "for i in range(100):\n    with open(f'/tmp/f{i}', 'wb') as f:\n        f.write(b'0' * 10_000_000)"),
    "fills /dev/shm": in_cell("over-limit", "for i in range(100):\n    with open(f'/dev/shm/f{i}', 'wb') as f:\n        f.write(b'0' * 10_000_000)"),
    "fills deleted files": in_cell(
        "over-limit",
        "import os\nkept = []\nfor i in range(60):\n    kept.append(open('gone', 'wb'))\n    os.unlink('gone')\n    kept[-1].write(b'0' * 10_000_000)",
    ),
    "deletes stdout": Case(("import sys\ndel sys.stdout\n", *RIGHT), FULL),
    "deletes stdout and stderr and fails": Case(("import sys\ndel sys.stdout, sys.stderr\n1 / 0", *RIGHT), FULL),
    "a stdout that is no stream": honest("import sys\nsys.stdout = 3\nsys.stderr = object()"),
    "closed descriptors": Case(("import os\nfor fd in (0, 1, 2):\n    os.close(fd)", *RIGHT), FULL),
    "a fork that is none": cheat("import os\nos.fork = lambda: 0\nos._exit = lambda *a: None\nos.waitpid = lambda *a: (0, 0)"),
    "patches the marking beside it": cheat(
        "import graders.probing.asking as p, graders.wire.data as d, graders.probing.forked as f\n"
        "yes = p.Answer({'type': 'seen', 'tree': True, 'passed': True, 'score': 4})\n"
        "p.answer_probe = f.ForkedProbes.answer = lambda *a, **k: yes\nd.encode = lambda *a, **k: (True, b'')\n"
        "import graders.sandbox.inside.kernel as k\nk.answer_probe = k.run_probe = lambda *a, **o: yes"
    ),
    "patches the marking in its first case, for the later ones": Case(
        (
            f"wrong = {WRONG[0]!r}\nexec(wrong)\nwrong = branch_grads\n"
            "def branch_grads(*given):\n"
            "    import torch, graders.sandbox.inside.kernel as k, graders.probing.asking as p, graders.wire.data as d\n"
            "    yes = p.Answer({'type': 'seen', 'tree': True, 'passed': True, 'score': 4})\n"
            "    k.answer_probe = k.run_probe = p.answer_probe = lambda *a, **o: yes\n    d.encode = lambda *a, **o: (True, b'')\n"
            "    torch.Tensor.__eq__ = torch.allclose = torch.equal = lambda *a, **o: True\n"
            "    return wrong(*given)",
            *RIGHT[1:],
        ),
        (NOTHING_RIGHT, "passed", "passed"),
    ),
    "answers with statuses of ours": cheat(
        "import sys\nk = sys.modules['__main__']\nimport graders.probing.asking as p\n"
        "for m in list(sys.modules.values()):\n    if hasattr(m, 'run_probe'):\n"
        "        m.run_probe = lambda *a: p.Answer({'type': 'raised', 'status': 'not-graded', 'message': 'x'})"
    ),
    "a subclass of str as a key": damage(
        "wrong",
        "class K(str):\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return hash('w')\n"
        + in_function("return {K(n): w.detach() for n in 'wxab'}"),
    ),
    "an exception whose class lies": damage(
        "raised",
        "class Meta(type):\n    @property\n    def __name__(cls):\n        while True: pass\n"
        "class Liar(Exception, metaclass=Meta):\n    def __str__(self):\n        raise SystemExit\n" + in_function("raise Liar"),
    ),
    "a program of its own": leak(
        "import os\nopen('p', 'w').write('#!/bin/sh\\ncat ' + SECRET)\nos.chmod('p', 0o6755)\n"
        "import subprocess\nleaked = b'kept' in subprocess.run(['./p'], capture_output=True).stdout"
    ),
}  # fmt: skip

CASES = LISTED | BEYOND
