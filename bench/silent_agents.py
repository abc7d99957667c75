"""What a running agent that does nothing costs: an `agentjobs up` on SQLite with 50 of them, less
the same service without one. Includes the processes of the sandboxes and the agents themselves.
"""

import time
from typing import Any

from bench.idle import REPO, SECONDS, SETTLE_SECONDS, service_after_a_job
from bench.process_usage import cpu_seconds, memory_mb
from bench.report import verdict

AGENTS = 50
GOAL_CORE = 0.0005
GOAL_MEMORY_MB = 1


def measure() -> list[dict[str, Any]]:
    environment = {"AGENTJOBS_SLOTS": str(AGENTS), "AGENTJOBS_DRAIN_GRACE_SECONDS": "0"}
    with service_after_a_job(environment) as (pid, api):
        idle_core, idle_memory = _measure(pid)
        jobs = [api.create(REPO, "sleepy") for _ in range(AGENTS)]
        for job in jobs:
            api.wait_status(job, "running")
        core, memory = _measure(pid)
        if any(api.job(job)["status"] != "running" for job in jobs):
            raise RuntimeError("an agent ended during the measurement")
    core, memory = (core - idle_core) / AGENTS, (memory - idle_memory) / AGENTS
    return [
        {
            "agents": AGENTS,
            "% of a core each": round(core * 100, 3),
            "goal %": GOAL_CORE * 100,
            "MB each": memory,
            "goal MB": GOAL_MEMORY_MB,
            "verdict": verdict(met=core <= GOAL_CORE and memory <= GOAL_MEMORY_MB),
        }
    ]


def _measure(pid: int) -> tuple[float, float]:
    """The share of a core, and megabytes."""
    time.sleep(SETTLE_SECONDS)
    began, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(SECONDS)
    return (cpu_seconds(pid) - used) / (time.monotonic() - began), memory_mb(pid)
