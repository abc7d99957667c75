"""Short commands of `agentjobs`: the CPU time of their processes, without that of the service."""

import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.idle import InstalledService
from bench.report import verdict
from tests.support.service import PROGRAM

RUNS = 15
GOAL_SECONDS = 0.2
COMMANDS = (
    ("--version",),
    ("--help",),
    ("jobs", "--help"),
    ("jobs", "list"),
    ("keys", "list"),
    ("repos", "list"),
)


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        service = InstalledService(Path(directory) / "data").start()
        try:
            environment = {
                **os.environ,
                "AGENTJOBS_DATA_DIR": str(service.data_dir),
                "AGENTJOBS_URL": service.base_url,
                "AGENTJOBS_API_KEY": service.key(),
            }
            return [_figure(command, environment) for command in COMMANDS]
        finally:
            service.stop()


def _figure(command: tuple[str, ...], environment: dict[str, str]) -> dict[str, Any]:
    # The first run may write bytecode files.
    used = [_cpu_seconds(command, environment) for _ in range(RUNS + 1)][1:]
    middle = statistics.median(used)
    return {
        "command": " ".join(command),
        "CPU ms": round(middle * 1_000),
        "lowest": round(min(used) * 1_000),
        "highest": round(max(used) * 1_000),
        "goal ms": round(GOAL_SECONDS * 1_000),
        "verdict": verdict(met=middle <= GOAL_SECONDS),
    }


def _cpu_seconds(command: tuple[str, ...], environment: dict[str, str]) -> float:
    with subprocess.Popen(
        [PROGRAM, *command], env=environment, stdout=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime
