"""Cases of our own, beyond the collected catalogue."""

from __future__ import annotations

from graders.wire.limits import MIB, Limits
from tests.sandbox.outside.attack_cases import (
    FULL,
    NOTHING_RIGHT,
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

BRIEF = Limits(cell_seconds=4, probe_seconds=3, notebook_seconds=10, memory=1500 * MIB)
"""For those that stop the process that keeps the clock inside."""
SMALL = Limits(memory=1000 * MIB)
TINY = Limits(memory=128 * MIB)
"""With those of our own processes, 896 MiB for all of them."""


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
FAMILY = "import socket\nleaked = False\nfor family, kind in {families}:\n    try:\n        socket.socket(family, kind); leaked = True\n    except OSError:\n        pass"
BEYOND = {
    "memory of several processes": fatal(
        "over-limit",
        "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        try:\n            kept = b'x' * (100 << 20)\n"
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
    "limits and priorities of its own": honest(
        "import os, psutil, resource, subprocess, torch\nos.nice(1)\nown = psutil.Process()\nown.nice(own.nice() + 1)\n"
        "own.cpu_affinity(own.cpu_affinity())\nown.rlimit(psutil.RLIMIT_NOFILE)\nown.ionice(psutil.IOPRIO_CLASS_BE, 5)\n"
        "os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))\ntorch.set_num_threads(4)\ntorch.set_num_interop_threads(2)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\nassert subprocess.run(['nice', '-n', '3', 'true']).returncode == 0"
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
