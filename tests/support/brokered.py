"""A broker on real ports, and the private host behind it: a TLS server that wants a credential."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from agentjobs_runtime.environments.brokered_host import BrokeredHost
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_worker.environments.broker import Broker
from agentjobs_worker.sandbox.ports import SandboxPorts
from tests.support.forge_servers.authority import authorities, tls

SECRET = "s3cret/of+the=organization"
LOOPBACK = ("127.0.0.0/8",)

Respond = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class PrivateHost:
    """`requests` has the method, target and headers of each request with the credential."""

    address: str
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"https://{self.address}"


@dataclass
class BrokerHarness:
    broker: Broker
    host: PrivateHost
    address: str
    environment: Mapping[str, str]
    http: aiohttp.ClientSession
    notes: list[str]

    async def send(
        self, target: str, method: str = "GET", **options: Any
    ) -> tuple[int, str, Mapping[str, str]]:
        options.setdefault("allow_redirects", False)
        url = URL(f"http://{self.address}{target}", encoded=True)
        async with self.http.request(method, url, **options) as response:
            return response.status, await response.text(), response.headers

    async def send_raw(self, head: str, body: bytes = b"") -> bytes:
        """The bytes of the response to a request that no client library would send."""
        reader, writer = await asyncio.open_connection(*self.address.split(":"))
        try:
            writer.write(f"{head}\r\nHost: x\r\nConnection: close\r\n\r\n".encode() + body)
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()

    async def run(self, directory: Path, *command: str) -> None:
        """Run a program with the broker's variables and no configuration of this machine."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "PIP_CONFIG_FILE": os.devnull,
            **self.environment,
        }
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=directory,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
        assert process.returncode == 0, output
        assert SECRET not in output


def files(content: Mapping[str, tuple[str, bytes]]) -> Respond:
    """Serves each path with its content type and content."""

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path not in content:
            return web.Response(status=404, text="no such file")
        content_type, body = content[request.raw_path]
        return web.Response(body=body, content_type=content_type)

    return respond


@asynccontextmanager
async def private_host(respond: Respond, credential: str) -> AsyncIterator[PrivateHost]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") != credential:
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        host.requests.append((request.method, request.raw_path, dict(request.headers)))
        return await respond(request)

    server = web.Server(handle, handler_cancellation=True)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=tls())
    host = PrivateHost(f"127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    try:
        yield host
    finally:
        listening.close()
        await server.shutdown(0)


@asynccontextmanager
async def broker_harness(
    respond: Respond,
    directory: Path,
    *,
    allowed: tuple[str, ...] = LOOPBACK,
    credential: str = f"Bearer {SECRET}",
    is_trusted: bool = True,
    **fields: Any,
) -> AsyncIterator[BrokerHarness]:
    notes: list[str] = []
    ca_file = str(authorities(directory)) if is_trusted else ""
    async with (
        private_host(respond, credential) as host,
        new_session(AllowList.parse(allowed), ca_file) as session,
        aiohttp.ClientSession(auto_decompress=False) as http,
    ):
        brokered: dict[str, Any] = {
            "name": "artifactory",
            "host": host.address,
            "header": "Authorization: Bearer {secret}",
            "secret": SECRET,
            **fields,
        }
        broker = Broker(
            [BrokeredHost(**brokered)], session=session, on_note=notes.append, first_port=8470
        )
        ports = SandboxPorts(broker.ports)
        address = (await ports.open_on_host())[8470]
        environment = {
            name: value.replace("{address}", address)
            for name, value in broker.ports[0].environment.items()
        }
        try:
            yield BrokerHarness(broker, host, address, environment, http, notes)
        finally:
            await ports.close()
            await broker.close()
