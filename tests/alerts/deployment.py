"""Real processes on PostgreSQL, and their metrics as Prometheus would read them."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from tests.support.postgres import PostgresCluster, free_port
from tests.support.service import AGENTS, Api, Service, connected, wait_until
from tests.support.webhook_service import SHARED

_GPU_AGENT = """
[[agents]]
id = "gpu"
name = "GPU"
command = ["true"]
tags = ["gpu"]
"""
_QUICK = {
    "AGENTJOBS_LEASE_SECONDS": "2",
    "AGENTJOBS_LEASE_RENEW_SECONDS": "0.5",
    "AGENTJOBS_WEBHOOK_RETRY_SECONDS": "0.1,0.1,0.1",
}


@dataclass
class Deployment:
    postgres: PostgresCluster
    database_url: str
    directory: Path
    services: dict[str, Service] = field(default_factory=dict)
    # Addresses of metrics.
    addresses: dict[str, str] = field(default_factory=dict)

    def start(self, *command: str, name: str = "", **environment: str) -> Service:
        name = name or command[0]
        self.addresses[name] = f"127.0.0.1:{free_port()}"
        surroundings = {
            "AGENTJOBS_DATABASE_URL": self.database_url,
            "AGENTJOBS_METRICS_BIND": self.addresses[name],
            **SHARED,
            **_QUICK,
            **environment,
        }
        if command[0] == "worker":
            surroundings["AGENTJOBS_PUBLIC_URL"] = self.services["serve"].root_url
        directory = self.directory / name
        directory.mkdir()
        (directory / "agentjobs.toml").write_text(AGENTS + _GPU_AGENT)
        self.services[name] = Service(directory, surroundings, command).start()
        if command[0] == "worker":
            wait_until(lambda: self._is_ready(name), "the worker to be ready")
        return self.services[name]

    def start_both(self, **environment: str) -> Api:
        serve = self.start("serve", **environment)
        self.start("worker", **environment)
        return connected(serve, self.directory)

    def scrape(self) -> dict[str, str | None]:
        """The output of `/metrics` of each process; None if it does not respond."""
        return {name: _get(address) for name, address in self.addresses.items()}

    def change(self, sql: str, **parameters: Any) -> None:
        """Change the store, for what would take hours to happen."""

        async def run() -> None:
            async def execute(tx: Transaction) -> None:
                assert await tx.execute(sql, **parameters), "nothing was changed"

            db = await open_database(self.database_url, migrate=False)
            await db.transact(execute)
            await db.close()

        asyncio.run(run())

    def _is_ready(self, worker: str) -> bool:
        return "agentjobs_slots{" in (_get(self.addresses[worker]) or "")

    def stop(self) -> None:
        for service in self.services.values():
            if service.process is not None and service.process.poll() is None:
                service.kill()


def _get(address: str) -> str | None:
    try:
        return httpx.get(f"http://{address}/metrics").raise_for_status().text
    except httpx.TransportError:
        return None
