"""Estimates memory that the kernel holds for a sandbox and that belongs to no process.

Only used without a cgroup, which would count it. Reads the sandbox's /proc.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from agentjobs_runtime.sandboxes.limits import KIB

# A pipe has two descriptors and two pages, after the pages that its user has in larger ones.
DESCRIPTOR_BYTES = 4 * KIB
# More than the kernel lets any socket buffer. Below this estimate, nothing is read.
_MAX_SOCKET_BYTES = 16 * 1024 * KIB
# What small segments can take up besides their content, before the kernel merges them.
_TCP_OVERHEAD_BYTES = 256 * KIB
_DATAGRAM = b"0002"
# The kernel's default for the queue of a datagram socket, and the one being sent.
_MAX_QUEUED_DATAGRAMS = 11
_SEND_BUFFER = Path("/proc/sys/net/core/wmem_default")
_INIT = "1/net"

Read = Callable[[str], bytes]


class SocketMemory:
    """Both return a file in the sandbox's /proc, or nothing. `read_table` may return a long one."""

    def __init__(self, read: Read, read_table: Read) -> None:
        self._read = read
        self._read_table = read_table
        self._send_buffer_bytes = int(_SEND_BUFFER.read_text())

    @property
    def max_bytes(self) -> int:
        """Takes microseconds; `used_bytes` reads the kernel's table of all connections."""
        first_line = self._read(f"{_INIT}/sockstat").partition(b"\n")[0].split()
        return int(first_line[2]) * _MAX_SOCKET_BYTES if len(first_line) == 3 else 0

    @property
    def used_bytes(self) -> int:
        return self._tcp() + self._udp() + self._netlink() + self._unix()

    def _tcp(self) -> int:
        """The kernel shows the content of the queues, and not what it takes up."""
        used = 0
        for name in ("tcp", "tcp6"):
            for fields in self._rows(name):
                if queued := _queued_bytes(fields[4]):
                    used += 2 * queued + _TCP_OVERHEAD_BYTES
        return used

    def _udp(self) -> int:
        names = ("udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6")
        return sum(_queued_bytes(fields[4]) for name in names for fields in self._rows(name))

    def _netlink(self) -> int:
        return sum(int(fields[4]) + int(fields[5]) for fields in self._rows("netlink"))

    def _unix(self) -> int:
        """The kernel does not show their queues, so each counts as full."""
        buffers = 0
        for fields in self._rows("unix"):
            buffers += _MAX_QUEUED_DATAGRAMS if fields[4] == _DATAGRAM else 1
        return buffers * self._send_buffer_bytes

    def _rows(self, name: str) -> Iterator[list[bytes]]:
        for line in self._read_table(f"{_INIT}/{name}").splitlines()[1:]:
            # A name with a newline in it makes two lines.
            if len(fields := line.split()) > 6:
                yield fields


def _queued_bytes(field: bytes) -> int:
    """The sum of a field like `00000000:00000000`."""
    sent, _, received = field.partition(b":")
    return int(sent, 16) + int(received, 16)
