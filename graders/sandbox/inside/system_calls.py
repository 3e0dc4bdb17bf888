"""Filters of system calls on Linux, without dependencies: seccomp with classic BPF.

A filter cannot be taken off again, and holds for all that its process starts. The constants are those of the kernel's
uapi headers. Only the standard library is imported, because this runs before anything else does.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Mapping

from graders.sandbox.inside.confine import CannotConfine, checked_result, no_new_privileges

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

_Numbers = Mapping[str, tuple[int, "int | None"]]
"""Names of calls, with their numbers on x86_64 and aarch64 (None: no such call)."""

_PR_GET_SECCOMP = 21
AF_UNIX = 1
_CLONE_NAMESPACES = 0x7E020000 | 0x00000080  # user, mount, pid, net, ipc, uts, cgroup; time

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# System calls that no exercise needs and that help to escape, with their numbers on x86_64 and aarch64.
_DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "setns": (308, 268), "unshare": (272, 97), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "inotify_add_watch": (254, 27),  # Landlock allows these
    # Memory that belongs to no process: nobody would count it, and the first three kinds outlive the box.
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    # A byte spliced into a pipe keeps its whole page, perhaps a huge one, after every process has unmapped it.
    "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75), "sendfile": (40, 71),
    "landlock_create_ruleset": (444, 444),  # rules take memory of the kernel; ours are set by now
}  # fmt: skip
# Calls that seem not to exist, so that libraries do without them. Contexts for asynchronous I/O are counted for the
# whole machine, and those of inotify for all boxes of a user. clone3 hides its flags in memory; without it the C
# library falls back to clone, whose flags can be seen.
_ABSENT = {
    "io_setup": (206, 0), "inotify_init": (253, None), "inotify_init1": (294, 26), "clone3": (435, 435),
}  # fmt: skip
# What Landlock does not cover: permissions, owners and times of files that belong to our own user. These calls do
# nothing and seem to succeed, because copying a file fails otherwise, and so does starting a kernel.
_METADATA = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
_SOCKET, _SOCKETPAIR, _CLONE = (41, 198), (53, 199), (56, 220)
_CONNECT, _SENDTO, _SECCOMP, _KILL_CALL = (42, 203), (44, 206), (317, 277), (62, 129)
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_IOCTL_CALL, _TYPE_INTO_TERMINAL = (16, 29), (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_MMAP, _SHARED_AND_ANONYMOUS = (9, 222), 0x01 | 0x20
_SETSOCKOPT, _SOL_SOCKET, _SO_SNDBUF = (54, 208), 1, 7
_FCNTL, _RECORD_LOCKS = (72, 25), (6, 7, 37, 38)  # F_SETLK, F_SETLKW, and F_OFD_ both
_LEASES = (1024, 1026, 1040)  # F_SETLEASE, F_NOTIFY, F_SETDELEG
# Calls that change how another process of the same user runs. In the first two groups, which process is the first
# argument; in the last it is the second, after a kind, of which one stands for a single process. A library calls those
# of the second group for its own threads, by numbers that no filter can know, and ZeroMQ aborts if one fails: for
# whatever may be another's, they do nothing and seem to succeed.
_OF_A_PROCESS = {"prlimit64": (302, 261)}
_OF_A_THREAD = {
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}  # fmt: skip
_OF_A_KIND = {"setpriority": ((141, 140), 0), "ioprio_set": ((251, 30), 1)}
_CLONE_THREAD, _CLONE_FILES = 0x00010000, 0x00000400
_EPERM, _ENOMEM, _ENOLCK, _ENOSYS, _EAFNOSUPPORT = 1, 12, 37, 38, 97


def _machine_name() -> str:
    return os.uname().machine if hasattr(os, "uname") else ""


def seccomp_possible() -> bool:
    """Whether a filter of system calls can be installed on this platform."""
    return _libc is not None and _machine_name() in _ARCH


def filter_system_calls(*, metadata: bool = True) -> None:
    """Use seccomp: only AF_UNIX sockets, no tracing, mounting, namespaces, io_uring, keys or kernel modules.

    Memory that counts for no process is refused, too, and so are leases, for which others that open the file wait, and
    ending all processes at once: people restart a kernel with `kill -9 -1`. Without `metadata`, permissions, owners and
    times of files stay as they are. Raises `CannotConfine`.
    """
    if _machine_name() not in _ARCH:
        raise CannotConfine(_ENOSYS, f"no filter of system calls for {_machine_name()}")
    answers: list[tuple[int, _Numbers]] = [
        (_EPERM, _DENIED),
        (_ENOSYS, _ABSENT),
        *([] if metadata else [(0, _METADATA)]),
    ]
    _install_filter(_system_call_filter(_machine_name(), answers))


def has_system_call_filter() -> bool:
    """Whether a filter of system calls is installed in this process."""
    return _libc is not None and _machine_name() in _ARCH and _libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) == 2


def keep_to_itself() -> None:
    """Use seccomp: from here on, this process and its children reach no other program that belongs to the same user.

    They cannot connect or send to a socket by its address: Landlock does not protect those that have a path and belong
    to no network. Connections that exist go on, servers can accept new ones, and pairs can be made. Each can change
    limits and priorities of itself, and of this process, but of no other. Raises `CannotConfine`.
    """
    _install_filter(_outside_filter(_machine_name(), os.getpid()))


def _install_filter(program: bytes) -> None:
    """Install a filter in all threads of this process."""
    no_new_privileges()
    assert _libc is not None
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    number = _SECCOMP[0 if _machine_name() == "x86_64" else 1]
    in_all_threads = ctypes.c_ulong(1)
    if (found := _libc.syscall(number, ctypes.c_ulong(1), in_all_threads, holder)) > 0:
        raise CannotConfine(_ENOSYS, f"seccomp: thread {found} has another filter")
    checked_result("seccomp", found)


def _outside_filter(machine: str, process: int) -> bytes:
    """A filter that refuses connect(2), sendto(2) with an address, and sockets that could send without them.

    And what changes how a process runs, unless it is given as 0, which is the caller, or has the pid `process`.
    """
    column = 0 if machine == "x86_64" else 1
    parts = [*_filter_prologue(machine), _skip_unless(_CONNECT[column], 1), _return_errno(_EPERM)]
    # The address is the fifth argument, a pointer that is read in two halves. If both are zero, it is a plain send.
    parts += [
        _skip_unless(_SENDTO[column], 6),
        _load_word(48),
        _skip_unless(0, 2),
        _load_word(52),
        _jump_if_equal(0, 1, 0),
    ]
    parts += [_return_errno(_EPERM), _return_verdict(_ALLOW)]
    for numbers in (_SOCKET, _SOCKETPAIR):
        # A datagram may have its address in memory, which a filter cannot read; streams and packets ignore it.
        parts += [_skip_unless(numbers[column], 6), _load_word(24), _mask_word(0xF), _jump_if_equal(_SOCK_STREAM, 2, 0)]
        parts += [_jump_if_equal(_SOCK_SEQPACKET, 1, 0), _return_errno(_EPERM), _return_verdict(_ALLOW)]
    for error, calls in ((_EPERM, _OF_A_PROCESS), (0, _OF_A_THREAD)):
        for call in calls.values():
            parts += [_skip_unless(call[column], 5), _load_word(16), *_only_processes(process, error)]
    for call, kind in _OF_A_KIND.values():
        parts += [_skip_unless(call[column], 8), _load_word(16), _jump_if_equal(kind, 1, 0), _return_errno(_EPERM)]
        parts += [_load_word(24), *_only_processes(process, _EPERM)]
    return b"".join([*parts, _return_verdict(_ALLOW)])


def _only_processes(process: int, error: int) -> list[bytes]:
    """Allow a call if the loaded word is 0 or this pid; otherwise answer it with an error, or 0 for none."""
    return [_jump_if_equal(0, 1, 0), _jump_if_equal(process, 0, 1), _return_verdict(_ALLOW), _return_errno(error)]


# Classic BPF over struct seccomp_data: the number at 0, the architecture at 4, the arguments from 16 on.

_ALLOW, _KILL = 0x7FFF0000, 0x80000000


def _load_word(offset: int) -> bytes:
    return struct.pack("<HBBI", 0x20, 0, 0, offset)


def _mask_word(mask: int) -> bytes:
    return struct.pack("<HBBI", 0x54, 0, 0, mask)


def _return_verdict(verdict: int) -> bytes:
    return struct.pack("<HBBI", 0x06, 0, 0, verdict)


def _return_errno(number: int) -> bytes:
    return _return_verdict(0x00050000 | number)


def _jump_if_equal(value: int, equal: int, other: int) -> bytes:
    """Skip `equal` instructions if the loaded word is equal to `value`, and `other` instructions if it is not."""
    return struct.pack("<HBBI", 0x15, equal, other, value)


def _skip_unless(value: int, count: int) -> bytes:
    return _jump_if_equal(value, 0, count)


def _filter_prologue(machine: str) -> list[bytes]:
    """Kill the process on any other architecture, and load the number of the call."""
    parts = [
        _load_word(4),
        _skip_unless(_ARCH[machine], 1),
        struct.pack("<HBBI", 0x05, 0, 0, 1),
        _return_verdict(_KILL),
        _load_word(0),
    ]
    if machine == "x86_64":  # refuse the x32 variants of all calls
        parts += [struct.pack("<HBBI", 0x35, 0, 1, 0x40000000), _return_errno(_ENOSYS)]
    return parts


def _system_call_filter(machine: str, answers: Iterable[tuple[int, _Numbers]]) -> bytes:
    """A filter that answers calls with an error, and others if they have certain arguments.

    Each of `answers` is an error, or 0 for none, and the calls.
    """
    column = 0 if machine == "x86_64" else 1
    parts = _filter_prologue(machine)
    for error, calls in answers:
        for call in calls.values():
            if (number := call[column]) is not None:
                parts += [_skip_unless(number, 1), _return_errno(error)]
    for numbers in (_SOCKET, _SOCKETPAIR):
        parts += [_skip_unless(numbers[column], 4), _load_word(16), _skip_unless(AF_UNIX, 1), _return_verdict(_ALLOW)]
        parts += [_return_errno(_EAFNOSUPPORT)]
    everybody = 0xFFFFFFFF  # pid -1 stands for all processes
    parts += [
        _skip_unless(_KILL_CALL[column], 4),
        _load_word(16),
        _skip_unless(everybody, 1),
        _return_errno(_EPERM),
        _return_verdict(_ALLOW),
    ]
    parts += [_skip_unless(_IOCTL_CALL[column], 6), _load_word(24)]
    for request in _TYPE_INTO_TERMINAL:
        parts += [_skip_unless(request, 1), _return_errno(_EPERM)]
    parts += [_return_verdict(_ALLOW)]
    any_bit = struct.pack("<HBBI", 0x45, 0, 1, _CLONE_NAMESPACES)
    parts += [_skip_unless(_CLONE[column], 7), _load_word(16), any_bit, _return_errno(_EPERM)]
    # A thread must share the descriptors of its process: what is open is looked up there.
    parts += [
        _mask_word(_CLONE_THREAD | _CLONE_FILES),
        _skip_unless(_CLONE_THREAD, 1),
        _return_errno(_EPERM),
        _return_verdict(_ALLOW),
    ]
    return b"".join([*parts, *_uncounted_memory(column), _return_verdict(_ALLOW)])


def _uncounted_memory(column: int) -> list[bytes]:
    """Refuse memory that need not show in any page table, so that `graders.sandbox.outside.memory` counts all there is.

    Shared anonymous memory stays allocated while any process maps it, even one whose page table is empty. Sockets hold
    data in transit, up to a size that the machine chooses as long as nobody may set it. Locks on parts of files are
    unlimited and count nowhere, not even in a cgroup, and a process that holds many takes minutes to end.
    """
    mapped = [
        _load_word(40),
        _mask_word(_SHARED_AND_ANONYMOUS),
        _skip_unless(_SHARED_AND_ANONYMOUS, 1),
        _return_errno(_ENOMEM),
    ]
    sized = [
        _load_word(24),
        _skip_unless(_SOL_SOCKET, 3),
        _load_word(32),
        _skip_unless(_SO_SNDBUF, 1),
        _return_errno(_EPERM),
    ]
    locked = [_load_word(24)]
    for error, commands in ((_ENOLCK, _RECORD_LOCKS), (_EPERM, _LEASES)):
        for command in commands:
            locked += [_skip_unless(command, 1), _return_errno(error)]
    return [
        *(_skip_unless(_FCNTL[column], len(locked) + 1), *locked, _return_verdict(_ALLOW)),
        *(_skip_unless(_MMAP[column], 5), *mapped, _return_verdict(_ALLOW)),
        *(_skip_unless(_SETSOCKOPT[column], 6), *sized, _return_verdict(_ALLOW)),
    ]
