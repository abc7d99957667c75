"""The processes of one run, restarted when they die, and the faults that meet them."""

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.proxy import DatabaseProxy
from tests.faults.schedule import Fault, PlannedFault
from tests.support import preloaded_cli
from tests.support.postgres import PostgresCluster, free_port
from tests.support.receiver import Received, receiver
from tests.support.service import Service, sample_repository, wait_until
from tests.support.webhook_service import SHARED, add_endpoint

REPO = "acme/shop"
STOP_SECONDS = 60.0
POSTGRESQL_PROCESSES = ("serve-1", "serve-2", "worker-1", "worker-2", "worker-3")
SQLITE_PROCESSES = ("up",)
SETTINGS = {
    "AGENTJOBS_LEASE_SECONDS": "2",
    "AGENTJOBS_LEASE_RENEW_SECONDS": "0.5",
    "AGENTJOBS_DRAIN_GRACE_SECONDS": "0.5",
    "AGENTJOBS_SLOTS": "2",
    "AGENTJOBS_RATE_LIMIT_PER_SECOND": "0",
    "AGENTJOBS_WEBHOOK_RETRY_SECONDS": "0.2,0.5,1",
    "AGENTJOBS_WEBHOOK_TIMEOUT_SECONDS": "1",
    "AGENTJOBS_WEBHOOK_CONNECT_SECONDS": "1",
    "AGENTJOBS_WEBHOOK_LEASE_SECONDS": "6",
    **SHARED,
}
_AGENT = """
[[agents]]
id = "{id}"
name = "{id}"
command = ["sh", "-c", "echo agent-runs; {script}"]
environment = {{ FAULT_RUN = "{mark}" }}
"""
_SCRIPTS = {
    "edit": "echo changed > edited.txt",
    "slow": "sleep 2.5; echo changed > edited.txt",
    "idle": "true",
    "crash": "exit 3",
}


@dataclass
class FleetProcess:
    """`is_away` while it must not be restarted."""

    service: Service
    is_away: bool = False
    exits: int = 0

    def spawn(self) -> None:
        """Unlike `Service.start`, does not wait until the process is ready: it may never be."""
        service, command = self.service, self.service.command
        listening = () if "worker" in command else ("--port", str(service.port))
        arguments = [*command, "--data-dir", str(service.data_dir), *listening]
        with (service.data_dir / f"{command[0]}.log").open("a") as log:
            service.process = preloaded_cli.start(arguments, service._environment(), log)

    def has_ended(self) -> bool:
        return self.service.process is None or self.service.process.poll() is not None


@dataclass
class Fleet:
    directory: Path
    mark: str
    database_url: str
    cluster: PostgresCluster | None
    proxy: DatabaseProxy | None
    processes: dict[str, FleetProcess] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    receiver_status: int = 204
    receiver_answers: threading.Event = field(default_factory=threading.Event)
    is_database_away: bool = False
    key: str = ""

    @property
    def repositories(self) -> Path:
        return self.directory / "repositories"

    def urls(self) -> list[str]:
        services = [each.service for each in self.processes.values()]
        return [f"http://127.0.0.1:{each.port}/v1" for each in services if each.port]

    def begin(self, planned: PlannedFault) -> None:
        if planned.target:
            self._meet(self.processes[planned.target], planned.fault)
        elif planned.fault is Fault.RECEIVER_FAILS:
            self.receiver_status = 500
        elif planned.fault is Fault.RECEIVER_HANGS:
            self.receiver_answers.clear()
        else:
            assert self.proxy is not None
            assert self.cluster is not None
            if planned.fault is Fault.DATABASE_DROPPED:
                self.proxy.drop()
            elif planned.fault is Fault.DATABASE_STALLED:
                self.proxy.stall()
            elif not self.is_database_away:
                self.is_database_away = True
                self.cluster.kill()

    def _meet(self, process: FleetProcess, fault: Fault) -> None:
        number = {
            Fault.KILL: signal.SIGKILL,
            Fault.STOP: signal.SIGSTOP,
            Fault.TERMINATE: signal.SIGTERM,
            Fault.AWAY: signal.SIGKILL,
        }[fault]
        process.is_away |= fault is Fault.AWAY
        if not process.has_ended():
            process.service.signal(number)

    def end(self, planned: PlannedFault) -> None:
        """Undo a fault that lasts. The first end of overlapping faults of a kind ends all."""
        if planned.target:
            process = self.processes[planned.target]
            if planned.fault is Fault.STOP and not process.has_ended():
                process.service.signal(signal.SIGCONT)
            process.is_away &= planned.fault is not Fault.AWAY
        elif planned.fault is Fault.DATABASE_KILLED:
            assert self.cluster is not None
            if self.is_database_away:
                restart(self.cluster)
                self.is_database_away = False
        elif self.proxy is not None and planned.fault in (
            Fault.DATABASE_DROPPED,
            Fault.DATABASE_STALLED,
        ):
            self.proxy.restore()
        else:
            self.receiver_status = 204
            self.receiver_answers.set()

    def restart_ended(self) -> None:
        """What a supervisor such as systemd does."""
        for process in self.processes.values():
            if not process.is_away and process.has_ended():
                process.exits += 1
                _close(process)
                process.spawn()

    def stop(self) -> list[str]:
        """Stop all processes as an operator would; returns what did not stop as it should."""
        for process in self.processes.values():
            process.service.stop(STOP_SECONDS)
        return [
            f"{name} ended with code {process.service.process.returncode}"
            for name, process in self.processes.items()
            if process.service.process is not None and process.service.process.returncode != 0
        ]

    def kill(self) -> None:
        for process in self.processes.values():
            if not process.has_ended():
                process.service.kill()

    def respond(self, request: Received) -> int:
        self.received.append(request)
        self.receiver_answers.wait(5)
        return self.receiver_status


@contextlib.contextmanager
def running_fleet(
    directory: Path, mark: str, database_url: str, cluster: PostgresCluster | None
) -> Iterator[Fleet]:
    """A fleet whose processes are ready, with a connected repository and a webhook endpoint."""
    proxy = None if cluster is None else DatabaseProxy(cluster.port)
    if cluster is not None and proxy is not None:
        database_url = database_url.replace(f":{cluster.port}/", f":{proxy.port}/")
    fleet = Fleet(directory, mark, database_url, cluster, proxy)
    fleet.receiver_answers.set()
    try:
        with receiver(fleet.respond) as webhooks:
            _start(fleet, webhooks.url)
            yield fleet
            fleet.receiver_answers.set()
    finally:
        fleet.kill()
        if proxy is not None:
            proxy.close()


def restart(cluster: PostgresCluster) -> None:
    # A transaction that was committed must outlast a killed server.
    cluster.start(synchronous_commit="on")


def _start(fleet: Fleet, webhook_url: str) -> None:
    fleet.repositories.mkdir(parents=True)
    names = SQLITE_PROCESSES if fleet.cluster is None else POSTGRESQL_PROCESSES
    public_url = ""
    for name in names:
        command = name.partition("-")[0]
        port = 0 if command == "worker" else free_port()
        public_url = public_url or f"http://127.0.0.1:{port}"
        environment = {
            **SETTINGS,
            "AGENTJOBS_DATABASE_URL": fleet.database_url,
            "AGENTJOBS_REPOSITORIES_DIR": str(fleet.repositories),
            "AGENTJOBS_PUBLIC_URL": public_url,
        }
        service = Service(fleet.directory / name, environment, (command,), port=port)
        service.data_dir.mkdir()
        (service.data_dir / "agentjobs.toml").write_text(
            "".join(
                _AGENT.format(id=agent, script=script, mark=fleet.mark)
                for agent, script in _SCRIPTS.items()
            )
        )
        fleet.processes[name] = FleetProcess(service)
        service.start()
    first = fleet.processes[names[0]].service
    first.connect(sample_repository(fleet.directory / "source"), REPO)
    add_endpoint(first, webhook_url)
    fleet.key = first.key()
    first.client(fleet.key).wait_ready(REPO)
    wait_until(lambda: len(_workers(first)) >= 1, "the workers to be registered")


def _workers(service: Service) -> list[object]:
    workers: list[object] = json.loads(service.admin("workers", "list", "--json"))
    return workers


def _close(process: FleetProcess) -> None:
    if process.service.process is not None and process.service.process.stdout is not None:
        process.service.process.stdout.close()
