"""A separate program that connects ports of an agent's sandbox to a service in another sandbox.

It enters the network of the service; `relay_process` passes it the sockets that listen in the
agent's. Needs nothing but the standard library, and ends when its control socket is closed.
"""

import array
import contextlib
import os
import socket
from pathlib import Path
from typing import NoReturn

from agentjobs_worker.sandbox.port_listener import enter
from agentjobs_worker.sandbox.relayed_connections import RelayedConnections

ENTERED = b"\0"
SAME_USER = -1
PORTS_REQUEST = b"ports"
MAX_PORTS = 32
NICE_INCREMENT = 10
_LOWEST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_SOCKET_TABLES = (Path("/proc/thread-self/net/tcp"), Path("/proc/thread-self/net/tcp6"))
_LISTENING = b"0A"
_IPV4_IN_IPV6 = b"0" * 16 + b"FFFF0000"
# 0.0.0.0, 127.0.0.1, ::, ::1, and the first two in IPv6, as the kernel's tables show them.
_LOCAL_HOSTS = frozenset(
    (
        *(b"00000000", b"0100007F", b"0" * 32, b"0" * 24 + b"01000000"),
        *(_IPV4_IN_IPV6 + b"00000000", _IPV4_IN_IPV6 + b"0100007F"),
    )
)


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    request, namespace = _receive(control)
    if namespace is None:
        return
    try:
        _enter(namespace, int(request))
    except OSError as error:
        control.send(str(error).encode())
        return
    control.send(ENTERED)
    relay(control)


def relay(control: socket.socket) -> NoReturn:
    """Follow the worker's requests, until it closes the socket."""
    connections = RelayedConnections()

    def follow_request() -> None:
        request, listener = _receive(control)
        if not request:
            # There is nothing to clean up.
            os._exit(0)
        if request == PORTS_REQUEST:
            control.send(f"{' '.join(map(str, listening_ports()))}\n".encode())
        elif listener is not None:
            connections.listen(int(request), socket.socket(fileno=listener))

    connections.run(control, follow_request)


def listening_ports() -> set[int]:
    """Ports of the network that this process has entered. Stops after one port too many."""
    ports: set[int] = set()
    for path in _SOCKET_TABLES:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as table:
            next(table)
            for row in table:
                _, local, _, state = row.split(maxsplit=4)[:4]
                # The kernel lists listening sockets first.
                if state != _LISTENING or len(ports) > MAX_PORTS:
                    break
                host, _, port = local.partition(b":")
                if host in _LOCAL_HOSTS:
                    ports.add(int(port, 16))
    return ports


def _enter(namespace: int, uid: int) -> None:
    enter(namespace)
    os.close(namespace)
    os.nice(NICE_INCREMENT)
    # Images often listen on ports below 1024, and a service has no capability.
    with contextlib.suppress(OSError):
        _LOWEST_PORT.write_text("0")
    if uid != SAME_USER:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def _receive(control: socket.socket) -> tuple[bytes, int | None]:
    """One message, which is empty when the worker has closed the socket, and its descriptor."""
    request, ancillary, _, _ = control.recvmsg(64, socket.CMSG_LEN(4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i", b"".join(data for _, _, data in ancillary))
    return request, descriptors[0] if descriptors else None
