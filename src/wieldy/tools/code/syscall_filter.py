"""What a program in the sandbox can't ask of the system, as a filter that the system applies.

The namespaces keep a program away from files, processes and networks. The filter closes what
they leave open: new namespaces inside, the keys and sockets that have no namespace, memory that
no process is seen to hold, notes of who looks at a folder, and files that run as their owner.
"""

import errno
import platform
import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_NEW_NAMESPACES = 0x7E020000
_SHARES_FILES, _IS_THREAD = 0x400, 0x10000
_SET_ID_BITS = 0o6000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SETLEASE, _NOTIFY, _SETPIPE_SZ = 1024, 1026, 1031
# Unix, IPv4, IPv6 and netlink; all four are bound to a namespace, and others are not.
_FAMILIES = (1, 2, 10, 16)
# Numbers from here on are the same calls for pointers of 32 bits.
_X32 = 0x40000000


class _Machine(NamedTuple):
    architecture: int
    numbers: dict[str, int]


_SAME = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "openat2": 437,
    "mount_setattr": 442,
    "memfd_secret": 447,
    "fchmodat2": 452,
}
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        _SAME
        | {
            "open": 2,
            "ioctl": 16,
            "shmget": 29,
            "socket": 41,
            "clone": 56,
            "semget": 64,
            "msgget": 68,
            "fcntl": 72,
            "creat": 85,
            "chmod": 90,
            "fchmod": 91,
            "ptrace": 101,
            "mknod": 133,
            "pivot_root": 155,
            "mount": 165,
            "umount2": 166,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "inotify_init": 253,
            "inotify_add_watch": 254,
            "openat": 257,
            "mknodat": 259,
            "fchmodat": 268,
            "unshare": 272,
            "vmsplice": 278,
            "inotify_init1": 294,
            "perf_event_open": 298,
            "fanotify_init": 300,
            "name_to_handle_at": 303,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "memfd_create": 319,
            "bpf": 321,
            "userfaultfd": 323,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        _SAME
        | {
            "fcntl": 25,
            "inotify_init1": 26,
            "inotify_add_watch": 27,
            "ioctl": 29,
            "mknodat": 33,
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "fchmod": 52,
            "fchmodat": 53,
            "openat": 56,
            "vmsplice": 75,
            "unshare": 97,
            "ptrace": 117,
            "msgget": 186,
            "semget": 190,
            "shmget": 194,
            "socket": 198,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "clone": 220,
            "perf_event_open": 241,
            "fanotify_init": 262,
            "name_to_handle_at": 264,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "memfd_create": 279,
            "bpf": 280,
            "userfaultfd": 282,
        },
    ),
}
# The C library falls back to the older call where the system does not know the newer one.
_UNKNOWN = ("clone3", "openat2", "fchmodat2", "memfd_create", "memfd_secret")
_FORBIDDEN = (
    "add_key",
    "bpf",
    "fanotify_init",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "msgget",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "request_key",
    "semget",
    "setns",
    "shmget",
    "umount2",
    "unshare",
    "userfaultfd",
    "vmsplice",
)
# A call, the place of the argument, and the bits that it may not have.
_BITS = (
    ("chmod", 1, _SET_ID_BITS),
    ("fchmod", 1, _SET_ID_BITS),
    ("fchmodat", 2, _SET_ID_BITS),
    ("open", 2, _SET_ID_BITS),
    ("creat", 1, _SET_ID_BITS),
    ("openat", 3, _SET_ID_BITS),
    ("mknod", 1, _SET_ID_BITS),
    ("mknodat", 2, _SET_ID_BITS),
)


def make_filter(machine: str | None = None) -> bytes | None:
    """The filter for a machine such as "x86_64", as bubblewrap takes it; None for others."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    numbers = known.numbers
    steps = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, known.architecture, 1, 0),
        _step(_ANSWER, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_AT_LEAST, _X32, 0, 1),
        _step(_ANSWER, _KILL),
    ]
    for name in _UNKNOWN:
        steps += _refuse(numbers[name], errno.ENOSYS)
    for name in _FORBIDDEN:
        if name in numbers:
            steps += _refuse(numbers[name], errno.EPERM)
    for name, place, bits in _BITS:
        if name in numbers:
            steps += _refuse_bits(numbers[name], place, bits)
    steps += _limit_clone(numbers["clone"])
    steps += _refuse_values(numbers["ioctl"], 1, (_TIOCSTI, _TIOCLINUX))
    steps += _refuse_values(numbers["fcntl"], 1, (_SETLEASE, _NOTIFY, _SETPIPE_SZ))
    steps += _allow_values(numbers["socket"], 0, _FAMILIES)
    return b"".join([*steps, _step(_ANSWER, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int, error: int) -> list[bytes]:
    return [_step(_EQUAL, number, 0, 1), _step(_ANSWER, _ERROR | error)]


def _argument(place: int) -> int:
    # The lower half of the argument; both machines keep it first.
    return _ARGUMENTS_AT + 8 * place


def _refuse_bits(number: int, place: int, bits: int) -> list[bytes]:
    return [
        _step(_EQUAL, number, 0, 4),
        _step(_LOAD, _argument(place)),
        _step(_ANY_BIT, bits, 0, 1),
        _step(_ANSWER, _ERROR | errno.EPERM),
        _step(_ANSWER, _ALLOW),
    ]


def _limit_clone(number: int) -> list[bytes]:
    """Refuse new namespaces, and threads whose open files would be seen by nobody."""
    return [
        _step(_EQUAL, number, 0, 6),
        _step(_LOAD, _argument(0)),
        _step(_ANY_BIT, _NEW_NAMESPACES, 2, 0),
        _step(_ANY_BIT, _IS_THREAD, 0, 2),
        _step(_ANY_BIT, _SHARES_FILES, 1, 0),
        _step(_ANSWER, _ERROR | errno.EPERM),
        _step(_ANSWER, _ALLOW),
    ]


def _refuse_values(number: int, place: int, values: tuple[int, ...]) -> list[bytes]:
    tests = [_step(_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]
    inner = [*tests, _step(_ANSWER, _ALLOW), _step(_ANSWER, _ERROR | errno.EPERM)]
    return [_step(_EQUAL, number, 0, len(inner) + 1), _step(_LOAD, _argument(place)), *inner]


def _allow_values(number: int, place: int, values: tuple[int, ...]) -> list[bytes]:
    tests = [_step(_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]
    inner = [*tests, _step(_ANSWER, _ERROR | errno.EAFNOSUPPORT), _step(_ANSWER, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(inner) + 1), _step(_LOAD, _argument(place)), *inner]
