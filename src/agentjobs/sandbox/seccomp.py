"""The system call filter: calls that an agent may never make, as a classic BPF program.

Everything else is allowed. Builds the program; bwrap installs it.
"""

import errno
import socket
import stat
import struct
from collections.abc import Iterable, Mapping, Sequence

from agentjobs.sandbox.syscalls import Architecture

# Calls that create or join a namespace, mount, inspect other processes, load code into the kernel,
# or use kernel features that agents do not need and that had vulnerabilities before.
REFUSED = (
    *("mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "unshare", "setns"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"),
    *("add_key", "request_key", "keyctl"),
    *("bpf", "perf_event_open", "userfaultfd", "fanotify_init", "lookup_dcookie", "syslog"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_secret"),
    *("init_module", "finit_module", "delete_module", "create_module", "query_module"),
    *("kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct"),
    *("quotactl", "quotactl_fd", "nfsservctl", "name_to_handle_at", "open_by_handle_at"),
    *("iopl", "ioperm", "modify_ldt", "uselib", "vhangup"),
)
CLONE_NEW_ANYTHING = 0x7E02_0000
TERMINAL_INJECTIONS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
DEFAULT_PERSONALITIES = (0, 0xFFFF_FFFF)  # PER_LINUX, and the query for the current one
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
# Names and addresses of interfaces, which the C library reads before it looks up a host.
NETLINK_ROUTE = 0
# Enough for the segment with which PostgreSQL locks its directory. A detached segment belongs to
# no process, so it must stay small.
MAX_SHARED_SEGMENT_BYTES = 64 * 1024
FIRST_X32_NUMBER = 0x4000_0000

ALLOW = 0x7FFF_0000
KILL = 0x8000_0000
ERRNO = 0x0005_0000

_CALLS_PER_CHUNK = 8
_FILE_TYPE = 0o170000
_LOAD = 0x20
_MASK = 0x54
_JUMP_EQUAL = 0x15
_JUMP_GREATER = 0x25
_JUMP_AT_LEAST = 0x35
_RETURN = 0x06
_NUMBER_OFFSET = 0
_ARCHITECTURE_OFFSET = 4
_ARGUMENTS_OFFSET = 16

Instruction = tuple[int, int, int, int]
Program = list[Instruction]


def filter_program(architecture: Architecture, *, all_memory_is_counted: bool) -> bytes:
    """`all_memory_is_counted`: the limit includes memory that no process has mapped."""
    bodies = {
        architecture.numbers[name]: body
        for name, body in _rules(all_memory_is_counted=all_memory_is_counted)
        if name in architecture.numbers
    }
    numbers = sorted(bodies)
    program = _check_architecture(architecture)
    for start in range(0, len(numbers), _CALLS_PER_CHUNK):
        program += _dispatch(
            {number: bodies[number] for number in numbers[start : start + _CALLS_PER_CHUNK]}
        )
    program += _return(ALLOW)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _dispatch(bodies: Mapping[int, Program]) -> Program:
    """Skip numbers above the last at once: on loading, the kernel runs it for every number."""
    program: Program = []
    for number, body in bodies.items():
        program += [(_JUMP_EQUAL, 0, len(body), number), *body]
    program += _return(ALLOW)
    return [(_JUMP_GREATER, len(program), 0, max(bodies)), *program]


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
    for name in REFUSED:
        yield name, _refuse()
    # Its flags are behind a pointer. On ENOSYS, the C library falls back to clone.
    yield "clone3", _refuse(errno.ENOSYS)
    yield "clone", _refuse_bits(0, CLONE_NEW_ANYTHING)
    yield "ioctl", _refuse_one_of(1, TERMINAL_INJECTIONS)
    yield "personality", _allow_one_of(0, DEFAULT_PERSONALITIES, _refuse())
    netlink = _allow_one_of(2, (NETLINK_ROUTE,), _refuse(errno.EAFNOSUPPORT))
    yield "socket", _allow_one_of(0, FAMILIES, _if_equal(socket.AF_NETLINK, netlink))
    yield "socketpair", _allow_one_of(0, FAMILIES, _refuse(errno.EAFNOSUPPORT))
    for name, position in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        yield name, _refuse_bits(position, stat.S_ISUID)
    for name, position in (("mknod", 1), ("mknodat", 2)):
        yield name, _refuse_devices(position)
    if not all_memory_is_counted:
        yield "memfd_create", _refuse(errno.ENOSYS)
        yield "shmget", _allow_at_most(1, MAX_SHARED_SEGMENT_BYTES)


def _return(action: int) -> Program:
    return [(_RETURN, 0, 0, action)]


def _refuse(number: int = errno.EPERM) -> Program:
    return _return(ERRNO | number)


def _argument(position: int, *, high: bool = False) -> Instruction:
    # Both architectures are little-endian, and the kernel reads int arguments from the low half.
    return (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * position + 4 * high)


def _refuse_bits(position: int, bits: int) -> Program:
    return [
        _argument(position),
        (_MASK, 0, 0, bits),
        (_JUMP_EQUAL, 1, 0, 0),
        *_refuse(),
        *_return(ALLOW),
    ]


def _allow_one_of(position: int, values: Sequence[int], otherwise: Program) -> Program:
    return [
        _argument(position),
        *_jump_if_one_of(values, len(otherwise)),
        *otherwise,
        *_return(ALLOW),
    ]


def _refuse_one_of(position: int, values: Sequence[int]) -> Program:
    return [_argument(position), *_jump_if_one_of(values, 1), *_return(ALLOW), *_refuse()]


def _jump_if_one_of(values: Sequence[int], over: int) -> Program:
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
