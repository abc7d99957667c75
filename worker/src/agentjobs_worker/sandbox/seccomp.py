"""The system call filter: the calls that an agent may make, as a classic BPF program.

Every other call fails. Builds the program; bwrap installs it.
"""

import errno
import os
import socket
import stat
import struct
from collections.abc import Iterable, Sequence
from itertools import groupby

from agentjobs_worker.sandbox.allowed_calls import ALLOWED, REFUSED
from agentjobs_worker.sandbox.syscalls import Architecture

CLONE_NEW_ANYTHING = 0x7E02_0000
# A thread with descriptors of its own hides them: /proc/PID/fd shows those of the first thread.
CLONE_THREAD, CLONE_FILES = 0x0001_0000, 0x0000_0400
TERMINAL_INJECTIONS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
DEFAULT_PERSONALITIES = (0, 0xFFFF_FFFF)  # PER_LINUX, and the query for the current one
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
# The kernel does not show the buffers of others, such as SCTP, in a table of its own.
PROTOCOLS = (0, socket.IPPROTO_ICMP, socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMPV6)
# Names and addresses of interfaces, which the C library reads before it looks up a host.
NETLINK_ROUTE = 0
# Enough for the segment with which PostgreSQL locks its directory. A detached segment belongs to
# no process, and there may be 4,096 of them.
MAX_SHARED_SEGMENT_BYTES = 4096
BUFFER_OPTIONS = (socket.SO_SNDBUF, socket.SO_RCVBUF)
CREATES_FILE = os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)
CHANGES_MODE = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
FIRST_X32_NUMBER = 0x4000_0000

ALLOW = 0x7FFF_0000
KILL = 0x8000_0000
ERRNO = 0x0005_0000

_FILE_TYPE = 0o170000
_LOAD = 0x20
_MASK = 0x54
_JUMP = 0x05
_JUMP_EQUAL = 0x15
_JUMP_GREATER = 0x25
_JUMP_AT_LEAST = 0x35
_RETURN = 0x06
_NUMBER_OFFSET = 0
_ARCHITECTURE_OFFSET = 4
_ARGUMENTS_OFFSET = 16

Instruction = tuple[int, int, int, int]
Program = list[Instruction]


def filter_program(
    architecture: Architecture, *, all_memory_is_counted: bool, allows_setuid_bits: bool = False
) -> bytes:
    """`all_memory_is_counted`: the limit includes memory that no process has mapped."""
    numbers = architecture.numbers
    rules = dict(_rules(all_memory_is_counted=all_memory_is_counted))
    if allows_setuid_bits:
        rules |= dict.fromkeys(CHANGES_MODE, _return(ALLOW))
    bodies = {numbers[name]: body for name, body in rules.items() if name in numbers}
    default = _refuse(errno.ENOSYS)
    by_number = ((number, bodies.get(number, default)) for number in range(max(bodies) + 2))
    # The first number of each run of calls with the same rule.
    runs = [next(run) for _, run in groupby(by_number, key=lambda entry: entry[1])]
    program = _check_architecture(architecture) + _search(runs)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _search(runs: Sequence[tuple[int, Program]]) -> Program:
    """A binary search: on loading, the kernel runs the program for every number."""
    if len(runs) == 1:
        return runs[0][1]
    middle = len(runs) // 2
    below = _search(runs[:middle])
    # Conditional jumps reach 255 instructions only.
    return [
        (_JUMP_AT_LEAST, 0, 1, runs[middle][0]),
        (_JUMP, 0, 0, len(below)),
        *below,
        *_search(runs[middle:]),
    ]


def _check_architecture(architecture: Architecture) -> Program:
    """Numbers are only valid for the architecture they belong to."""
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_JUMP_EQUAL, 1, 0, architecture.audit),
        *_return(KILL),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
    ]
    if architecture.has_x32:
        program += [(_JUMP_AT_LEAST, 0, 1, FIRST_X32_NUMBER), *_refuse(errno.ENOSYS)]
    return program


def _rules(*, all_memory_is_counted: bool) -> Iterable[tuple[str, Program]]:
    """The instructions for each call; each path through them returns an action."""
    yield from ((name, _return(ALLOW)) for name in ALLOWED)
    yield from ((name, _refuse()) for name in REFUSED)
    # Their flags and mode are behind a pointer. On ENOSYS, programs fall back to clone and openat.
    yield from ((name, _refuse(errno.ENOSYS)) for name in ("clone3", "openat2"))
    yield "clone", _refuse_bits(0, CLONE_NEW_ANYTHING, _refuse_hidden_descriptors())
    yield "ioctl", _refuse_any(1, TERMINAL_INJECTIONS)
    yield "personality", _allow_any(0, DEFAULT_PERSONALITIES, _refuse())
    yield from _socket_rules()
    yield from _file_rules()
    yield from _memory_rules(all_memory_is_counted=all_memory_is_counted)


def _socket_rules() -> Iterable[tuple[str, Program]]:
    netlink = _allow_any(2, (NETLINK_ROUTE,), _refuse(errno.EAFNOSUPPORT))
    otherwise = _if_equal(socket.AF_NETLINK, netlink)
    internet = _allow_any(2, PROTOCOLS, _refuse(errno.EPROTONOSUPPORT))
    yield (
        "socket",
        [
            _argument(0),
            *_jump_if_any(FAMILIES, len(otherwise)),
            *otherwise,
            *internet,
        ],
    )
    yield "socketpair", _allow_any(0, FAMILIES, _refuse(errno.EAFNOSUPPORT))


def _file_rules() -> Iterable[tuple[str, Program]]:
    creates = {"creat": 1, "mkdir": 1, "mkdirat": 2}
    for name, position in (CHANGES_MODE | creates).items():
        yield name, _refuse_bits(position, stat.S_ISUID)
    for name, position in (("open", 1), ("openat", 2)):
        # Without these flags, the mode may be anything.
        yield (
            name,
            [
                _argument(position),
                (_MASK, 0, 0, CREATES_FILE),
                (_JUMP_EQUAL, 0, 1, 0),
                *_return(ALLOW),
                *_refuse_bits(position + 1, stat.S_ISUID),
            ],
        )
    for name, position in (("mknod", 1), ("mknodat", 2)):
        yield name, _refuse_bits(position, stat.S_ISUID, _refuse_devices(position))


def _memory_rules(*, all_memory_is_counted: bool) -> Iterable[tuple[str, Program]]:
    calls = ("memfd_create", "semget", "msgget", "mq_open")
    if all_memory_is_counted:
        yield from ((name, _return(ALLOW)) for name in (*calls, "shmget", "setsockopt"))
        return
    yield from ((name, _refuse(errno.ENOSYS)) for name in calls)
    yield "shmget", _allow_at_most(1, MAX_SHARED_SEGMENT_BYTES)
    # The watchdog assumes the default sizes. The kernel, too, lowers a size without an error.
    ignored = [*_jump_if_any(BUFFER_OPTIONS, 1), *_return(ALLOW), *_return(ERRNO | 0)]
    yield (
        "setsockopt",
        [
            _argument(1),
            (_JUMP_EQUAL, 1, 0, socket.SOL_SOCKET),
            *_return(ALLOW),
            _argument(2),
            *ignored,
        ],
    )


def _return(action: int) -> Program:
    return [(_RETURN, 0, 0, action)]


def _refuse(number: int = errno.EPERM) -> Program:
    return _return(ERRNO | number)


def _argument(position: int, *, high: bool = False) -> Instruction:
    # Both architectures are little-endian, and the kernel reads int arguments from the low half.
    return (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * position + 4 * high)


def _refuse_bits(position: int, bits: int, otherwise: Program | None = None) -> Program:
    return [
        _argument(position),
        (_MASK, 0, 0, bits),
        (_JUMP_EQUAL, 1, 0, 0),
        *_refuse(),
        *(otherwise or _return(ALLOW)),
    ]


def _refuse_hidden_descriptors() -> Program:
    return [
        _argument(0),
        (_MASK, 0, 0, CLONE_THREAD | CLONE_FILES),
        (_JUMP_EQUAL, 0, 1, CLONE_THREAD),
        *_refuse(),
        *_return(ALLOW),
    ]


def _allow_any(position: int, values: Sequence[int], otherwise: Program) -> Program:
    return [
        _argument(position),
        *_jump_if_any(values, len(otherwise)),
        *otherwise,
        *_return(ALLOW),
    ]


def _refuse_any(position: int, values: Sequence[int]) -> Program:
    return [_argument(position), *_jump_if_any(values, 1), *_return(ALLOW), *_refuse()]


def _jump_if_any(values: Sequence[int], over: int) -> Program:
    """Jump over this many instructions after the last comparison."""
    last = len(values) - 1
    return [(_JUMP_EQUAL, last - index + over, 0, value) for index, value in enumerate(values)]


def _if_equal(value: int, body: Program) -> Program:
    """Run the body if the loaded value matches; otherwise refuse."""
    return [(_JUMP_EQUAL, 1, 0, value), *_refuse(errno.EAFNOSUPPORT), *body]


def _refuse_devices(position: int) -> Program:
    return [
        _argument(position),
        (_MASK, 0, 0, _FILE_TYPE),
        (_JUMP_EQUAL, 2, 0, stat.S_IFCHR),
        (_JUMP_EQUAL, 1, 0, stat.S_IFBLK),
        *_return(ALLOW),
        *_refuse(),
    ]


def _allow_at_most(position: int, value: int) -> Program:
    return [
        _argument(position, high=True),
        (_JUMP_EQUAL, 0, 2, 0),
        _argument(position),
        (_JUMP_GREATER, 0, 1, value),
        *_refuse(),
        *_return(ALLOW),
    ]
