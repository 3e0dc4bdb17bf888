"""Linux confinement without dependencies: Landlock, seccomp, rlimits, and giving up root.

Every tier of isolation on Linux uses it, and what these functions change cannot be undone in the same process. The
constants are those of the kernel's uapi headers. Only the standard library is imported, because this runs before
anything else does.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS = 1, 4, 8
_PR_GET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 21, 24, 36, 38, 47
_CAP_DAC_READ_SEARCH = 2

# Landlock: bits of access to files, in the order in which kernels learned them.
_EXECUTE, _WRITE, _READ, _READ_DIR, _REFER, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
_ACCESS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ_ONLY = _EXECUTE | _READ | _READ_DIR
_FILE_ACCESS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_TCP = 3  # bind and connect
_SCOPES = 3  # abstract sockets and signals stay inside
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1

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
# What Landlock does not cover: permissions, owners and times of files that belong to our own user.
_METADATA = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
_SOCKET, _SOCKETPAIR, _CLONE, _CLONE3 = (41, 198), (53, 199), (56, 220), (435, 435)
_CONNECT, _SENDTO, _SECCOMP, _KILL_CALL = (42, 203), (44, 206), (317, 277), (62, 129)
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_IOCTL_CALL, _TYPE_INTO_TERMINAL = (16, 29), (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_MMAP, _SHARED_AND_ANONYMOUS = (9, 222), 0x01 | 0x20
_SETSOCKOPT, _SOL_SOCKET, _SO_SNDBUF = (54, 208), 1, 7
_FCNTL, _RECORD_LOCKS = (72, 25), (6, 7, 37, 38)  # F_SETLK, F_SETLKW, and F_OFD_ both
_CLONE_THREAD, _CLONE_FILES = 0x00010000, 0x00000400
_EPERM, _ENOMEM, _ENOLCK, _ENOSYS, _EAFNOSUPPORT = 1, 12, 37, 38, 97


def _machine_name() -> str:
    return os.uname().machine if hasattr(os, "uname") else ""


class CannotConfine(OSError):
    """Raised when the kernel or the platform lacks a means of confinement; the message says which."""


def _checked_result(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise CannotConfine(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(what: str, *arguments: int) -> None:
    if _libc is None:
        raise CannotConfine(_ENOSYS, f"{what}: this is not Linux")
    padded = (*arguments, 0, 0, 0, 0)[:5]
    _checked_result(what, _libc.prctl(padded[0], *(ctypes.c_ulong(value) for value in padded[1:])))


def no_new_privileges() -> None:
    """Keep every program that this process or its children start from gaining privileges."""
    _prctl("no-new-privs", _PR_SET_NO_NEW_PRIVS, 1)


def become_subreaper() -> None:
    """Make orphans among the descendants of this process its children."""
    _prctl("subreaper", _PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int = 9) -> None:
    """Ask Linux to send this process a signal, SIGKILL by default, when its parent ends; elsewhere do nothing."""
    if _libc is not None:
        _prctl("parent-death signal", _PR_SET_PDEATHSIG, number)


def set_nondumpable() -> None:
    """Keep other processes of this user from reading this one's memory or opening its descriptors through /proc."""
    _prctl("not dumpable", _PR_SET_DUMPABLE, 0)


def set_dumpable() -> None:
    """Let this process look at itself through /proc again, as a newly started program can."""
    _prctl("dumpable", _PR_SET_DUMPABLE, 1)


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel supports; 0 for none."""
    if _libc is None:
        return 0
    abi: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, abi)


def seccomp_possible() -> bool:
    """Whether a filter of system calls can be installed on this platform."""
    return _libc is not None and _machine_name() in _ARCH


def restrict_files(readable: Iterable[str], writable: Iterable[str], hidden: Iterable[str] = ()) -> None:
    """Use Landlock: from now on, this process and its children can use only these folders and files.

    What lies below `hidden` stays unreadable even inside a readable folder. Where the kernel can, TCP is closed, too
    (ABI 4), and so are abstract sockets and signals to processes outside (ABI 6). Raises `CannotConfine`.
    """
    abi = landlock_abi()
    if _libc is None or abi < 1:
        raise CannotConfine(_ENOSYS, "the kernel has no Landlock")
    every = _ACCESS_BY_ABI[min(abi, 5)]
    sizes = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("<QQQ", every, _TCP, _SCOPES)[:sizes]
    ruleset = _checked_result(
        "Landlock", _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(sizes), ctypes.c_uint(0))
    )
    try:
        closed, modules = _real_paths(hidden), _real_paths(filter(os.path.isabs, sys.path))
        for path in _real_paths(readable):
            listed = {folder for folder in modules if _is_below(folder, path)}
            for part, access in _readable_parts(path, closed, listed):
                _allow_access(ruleset, part, access & every)
        for path in writable:
            _allow_access(ruleset, path, every)
        no_new_privileges()
        _checked_result("Landlock", _libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)))
    finally:
        os.close(ruleset)


def _real_paths(paths: Iterable[str]) -> set[str]:
    return set(map(os.path.realpath, paths))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _readable_parts(path: str, hidden: set[str], modules: set[str]) -> Iterator[tuple[str, int]]:
    """Yield the readable parts of a folder of which some are hidden, each with its Landlock access rights.

    A folder that contains something hidden can be listed, hidden names included, only if it lies in one of `modules`,
    because Python finds no modules in a folder that it cannot list.
    """
    if path in hidden:
        return
    if not any(_is_below(folder, path) for folder in hidden):
        yield path, _READ_ONLY
        return
    if any(_is_below(path, folder) for folder in modules):
        yield path, _READ_DIR
    try:
        names = os.listdir(path)
    except PermissionError:  # closed to this user, with all that lies in it
        return
    for name in names:
        entry = os.path.join(path, name)
        if not os.path.islink(entry):  # whether its target is readable depends on where that lies
            yield from _readable_parts(entry, hidden, modules)


def _allow_access(ruleset: int, path: str, access: int) -> None:
    assert _libc is not None
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a system without this file, for example /lib64
        return
    try:
        if not os.path.isdir(path):
            access &= _FILE_ACCESS
        rule = struct.pack("<Qi", access, place)
        _checked_result(f"Landlock, {path}", _libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), _PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def filter_system_calls(*, metadata: bool = True) -> None:
    """Use seccomp: only AF_UNIX sockets, no tracing, mounting, namespaces, io_uring, keys or kernel modules.

    Memory that counts for no process is refused, too, and so is ending all processes at once: people restart a kernel
    with `kill -9 -1`. Without `metadata`, permissions, owners and times of files cannot be changed either. Raises
    `CannotConfine`.
    """
    if _machine_name() not in _ARCH:
        raise CannotConfine(_ENOSYS, f"no filter of system calls for {_machine_name()}")
    _install_filter(
        _system_call_filter(_machine_name(), [*_DENIED.values(), *(() if metadata else _METADATA.values())])
    )


def has_system_call_filter() -> bool:
    """Whether a filter of system calls is installed in this process."""
    return _libc is not None and _machine_name() in _ARCH and _libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) == 2


def refuse_connections() -> None:
    """Use seccomp: from here on, this process and its children cannot connect or send to a socket by its address.

    Landlock does not protect those sockets of other programs that have a path and belong to no network. Connections
    that exist go on, servers can accept new ones, and pairs can be made. Raises `CannotConfine`.
    """
    _install_filter(_connection_filter(_machine_name()))


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
    _checked_result("seccomp", found)


def _connection_filter(machine: str) -> bytes:
    """A filter that refuses connect(2), sendto(2) with an address, and sockets that could send without them."""
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
    return b"".join([*parts, _return_verdict(_ALLOW)])


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


def _system_call_filter(machine: str, denied: Iterable[tuple[int, int | None]]) -> bytes:
    """A filter for the calls in `denied`, as numbers on x86_64 and aarch64 (None: no such call), and some arguments."""
    column = 0 if machine == "x86_64" else 1
    parts = _filter_prologue(machine)
    for call in denied:
        if (number := call[column]) is not None:
            parts += [_skip_unless(number, 1), _return_errno(_EPERM)]
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
    # clone3 hides its flags in memory; without it the C library falls back to clone, whose flags can be seen.
    parts += [_skip_unless(_CLONE3[column], 1), _return_errno(_ENOSYS)]
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
    """Refuse memory that need not show in any page table, so that `graders.run.memory` counts all there is.

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
    for command in _RECORD_LOCKS:
        locked += [_skip_unless(command, 1), _return_errno(_ENOLCK)]
    return [
        *(_skip_unless(_FCNTL[column], len(locked) + 1), *locked, _return_verdict(_ALLOW)),
        *(_skip_unless(_MMAP[column], 5), *mapped, _return_verdict(_ALLOW)),
        *(_skip_unless(_SETSOCKOPT[column], 6), *sized, _return_verdict(_ALLOW)),
    ]


def drop_capabilities() -> None:
    """Give up every capability of this process and of whatever it starts."""
    if _libc is None:
        raise CannotConfine(_ENOSYS, "capabilities: this is not Linux")
    for number in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) < 0:  # there are no more of them
            break
    header = struct.pack("<Ii", 0x20080522, 0)
    _checked_result("capabilities", _libc.capset(header, bytes(24)))


def give_up_root(uid: int, *, keep_reading: bool = False) -> None:
    """Become the user `uid`, with the group of the same number and no others.

    With `keep_reading` the process can still read files and enter folders whatever their permissions
    (CAP_DAC_READ_SEARCH), because Python is installed in a home folder that is closed to others. The caller must
    restrict files afterwards.
    """
    os.setgroups([])
    if keep_reading:
        _prctl("capabilities", _PR_SET_KEEPCAPS, 1)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if keep_reading:
        bit = 1 << _CAP_DAC_READ_SEARCH
        assert _libc is not None
        header = struct.pack("<Ii", 0x20080522, 0)
        _checked_result("capabilities", _libc.capset(header, struct.pack("<6I", bit, bit, bit, 0, 0, 0)))
        _prctl("capabilities", _PR_CAP_AMBIENT, 2, _CAP_DAC_READ_SEARCH)
