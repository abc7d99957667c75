"""The event loop of a service on a machine that cannot start another thread."""

import asyncio
import os
import resource
import socket
import subprocess
import sys

from agentjobs.cli.services import _run
from tests.support.paths import PROJECT

_NOBODY = 65_534


async def connect_without_threads() -> None:
    # Imported lazily; it may not be readable for an ordinary user.
    "localhost".encode("idna")
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.setblocking(False)
        if os.geteuid() == 0:
            # No such limit applies to root.
            os.setuid(_NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        await asyncio.get_running_loop().sock_connect(client, listener.getsockname())


def test_the_first_connection_needs_no_new_thread() -> None:
    """libuv ends the process if it cannot start its threads."""
    done = subprocess.run(
        [sys.executable, "-m", __name__], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    _run(connect_without_threads())
