"""A program that connects to a port in the network namespace on its standard input, and passes the
sockets on: connections stay where they were opened."""

import os
import sys
import time
from array import array
from pathlib import Path
from socket import AF_INET, AF_UNIX, SCM_RIGHTS, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket

sys.path.insert(0, str(Path(__file__).parents[2] / "worker" / "src"))
from agentjobs_worker.sandbox.port_listener import enter

WAIT_SECONDS = 60


def connect(port: int, source: str) -> socket:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        sock = socket(AF_INET, SOCK_STREAM)
        sock.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        sock.bind((source, 0))
        try:
            sock.connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            sock.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)
            continue
        return sock


def main() -> None:
    passed = socket(AF_UNIX, SOCK_STREAM, fileno=int(sys.argv[2]))
    enter(0)
    connected = [connect(int(sys.argv[1]), sys.argv[3]) for _ in range(int(sys.argv[4]))]
    descriptors = array("i", [sock.fileno() for sock in connected])
    passed.sendmsg([b"\0"], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
    os._exit(0)


main()
