"""A program of its own that opens ports inside a network namespace and hands them to the service.

Only a process with a single thread may enter a user namespace, so the service cannot do it itself.
Standard library only; it serves nobody, and ends as soon as it has answered.
"""

import array
import ctypes
import fcntl
import os
import struct

# `socket` brings a good 10 ms of imports with it, more than a sandbox needs to start.
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
    """Standard input is a socket: in come ports and a namespace, out go listening sockets."""
    service = socket(fileno=os.dup(0))
    ports, namespace = _request(service)
    if namespace is None:
        return
    try:
        listening = _open(ports, namespace)
    except OSError as error:
        service.sendall(str(error).encode())
        return
    rights = array.array("i", [sock.fileno() for sock in listening])
    service.sendmsg([OPENED], [(SOL_SOCKET, SCM_RIGHTS, rights)])


def _request(service: socket) -> tuple[list[int], int | None]:
    """No namespace: the service has gone away or does not need the doors any more."""
    text, ancillary, _, _ = service.recvmsg(4096, CMSG_LEN(4), MSG_CMSG_CLOEXEC)
    received = array.array("i", b"".join(data for _, _, data in ancillary))
    return [int(port) for port in text.split()], received[0] if received else None


def _open(ports: list[int], namespace: int) -> list[socket]:
    _enter(namespace)
    _raise_loopback()
    return [_listening(port) for port in ports]


def _enter(network: int) -> None:
    # A sandbox made by a user belongs to the user namespace that was made with it; what runs in
    # the sandbox is one namespace further down and owns nothing.
    if os.geteuid() != 0:
        _set_namespace(fcntl.ioctl(network, _NS_GET_USERNS), _CLONE_NEWUSER)
    _set_namespace(network, _CLONE_NEWNET)


def _set_namespace(descriptor: int, kind: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, kind) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise OSError(f"the network of the sandbox could not be entered: {reason}")


def _raise_loopback() -> None:
    any_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
    answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFFLAGS, _INTERFACE_REQUEST.pack(b"lo", 0))
    _, flags = _INTERFACE_REQUEST.unpack(answer)
    if not flags & _IFF_UP:
        fcntl.ioctl(
            any_socket.fileno(), _SIOCSIFFLAGS, _INTERFACE_REQUEST.pack(b"lo", flags | _IFF_UP)
        )


def _listening(port: int) -> socket:
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
    # Nothing is left to clean up, and the interpreter's own farewell takes a few milliseconds.
    os._exit(0)
