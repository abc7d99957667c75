"""The processes of one run, restarted when they die, and how each fault begins and ends."""

import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.faults import failpoints
from tests.faults.deployment import Deployment
from tests.faults.machine import (
    can_fill_disks,
    fill,
    freeze,
    mount,
    process_limit,
    thaw,
    unmount,
)
from tests.faults.process import FleetProcess, FleetService
from tests.faults.schedule import LOCAL, Fault, PlannedFault, Schedule, Topology
from tests.support.postgres import free_port

STOP_SECONDS = 60.0
LEASE_SECONDS = 4.0
SETTINGS = {
    "AGENTJOBS_LEASE_SECONDS": str(LEASE_SECONDS),
    "AGENTJOBS_LEASE_RENEW_SECONDS": "1",
    "AGENTJOBS_DRAIN_GRACE_SECONDS": "0.5",
    "AGENTJOBS_SLOTS": "2",
    "AGENTJOBS_RATE_LIMIT_PER_SECOND": "0",
    "AGENTJOBS_AUTO_MIGRATE": "false",
    "AGENTJOBS_WEBHOOK_RETRY_SECONDS": "0.2,0.5,1",
    "AGENTJOBS_WEBHOOK_TIMEOUT_SECONDS": "1",
    "AGENTJOBS_WEBHOOK_CONNECT_SECONDS": "1",
    "AGENTJOBS_WEBHOOK_LEASE_SECONDS": "6",
    "AGENTJOBS_DISK_FLOOR_MIB": "4",
}
# Every run of an agent makes another commit, and prints lines with its own identifier.
LINES = 20
_BEGIN = f"run=$(cat /proc/sys/kernel/random/uuid); seq -f $run-%g {LINES // 2}"
_END = f"seq -f $run-%g {LINES // 2 + 1} {LINES}"
_SCRIPTS = {
    "edit": f"{_BEGIN}; {_END}; echo $run > edited.txt",
    "slow": f"{_BEGIN}; sleep 4; {_END}; echo $run > edited.txt",
    "idle": f"{_BEGIN}; sleep 4; {_END}",
    "crash": f"{_BEGIN}; sleep 4; {_END}; exit 3",
}
_AGENT = """
[[agents]]
id = "{id}"
name = "{id}"
command = ["sh", "-c", "{script}"]
environment = {{ FAULT_RUN = "{mark}" }}
"""
_DISK_MIB = 48
_MEMORY_MARGIN_BYTES = 4 * 1024**2
_STALLS = (
    *(Fault.DATABASE_STALLED, Fault.PLATFORM_STALLED),
    *(Fault.SERVICE_STALLED, Fault.RECEIVER_HANGS),
)
# No fault sends these signals.
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)
_FAKETIME = "*/faketime/libfaketime.so.1"
_SIGNALS = {
    Fault.KILL: signal.SIGKILL,
    Fault.STOP: signal.SIGSTOP,
    Fault.TERMINATE: signal.SIGTERM,
    Fault.AWAY: signal.SIGKILL,
}


@dataclass
class Disturbance:
    """A fault that happened. `process` is empty if it met all processes."""

    fault: Fault
    process: str
    began_ms: int
    ended_ms: int = sys.maxsize


@dataclass
class Fleet:
    deployment: Deployment
    mark: str
    processes: dict[str, FleetProcess] = field(default_factory=dict)
    disturbances: list[Disturbance] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return self.deployment.directory

    @property
    def was_disturbed(self) -> bool:
        """Otherwise its clients only cancelled their jobs."""
        return any(each.fault is not Fault.CANCEL for each in self.disturbances)

    def urls(self) -> list[str]:
        services = [each.service for each in self.processes.values()]
        return [f"http://127.0.0.1:{each.port}/v1" for each in services if each.port]

    def start(self) -> None:
        for process in self.processes.values():
            process.spawn()

    def begin(self, planned: PlannedFault, target: str) -> Disturbance:
        is_local = planned.fault in LOCAL
        at_ms = time.time_ns() // 1_000_000
        disturbance = Disturbance(planned.fault, target if is_local else "", at_ms)
        self.disturbances.append(disturbance)
        if is_local:
            self._begin_in(self.processes[target], planned)
        elif planned.fault is Fault.CANCEL:
            self._cancel_jobs(target)
        else:
            self._effects()[planned.fault][0]()
        return disturbance

    def end(self, planned: PlannedFault, target: str) -> None:
        """Undo a fault that lasts. The first end of overlapping faults of a kind ends all."""
        if planned.fault not in LOCAL:
            self._effects()[planned.fault][1]()
            return
        process = self.processes[target]
        if planned.fault is Fault.STOP and not process.has_ended():
            process.service.signal(signal.SIGCONT)
        elif planned.fault is Fault.DISK_FULL:
            process.filler.unlink(missing_ok=True)
        elif planned.fault is Fault.DISK_FROZEN:
            thaw(process.service.data_dir)
        elif planned.fault is Fault.NO_PROCESSES and process.process_limit is not None:
            process.process_limit.lift()
        elif planned.fault is Fault.NO_MEMORY:
            process.set_memory(None)
        elif planned.fault is Fault.AWAY:
            process.is_away = False

    def _begin_in(self, process: FleetProcess, planned: PlannedFault) -> None:
        if planned.fault is Fault.DISK_FULL:
            fill(process.filler)
        elif planned.fault is Fault.DISK_FROZEN:
            freeze(process.service.data_dir)
        elif planned.fault is Fault.NO_PROCESSES:
            assert process.process_limit is not None
            process.process_limit.close()
        elif planned.fault is Fault.NO_MEMORY:
            process.set_memory(_MEMORY_MARGIN_BYTES)
        elif planned.fault is Fault.CLOCK_STEP:
            process.set_clock(planned.step_seconds)
        else:
            process.is_away |= planned.fault is Fault.AWAY
            if not process.has_ended():
                process.service.signal(_SIGNALS[planned.fault])

    def _effects(self) -> dict[Fault, tuple[Callable[[], object], Callable[[], object]]]:
        """How the faults that meet all processes begin and end."""
        deployment = self.deployment
        receiver = deployment.receiver
        effects: dict[Fault, tuple[Callable[[], object], Callable[[], object]]] = {
            Fault.RECEIVER_FAILS: (lambda: setattr(receiver, "status", 500), receiver.restore),
            Fault.RECEIVER_HANGS: (receiver.answers.clear, receiver.restore),
            Fault.CANCEL: (lambda: None, lambda: None),
        }
        if (service := deployment.service_proxy) is not None:
            effects[Fault.SERVICE_STALLED] = (service.stall, service.restore)
        if (platform := deployment.platform) is not None:
            effects |= {
                Fault.PLATFORM_DROPPED: (platform.proxy.drop, platform.restore),
                Fault.PLATFORM_STALLED: (platform.proxy.stall, platform.restore),
                Fault.PLATFORM_FAILS: (platform.fail, platform.restore),
            }
        if (proxy := deployment.proxy) is not None:
            effects |= {
                Fault.DATABASE_DROPPED: (proxy.drop, proxy.restore),
                Fault.DATABASE_STALLED: (proxy.stall, proxy.restore),
            }
        if (database := deployment.database) is not None:
            effects |= {
                Fault.DATABASE_KILLED: (database.kill, database.restore),
                Fault.DATABASE_FROZEN: (database.freeze, database.thaw),
                Fault.STANDBY_PROMOTED: (database.promote, lambda: None),
                Fault.POOLER_KILLED: (database.kill_pooler, database.restore_pooler),
            }
        stalls = [effects[fault] for fault in _STALLS if fault in effects]
        effects[Fault.NETWORK_FROZEN] = (
            lambda: [begin() for begin, _ in stalls],
            lambda: [end() for _, end in stalls],
        )
        return effects

    def _cancel_jobs(self, waiting: str) -> None:
        """With another service than the process that waits for this fault to begin."""
        ports = [
            process.service.port
            for process in self.processes.values()
            if process.service.port and process.name != waiting
        ]
        headers = {"Authorization": f"Bearer {self.deployment.key}"}
        base_url = f"http://127.0.0.1:{ports[0]}/v1"
        with httpx.Client(base_url=base_url, headers=headers, timeout=30) as client:
            for job in client.get("/jobs").raise_for_status().json()["jobs"]:
                client.post(f"/jobs/{job['job_id']}/cancel").raise_for_status()

    def restart_ended(self) -> None:
        """What a supervisor such as systemd does."""
        for process in self.processes.values():
            if not process.is_away and process.has_ended():
                if not self._was_short_of(process):
                    process.exit_codes.append(process.end_code() or 0)
                _close(process)
                process.spawn()

    def _was_short_of(self, process: FleetProcess) -> bool:
        """Whether it may have been unable to start, for lack of threads or memory."""
        return any(
            disturbance.fault in (Fault.NO_PROCESSES, Fault.NO_MEMORY)
            and disturbance.process == process.name
            and disturbance.ended_ms > process.spawned_ms
            for disturbance in self.disturbances
        )

    def stop(self) -> list[str]:
        """Stop all processes as an operator would; returns what did not stop as it should."""
        for process in self.processes.values():
            process.service.stop(STOP_SECONDS)
        ends = {name: process.end_code() for name, process in self.processes.items()}
        crashes = [
            (name, code)
            for name, process in self.processes.items()
            for code in process.exit_codes
            if -code in _CRASHES
        ]
        return [
            f"{name} ended with code {code}" for name, code in (*ends.items(), *crashes) if code
        ]

    def kill(self) -> None:
        for process in self.processes.values():
            # Nothing on a frozen disk ends.
            thaw(process.service.data_dir)
            if not process.has_ended():
                process.service.kill()


@contextlib.contextmanager
def prepared_fleet(deployment: Deployment, schedule: Schedule, mark: str) -> Iterator[Fleet]:
    """The processes have their files and are not started yet; at the end they are killed."""
    fleet = Fleet(deployment, mark)
    with contextlib.ExitStack() as stack:
        faults = {each.fault for each in schedule.faults}
        for name in schedule.processes:
            process = _create(deployment, schedule, name)
            fleet.processes[name] = process
            if Fault.NO_PROCESSES in faults:
                process.process_limit = stack.enter_context(process_limit(f"{mark}-{name}"))
            directory = process.service.data_dir
            directory.mkdir()
            if can_fill_disks():
                mount(directory, _DISK_MIB, can_freeze=Fault.DISK_FROZEN in faults)
                stack.callback(unmount, directory)
            (directory / "agentjobs.toml").write_text(
                "".join(
                    _AGENT.format(id=agent, script=script, mark=mark)
                    for agent, script in _SCRIPTS.items()
                )
            )
        if deployment.database_file is not None:
            path = Path(deployment.url.removeprefix("sqlite:///"))
            path.parent.mkdir(exist_ok=True)
            shutil.copy(deployment.database_file, path)
        stack.callback(fleet.kill)
        yield fleet


def _create(deployment: Deployment, schedule: Schedule, name: str) -> FleetProcess:
    command = name.partition("-")[0]
    port = 0 if command == "worker" else free_port()
    proxy = deployment.service_proxy
    assert proxy is not None
    if name == schedule.processes[0]:
        proxy.target_port = port
    environment = {
        **SETTINGS,
        **dict(schedule.settings),
        **deployment.environment,
        "AGENTJOBS_DATABASE_URL": deployment.url_of(name),
        "AGENTJOBS_REPOSITORIES_DIR": str(deployment.repositories),
        "AGENTJOBS_PUBLIC_URL": f"http://127.0.0.1:{proxy.port}",
        failpoints.SOCKET: str(deployment.directory / "phases"),
        failpoints.NAME: name,
    }
    service = FleetService(deployment.directory / name, environment, (command,), port=port)
    process = FleetProcess(name, service)
    if deployment.source is not None:
        process.preload = (("PYTHONPATH", str(deployment.source)),)
    if schedule.topology is Topology.CLOCKS:
        library = next(Path("/usr/lib").glob(_FAKETIME), None)
        assert library, "libfaketime is not installed: apt-get install libfaketime"
        process.set_clock(0)
        service.environment["FAKETIME_TIMESTAMP_FILE"] = str(process.clock)
        process.preload += (
            ("LD_PRELOAD", str(library)),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        )
    return process


def _close(process: FleetProcess) -> None:
    if process.service.process is not None and process.service.process.stdout is not None:
        process.service.process.stdout.close()
