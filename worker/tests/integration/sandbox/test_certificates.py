"""Programs in a real sandbox trust the operator's authority and the system's."""

import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentjobs_runtime.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.certificates import (
    create_bundle,
    known_system_files,
    with_certificates,
)
from agentjobs_worker.sandbox.protocol import SandboxPort, SandboxReport
from tests.support.sandbox import SandboxHarness, unused_uid_base
from tests.support.web_server import web_server

HOST = "files.test"
FETCH = {
    "curl": ("curl", "-fsS"),
    "python": (
        sys.executable,
        "-c",
        "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())",
    ),
    "node": ("node", "-e", "fetch(process.argv[1]).then(a => a.text()).then(console.log)"),
}


def lookup(_host: str) -> list[str]:
    return ["127.0.0.1"]


@dataclass
class World:
    harness: SandboxHarness
    egress: Egress
    url: str
    bundle: Path

    async def run(self, *argv: str, bundle: Path | None) -> SandboxReport:
        ports = [
            SandboxPort(number=port, protocol=protocol, environment=self._variables(port))
            for port, protocol in self.egress.ports.items()
        ]
        task = self.harness.task(
            *argv, ports=tuple(ports), hosts=self.egress.hosts, read_only=python_files()
        )
        return await self.harness.sandbox.run(with_certificates(task, bundle), self.harness.receive)

    def _variables(self, port: int) -> dict[str, str]:
        return dict(self.egress.environment) if port == PROXY_PORT else {}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with web_server(HOST, files=tmp_path) as server:
        egress = Egress(
            [f"{HOST}:{server.https_port}"],
            AllowList.parse(["127.0.0.1/32"]),
            lambda _: None,
            lookup=lookup,
        )
        harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
        authority = server.write_authority(harness.private / "authority.pem")
        url = f"https://{HOST}:{server.https_port}/hello"
        yield World(harness, egress, url, create_bundle(authority, harness.private))
        await egress.close()


@pytest.mark.parametrize("client", sorted(FETCH))
async def test_clients_trust_the_operators_authority_through_their_variables(
    world: World, client: str
) -> None:
    trusted = await world.run(*FETCH[client], world.url, bundle=world.bundle)
    assert trusted.exit_code == 0, trusted.last_lines
    assert trusted.last_lines.startswith(f"hello {HOST}")
    untold = await world.run(*FETCH[client], world.url, bundle=None)
    assert untold.exit_code != 0
    assert "certificate" in untold.last_lines


async def test_the_systems_certificates_are_still_trusted(world: World) -> None:
    script = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509'])"
    report = await world.run(sys.executable, "-c", script, bundle=world.bundle)
    system = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    system.load_verify_locations(next(filter(Path.is_file, known_system_files())))
    assert int(report.last_lines) == system.cert_store_stats()["x509"] + 1
