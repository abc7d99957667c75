"""A separate program that opens ports in a network namespace and passes them to the service.

Only a single-threaded process may enter a user namespace, so the service cannot do it itself.
Uses the standard library only, serves no connection and exits after its response.
"""

import array
import ctypes
import fcntl
import os
import struct

# Importing `socket` takes over 10 ms, longer than a sandbox takes to start.
from _socket import (
    AF_INET,
    CMSG_LEN,
    MSG_CMSG_CLOEXEC,
    SCM_RIGHTS,
    SO_REUSEADDR,
    SOCK_CLOEXEC,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
)

BACKLOG = 256
OPENED = b"\0"
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_NS_GET_USERNS = 0xB701
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_INTERFACE_REQUEST = struct.Struct("16sH14x")


def main() -> None:
    """Read ports and a namespace from the socket on stdin; send back listening sockets."""
    service = socket(fileno=os.dup(0))
    ports, namespace = _read_request(service)
    if namespace is None:
        return
    try:
        listeners = _open(ports, namespace)
    except OSError as error:
        service.sendall(str(error).encode())
        return
    rights = array.array("i", [sock.fileno() for sock in listeners])
    service.sendmsg([OPENED], [(SOL_SOCKET, SCM_RIGHTS, rights)])


def _read_request(service: socket) -> tuple[list[int], int | None]:
    """The namespace is None if the service ended or no longer needs the ports."""
    text, ancillary, _, _ = service.recvmsg(4096, CMSG_LEN(4), MSG_CMSG_CLOEXEC)
    received = array.array("i", b"".join(data for _, _, data in ancillary))
    return [int(port) for port in text.split()], received[0] if received else None


def _open(ports: list[int], namespace: int) -> list[socket]:
    enter(namespace)
    _bring_up_loopback()
    return [_listen(port) for port in ports]


def enter(network: int) -> None:
    """The calling process moves to this network namespace. Raises OSError."""
    # A sandbox created by an ordinary user belongs to the user namespace created with it; the
    # agent runs in a namespace below and owns nothing.
    if os.geteuid() != 0:
        _set_namespace(fcntl.ioctl(network, _NS_GET_USERNS), _CLONE_NEWUSER)
    _set_namespace(network, _CLONE_NEWNET)


def _set_namespace(descriptor: int, kind: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, kind) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise OSError(f"cannot enter the network of the sandbox: {reason}")


def _bring_up_loopback() -> None:
    sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
    reply = fcntl.ioctl(sock.fileno(), _SIOCGIFFLAGS, _INTERFACE_REQUEST.pack(b"lo", 0))
    _, flags = _INTERFACE_REQUEST.unpack(reply)
    if not flags & _IFF_UP:
        fcntl.ioctl(sock.fileno(), _SIOCSIFFLAGS, _INTERFACE_REQUEST.pack(b"lo", flags | _IFF_UP))


def _listen(port: int) -> socket:
    sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
    sock.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        sock.bind(("0.0.0.0", port))  # noqa: S104 - every address of the sandbox's own loopback
        sock.listen(BACKLOG)
    except OSError as error:
        raise OSError(f"port {port}: {error.strerror}") from None
    return sock


if __name__ == "__main__":
    main()
    # There is nothing to clean up, and the interpreter's shutdown takes a few milliseconds.
    os._exit(0)
