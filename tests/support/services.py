"""An agent with services beside it, each in a sandbox of its own."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from agentjobs_runtime.environments.definition import ServiceDefinition
from agentjobs_runtime.environments.images.model import Image
from agentjobs_worker.environments.running_service import ServiceFailed, ServiceTask
from agentjobs_worker.environments.services import RunningServices, running_services, service_task
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxPort
from tests.support.image_roots import give_image
from tests.support.sandbox import SandboxHarness, eventually

_IMAGE_SLOT = 9
_MAX_OUTPUT_BYTES = 64 * 1024
# Answers each connection on its ports with what it sent, after the client has sent everything.
ECHO = """
import socket, sys, threading
def serve(listener):
    while True:
        connection = listener.accept()[0]
        threading.Thread(target=answer, args=(connection,), daemon=True).start()
def answer(connection):
    received = connection.makefile("rb").read()
    connection.sendall(b"echo " + received)
    connection.close()
for argument in sys.argv[1:]:
    host, _, port = argument.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, int(port)))
    listener.listen(512)
    threading.Thread(target=serve, args=(listener,)).start()
"""
# Connects to each HOST:PORT, sends "hello" and prints the answer or the error.
CLIENT = """
import socket, sys
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(b"hello")
            connection.shutdown(socket.SHUT_WR)
            print(port, connection.makefile().read())
    except OSError as error:
        print(port, type(error).__name__)
"""


def echo_service(*addresses: str) -> tuple[str, ...]:
    return ("python3", "-c", ECHO, *addresses)


def echo_until(file: str, address: str) -> tuple[str, ...]:
    """Ends with exit code 5 when this file appears in its workspace."""
    script = f'python3 -c "$0" "$1" & while [ ! -e {file} ]; do sleep 0.02; done; exit 5'
    return ("sh", "-c", script, ECHO, address)


class ServiceHarness:
    """`output` holds the beginning of each service's; `ended` those that ended by themselves."""

    def __init__(self, sandbox: Sandbox, base: Path) -> None:
        self.sandbox = sandbox
        self.agent = SandboxHarness(sandbox, base)
        self.output: dict[str, bytes] = {}
        self.ended: list[ServiceFailed] = []
        self._base = base
        self._slots = 0

    def service(self, name: str, *argv: str, ready: str = "", **changes: Any) -> ServiceTask:
        task = self._new_sandbox().task(*argv, **changes)
        return ServiceTask(name=name, task=task, ready=ready)

    def image(self, root: Path, **fields: Any) -> Image:
        """Owned by a slot that runs nothing."""
        owner_uid = self.sandbox.owner_uid(_IMAGE_SLOT)
        give_image(root, owner_uid)
        return Image(
            reference="registry.example.com/it",
            digest="sha256:0",
            root=root,
            owner_uid=owner_uid,
            size_bytes=0,
            variables={"PATH": "/bin"},
            working_directory="/srv",
            **fields,
        )

    def image_service(self, definition: ServiceDefinition, image: Image) -> ServiceTask:
        harness = self._new_sandbox()
        root = harness.layer(PurePosixPath("/"), image.root, _IMAGE_SLOT)
        return service_task(definition, image, harness.task(layers=(root,)))

    @contextlib.asynccontextmanager
    async def running(self, *tasks: ServiceTask, **options: Any) -> AsyncIterator[RunningServices]:
        async with running_services(
            tasks, self.sandbox, on_output=self._receive, on_end=self.ended.append, **options
        ) as services:
            yield services

    async def connect(self, services: RunningServices, *targets: str) -> list[str]:
        return await self.connect_with(services.ports(), *targets)

    async def connect_with(self, ports: Sequence[SandboxPort], *targets: str) -> list[str]:
        """What an agent with these ports gets from each HOST:PORT."""
        self.agent.output = b""
        await self.agent.run("python3", "-c", CLIENT, *targets, ports=tuple(ports))
        return self.agent.output.decode().splitlines()

    async def wait_for_output(self, name: str, text: bytes) -> None:
        await eventually(lambda: text in self.output.get(name, b""), 60)

    def _new_sandbox(self) -> SandboxHarness:
        self._slots += 1
        return SandboxHarness(self.sandbox, self._base, slot=self._slots)

    def _receive(self, name: str, chunk: bytes) -> None:
        before = self.output.get(name, b"")
        self.output[name] = before + chunk[: _MAX_OUTPUT_BYTES - len(before)]
