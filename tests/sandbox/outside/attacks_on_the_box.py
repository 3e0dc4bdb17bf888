"""What takes too much, breaks out, or reads what is secret: the cases of the collected catalogue."""

from __future__ import annotations

from tests.notebooks import LESSON
from tests.sandbox.outside.attack_cases import (
    FULL,
    RIGHT,
    SHORT,
    WRONG,
    Case,
    cheat,
    damage,
    fatal,
    honest,
    in_cell,
    in_function,
    leak,
)

HIDDEN = "leaked = False\nfor way in {ways}:\n    try:\n        leaked |= bool(open(way, 'rb').read(1))\n    except OSError:\n        pass"
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
    "res_loop_in_function": damage("timed-out", in_function("while True:\n    pass"), SHORT),
    "res_sleep": in_cell("timed-out", "import time\ntime.sleep(1000)", SHORT),
    "res_infinite_output": in_cell("over-limit", "while True:\n    print('x' * 10_000)"),
    "text without end from a function": damage("timed-out", in_function("while True:\n    print('x' * 10000)"), SHORT),
    "res_giant_result": damage("over-limit", "import torch\n" + in_function("return torch.zeros(50_000_000)")),
    "res_memory_torch": in_cell(
        "over-limit", "import torch\nkept = []\nwhile True:\n    kept.append(torch.ones(10_000_000))"
    ),
    "memory without end in a function": damage(
        "over-limit", "import torch\n" + in_function("kept = []\nwhile True:\n    kept.append(torch.ones(10_000_000))")
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
    "proc_baseexception": damage("raised", in_function("raise GeneratorExit")),
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
