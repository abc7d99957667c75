"""What the system call filter returns, on each supported architecture."""

import errno
import os
import re
import socket
import stat
from pathlib import Path

import pytest

from agentjobs_worker.sandbox.allowed_calls import ALLOWED, REFUSED
from agentjobs_worker.sandbox.seccomp import ALLOW, ERRNO, KILL, filter_program
from agentjobs_worker.sandbox.syscalls import AARCH64, ARCHITECTURES, X86_64, Architecture
from tests.support.bpf import verdict

MAX_INSTRUCTIONS = 4096
CLONE_THREAD_FLAGS = 0x003D_0F00
NAMESPACES = (0x0002_0000, 0x0200_0000, *(0x0400_0000 << step for step in range(5)))
PERMISSION = ERRNO | errno.EPERM
UNKNOWN = ERRNO | errno.ENOSYS


class Filter:
    def __init__(self, architecture: Architecture, *, all_memory_is_counted: bool = False) -> None:
        self.architecture = architecture
        self.program = filter_program(architecture, all_memory_is_counted=all_memory_is_counted)

    def on(self, name: str, *arguments: int) -> int:
        number = self.architecture.numbers[name]
        return verdict(self.program, self.architecture.audit, number, arguments)

    def on_number(self, number: int) -> int:
        return verdict(self.program, self.architecture.audit, number)


@pytest.fixture(params=list(ARCHITECTURES.values()), ids=list(ARCHITECTURES))
def seccomp(request: pytest.FixtureRequest) -> Filter:
    return Filter(request.param)


def test_the_program_is_short_enough_for_the_kernel(seccomp: Filter) -> None:
    assert len(seccomp.program) % 8 == 0
    assert len(seccomp.program) // 8 < MAX_INSTRUCTIONS


def test_every_refused_call_is_refused(seccomp: Filter) -> None:
    refused = [name for name in REFUSED if name in seccomp.architecture.numbers]
    assert {seccomp.on(name) for name in refused} == {PERMISSION}


def test_every_allowed_call_is_allowed(seccomp: Filter) -> None:
    allowed = [name for name in ALLOWED if name in seccomp.architecture.numbers]
    assert {seccomp.on(name, *[0xFFFF_FFFF_FFFF_FFFF] * 6) for name in allowed} == {ALLOW}
    assert not ALLOWED & REFUSED


def test_every_call_that_is_not_listed_is_unknown(seccomp: Filter) -> None:
    numbers = seccomp.architecture.numbers
    assert {seccomp.on_number(number) for number in {*range(2000)} - {*numbers.values()}} == {
        UNKNOWN
    }
    # Mount points with their sources on the machine, asynchronous I/O, and calls of old kernels.
    for name in ("statmount", "listmount", "io_setup", "vmsplice", "process_madvise"):
        assert seccomp.on(name) == UNKNOWN


def test_every_listed_call_exists_on_an_architecture() -> None:
    assert X86_64.numbers.keys() | AARCH64.numbers.keys() >= (ALLOWED | REFUSED)


def test_no_two_calls_share_a_number(seccomp: Filter) -> None:
    numbers = _numbers(seccomp)
    assert len(set(numbers.values())) == len(numbers)


def test_threads_can_be_created_and_namespaces_cannot(seccomp: Filter) -> None:
    assert seccomp.on("clone", CLONE_THREAD_FLAGS) == ALLOW
    assert seccomp.on("clone", 17) == ALLOW
    assert {seccomp.on("clone", flag | 17) for flag in NAMESPACES} == {PERMISSION}
    assert seccomp.on("clone3") == ERRNO | errno.ENOSYS


def test_a_thread_cannot_have_descriptors_of_its_own(seccomp: Filter) -> None:
    without_files = CLONE_THREAD_FLAGS & ~0x400
    assert seccomp.on("clone", without_files) == PERMISSION


def test_only_ordinary_sockets_and_the_routing_table_can_be_opened(seccomp: Filter) -> None:
    unsupported = ERRNO | errno.EAFNOSUPPORT
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        assert seccomp.on("socket", family, socket.SOCK_STREAM, 6) == ALLOW
        assert seccomp.on("socketpair", family) == ALLOW
    assert seccomp.on("socket", socket.AF_NETLINK, socket.SOCK_RAW, 0) == ALLOW
    assert seccomp.on("socket", socket.AF_NETLINK, socket.SOCK_RAW, 12) == unsupported
    assert seccomp.on("socketpair", socket.AF_NETLINK) == unsupported
    for family in {*range(46)} - {1, 2, 10, 16}:
        assert seccomp.on("socket", family) == unsupported
    assert seccomp.on("socket", socket.AF_INET, 1, 132) == ERRNO | errno.EPROTONOSUPPORT
    # The kernel reads the low half of the argument only, and so must the filter.
    assert seccomp.on("socket", (1 << 32) | socket.AF_PACKET) == unsupported


def test_terminal_injection_is_refused(seccomp: Filter) -> None:
    assert seccomp.on("ioctl", 0, 0x5412) == PERMISSION
    assert seccomp.on("ioctl", 0, 0x541C) == PERMISSION
    assert seccomp.on("ioctl", 0, (1 << 32) | 0x5412) == PERMISSION
    assert seccomp.on("ioctl", 0, 0x5413) == ALLOW


def test_the_personality_can_be_read_but_not_changed(seccomp: Filter) -> None:
    assert seccomp.on("personality", 0xFFFF_FFFF) == ALLOW
    assert seccomp.on("personality", 0) == ALLOW
    assert seccomp.on("personality", 0x0004_0000) == PERMISSION


@pytest.mark.parametrize(
    ("name", "position"),
    [
        *(("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)),
        *(("creat", 1), ("mkdir", 1), ("mkdirat", 2), ("mknod", 1), ("mknodat", 2)),
    ],
)
def test_setuid_bits_are_refused(seccomp: Filter, name: str, position: int) -> None:
    if name in _numbers(seccomp):
        before = [0] * position
        assert seccomp.on(name, *before, 0o755) == ALLOW
        assert seccomp.on(name, *before, 0o2755) == ALLOW
        assert seccomp.on(name, *before, 0o4755) == PERMISSION


@pytest.mark.parametrize(("name", "position"), [("open", 1), ("openat", 2)])
def test_a_file_cannot_be_opened_with_the_setuid_bit(
    seccomp: Filter, name: str, position: int
) -> None:
    if name in _numbers(seccomp):
        before = [0] * position
        for flag in (os.O_CREAT, os.O_TMPFILE):
            assert seccomp.on(name, *before, flag | os.O_RDWR, 0o4755) == PERMISSION
            assert seccomp.on(name, *before, flag | os.O_RDWR, 0o755) == ALLOW
        # The mode has no meaning, and a program need not set it.
        assert seccomp.on(name, *before, os.O_RDONLY | os.O_DIRECTORY, 0o4755) == ALLOW
    assert seccomp.on("openat2") == UNKNOWN


@pytest.mark.parametrize(("name", "position"), [("mknod", 1), ("mknodat", 2)])
def test_pipes_can_be_created_and_devices_cannot(seccomp: Filter, name: str, position: int) -> None:
    if name in _numbers(seccomp):
        before = [0] * position
        assert seccomp.on(name, *before, stat.S_IFIFO | 0o644) == ALLOW
        assert seccomp.on(name, *before, stat.S_IFCHR | 0o644) == PERMISSION
        assert seccomp.on(name, *before, stat.S_IFBLK | 0o644) == PERMISSION


def test_memory_that_belongs_to_no_process_is_refused_unless_it_is_counted(
    seccomp: Filter,
) -> None:
    calls = ("memfd_create", "semget", "msgget", "mq_open")
    assert {seccomp.on(name) for name in calls} == {UNKNOWN}
    assert seccomp.on("shmget", 0, 56) == ALLOW
    assert seccomp.on("shmget", 0, 4096) == ALLOW
    assert seccomp.on("shmget", 0, 4097) == PERMISSION
    assert seccomp.on("shmget", 0, 1 << 32) == PERMISSION
    counted = Filter(seccomp.architecture, all_memory_is_counted=True)
    assert {counted.on(name) for name in calls} == {ALLOW}
    assert counted.on("shmget", 0, 1 << 32) == ALLOW


def test_the_buffers_of_sockets_keep_their_size_unless_they_are_counted(seccomp: Filter) -> None:
    without_effect = ERRNO | 0
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        assert seccomp.on("setsockopt", 3, socket.SOL_SOCKET, option) == without_effect
    assert seccomp.on("setsockopt", 3, socket.SOL_SOCKET, socket.SO_REUSEADDR) == ALLOW
    assert seccomp.on("setsockopt", 3, socket.IPPROTO_TCP, socket.SO_SNDBUF) == ALLOW
    counted = Filter(seccomp.architecture, all_memory_is_counted=True)
    assert counted.on("setsockopt", 3, socket.SOL_SOCKET, socket.SO_SNDBUF) == ALLOW


def test_calls_of_another_architecture_kill_the_process() -> None:
    for own, foreign in ((X86_64, AARCH64), (AARCH64, X86_64)):
        program = filter_program(own, all_memory_is_counted=False)
        assert verdict(program, foreign.audit, 0) == KILL
        assert verdict(program, 0x4000_0003, 0) == KILL


def test_x32_call_numbers_are_refused_on_x86_64() -> None:
    assert Filter(X86_64).on_number(0x4000_0000 + 1) == ERRNO | errno.ENOSYS
    assert Filter(X86_64).on_number(-1) == ERRNO | errno.ENOSYS


def test_numbers_match_the_kernel_headers_of_this_machine_if_installed() -> None:
    header = Path("/usr/include/asm-generic/unistd.h")
    text = header.read_text() if header.is_file() else ""
    found = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    }
    ours = {name: AARCH64.numbers[name] for name in AARCH64.numbers.keys() & found.keys()}
    assert ours == {name: found[name] for name in ours}


def _numbers(seccomp: Filter) -> dict[str, int]:
    return dict(seccomp.architecture.numbers)
