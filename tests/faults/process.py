"""One process of a fleet: how it is started, and what a fault can take from it alone."""

import resource
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import failpoints
from tests.faults.machine import ProcessLimit
from tests.support import preloaded_cli
from tests.support.service import Service


class FleetService(Service):
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
    service: FleetService
    preload: tuple[tuple[str, str], ...] = ()
    is_away: bool = False
    spawned_ms: int = 0
    exit_codes: list[int] = field(default_factory=list)
    # None if no fault of the run concerns it.
    process_limit: ProcessLimit | None = None

    @property
    def pid(self) -> int | None:
        return None if self.service.process is None else self.service.process.pid

    def spawn(self) -> None:
        """Unlike `Service.start`, does not wait until the process is ready: it may never be."""
        self.spawned_ms = time.time_ns() // 1_000_000
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
        if self.process_limit is not None and self.pid is not None:
            self.process_limit.add(self.pid)

    def set_memory(self, margin_bytes: int | None) -> None:
        """Let the process use only so much more than it does; None: as much as it wants."""
        if self.pid is None or self.has_ended():
            return
        used = int(Path(f"/proc/{self.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_AS)
        soft = hard if margin_bytes is None else used + margin_bytes
        resource.prlimit(self.pid, resource.RLIMIT_AS, (soft, hard))

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
