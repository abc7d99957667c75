"""The processes of one run, restarted when they die, and how each fault begins and ends."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import failpoints
from tests.faults.deployment import Deployment
from tests.faults.schedule import LOCAL, Fault, PlannedFault, Schedule, Topology
from tests.support import preloaded_cli
from tests.support.postgres import free_port
from tests.support.service import Service

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
# Every run of an agent makes another commit.
_CHANGE = "cat /proc/sys/kernel/random/uuid > edited.txt"
_SCRIPTS = {
    "edit": _CHANGE,
    "slow": f"sleep 4; {_CHANGE}",
    "idle": "sleep 4",
    "crash": "sleep 4; exit 3",
}
_AGENT = """
[[agents]]
id = "{id}"
name = "{id}"
command = ["sh", "-c", "{script}"]
environment = {{ FAULT_RUN = "{mark}" }}
"""
_DISK_MIB = 48
_FAKETIME = "*/faketime/libfaketime.so.1"
_SIGNALS = {
    Fault.KILL: signal.SIGKILL,
    Fault.STOP: signal.SIGSTOP,
    Fault.TERMINATE: signal.SIGTERM,
    Fault.AWAY: signal.SIGKILL,
}


def can_fill_disks() -> bool:
    """Only root can mount a small file system for each process."""
    return os.geteuid() == 0


@dataclass(frozen=True)
class Disturbance:
    """A fault that happened. `process` is empty if it met all processes."""

    fault: Fault
    process: str
    began_ms: int
    seconds: float

    @property
    def ended_ms(self) -> int:
        return self.began_ms + int(self.seconds * 1_000)


class _Service(Service):
    """Logs beside its data directory, whose disk may be full."""

    @property
    def log_file(self) -> Path:
        return self.data_dir.with_suffix(".log")

    def log(self) -> str:
        return self.log_file.read_text()


@dataclass
class FleetProcess:
    """`is_away` while it must not be restarted."""

    name: str
    service: _Service
    preload: tuple[tuple[str, str], ...] = ()
    is_away: bool = False
    exit_codes: list[int] = field(default_factory=list)

    def spawn(self) -> None:
        """Unlike `Service.start`, does not wait until the process is ready: it may never be."""
        service, command = self.service, self.service.command
        listening = () if "worker" in command else ("--port", str(service.port))
        arguments = [*command, "--data-dir", str(service.data_dir), *listening]
        with service.log_file.open("a") as log:
            service.process = preloaded_cli.start(
                arguments,
                service._environment(),
                log,
                setup=failpoints.SETUP,
                preload=self.preload,
            )

    @property
    def clock(self) -> Path:
        return self.service.data_dir.with_suffix(".clock")

    @property
    def filler(self) -> Path:
        return self.service.data_dir / "filler"

    def set_clock(self, difference_seconds: float) -> None:
        """At once: libfaketime may read the file at any time."""
        new = self.clock.with_suffix(".new")
        new.write_text(f"{difference_seconds:+.3f}\n")
        new.rename(self.clock)

    def has_ended(self) -> bool:
        return self.service.process is None or self.service.process.poll() is not None

    def end_code(self) -> int | None:
        return None if self.service.process is None else self.service.process.returncode


@dataclass
class Fleet:
    deployment: Deployment
    mark: str
    processes: dict[str, FleetProcess] = field(default_factory=dict)
    disturbances: list[Disturbance] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return self.deployment.directory

    def urls(self) -> list[str]:
        services = [each.service for each in self.processes.values()]
        return [f"http://127.0.0.1:{each.port}/v1" for each in services if each.port]

    def start(self) -> None:
        for process in self.processes.values():
            process.spawn()

    def begin(self, planned: PlannedFault, target: str) -> None:
        is_local = planned.fault in LOCAL
        at_ms = time.time_ns() // 1_000_000
        self.disturbances.append(
            Disturbance(planned.fault, target if is_local else "", at_ms, planned.seconds)
        )
        if is_local:
            self._begin_in(self.processes[target], planned)
        else:
            self._effects()[planned.fault][0]()

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
        elif planned.fault is Fault.AWAY:
            process.is_away = False

    def _begin_in(self, process: FleetProcess, planned: PlannedFault) -> None:
        if planned.fault is Fault.DISK_FULL:
            _fill(process.filler)
        elif planned.fault is Fault.CLOCK_STEP:
            process.set_clock(planned.step_seconds)
        else:
            process.is_away |= planned.fault is Fault.AWAY
            if not process.has_ended():
                process.service.signal(_SIGNALS[planned.fault])

    def _effects(self) -> dict[Fault, tuple[Callable[[], None], Callable[[], None]]]:
        """How the faults that meet all processes begin and end."""
        deployment = self.deployment
        receiver = deployment.receiver
        effects: dict[Fault, tuple[Callable[[], None], Callable[[], None]]] = {
            Fault.RECEIVER_FAILS: (lambda: setattr(receiver, "status", 500), receiver.restore),
            Fault.RECEIVER_HANGS: (receiver.answers.clear, receiver.restore),
        }
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
                Fault.STANDBY_PROMOTED: (database.promote, lambda: None),
                Fault.POOLER_KILLED: (database.kill_pooler, database.restore_pooler),
            }
        return effects

    def restart_ended(self) -> None:
        """What a supervisor such as systemd does."""
        for process in self.processes.values():
            if not process.is_away and process.has_ended():
                process.exit_codes.append(process.end_code() or 0)
                _close(process)
                process.spawn()

    def stop(self) -> list[str]:
        """Stop all processes as an operator would; returns what did not stop as it should."""
        for process in self.processes.values():
            process.service.stop(STOP_SECONDS)
        return [
            f"{name} ended with code {process.end_code()}"
            for name, process in self.processes.items()
            if process.end_code()
        ]

    def kill(self) -> None:
        for process in self.processes.values():
            if not process.has_ended():
                process.service.kill()


@contextlib.contextmanager
def prepared_fleet(deployment: Deployment, schedule: Schedule, mark: str) -> Iterator[Fleet]:
    """The processes have their files and are not started yet; at the end they are killed."""
    fleet = Fleet(deployment, mark)
    with contextlib.ExitStack() as stack:
        public_url = ""
        for name in schedule.processes:
            process = _create(deployment, schedule.topology, name, public_url)
            fleet.processes[name] = process
            public_url = process.service.environment["AGENTJOBS_PUBLIC_URL"]
            directory = process.service.data_dir
            directory.mkdir()
            if can_fill_disks():
                _mount(directory)
                stack.callback(_unmount, directory)
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


def _create(deployment: Deployment, topology: Topology, name: str, public_url: str) -> FleetProcess:
    command = name.partition("-")[0]
    port = 0 if command == "worker" else free_port()
    environment = {
        **SETTINGS,
        **deployment.environment,
        "AGENTJOBS_DATABASE_URL": deployment.url_of(name),
        "AGENTJOBS_REPOSITORIES_DIR": str(deployment.repositories),
        "AGENTJOBS_PUBLIC_URL": public_url or f"http://127.0.0.1:{port}",
        failpoints.SOCKET: str(deployment.directory / "phases"),
        failpoints.NAME: name,
    }
    service = _Service(deployment.directory / name, environment, (command,), port=port)
    process = FleetProcess(name, service)
    if topology is Topology.CLOCKS:
        library = next(Path("/usr/lib").glob(_FAKETIME), None)
        assert library, "libfaketime is not installed: apt-get install libfaketime"
        process.set_clock(0)
        service.environment["FAKETIME_TIMESTAMP_FILE"] = str(process.clock)
        process.preload = (
            ("LD_PRELOAD", str(library)),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        )
    return process


def _mount(directory: Path) -> None:
    options = f"size={_DISK_MIB}m,mode=0755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "faults", str(directory)], check=True)


def _unmount(directory: Path) -> None:
    """What it contains stays in the directory below it, for those who look for a reason."""
    copy = directory.with_suffix(".files")
    shutil.copytree(directory, copy, symlinks=True, ignore_dangling_symlinks=True)
    subprocess.run(["umount", "-l", str(directory)], check=True)
    shutil.rmtree(directory)
    copy.rename(directory)


def _fill(path: Path) -> None:
    """Take all space that is free."""
    status = os.statvfs(path.parent)
    with contextlib.suppress(OSError), path.open("ab") as file:
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize)


def _close(process: FleetProcess) -> None:
    if process.service.process is not None and process.service.process.stdout is not None:
        process.service.process.stdout.close()
