"""Checks of `agentjobs doctor` on the processes with an API, and whether all processes agree."""

import socket

from agentjobs.cli.doctor.finding import Finding, describe_age
from agentjobs.fleet.processes import (
    SILENT_MS,
    ProcessInfo,
    configuration_problems,
    list_processes,
    running_configurations,
)
from agentjobs.jobs.operations.workers import list_worker_views
from agentjobs.store.database import Database
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.digest import configuration_digest, differing_settings


async def check_processes(settings: Settings, db: Database) -> list[Finding]:
    processes, now = await list_processes(db), await db.clock_ms()
    alive = [process for process in processes if process.heartbeat_at > now - SILENT_MS]
    findings = [_describe(process, now - process.heartbeat_at) for process in alive]
    for process in processes:
        if process not in alive:
            is_replaced = any(other.hostname == process.hostname for other in alive)
            age_ms = now - process.heartbeat_at
            findings.append(_describe_silent(process, age_ms, is_replaced=is_replaced))
    problems = configuration_problems(await running_configurations(db))
    findings += [Finding("processes", "problem", problem) for problem in problems]
    return findings + _compare_shell(settings, alive)


async def is_only_api_here(settings: Settings, db: Database) -> bool:
    """Whether `serve` runs on this machine and no worker does."""
    host, now = socket.gethostname(), await db.clock_ms()
    roles = {
        process.role
        for process in await list_processes(db)
        if process.hostname == host and process.heartbeat_at > now - SILENT_MS
    }
    workers = {worker.hostname for worker in await list_worker_views(db, settings)}
    return roles == {"serve"} and host not in workers


def _describe(process: ProcessInfo, age_ms: int) -> Finding:
    if process.repositories_problem is not None:
        text = f"{process.hostname} serves no repositories: {process.repositories_problem}"
        return Finding("processes", "problem", text)
    text = f"{process.role} on {process.hostname}, version {process.version}"
    return Finding("processes", "ok", f"{text}, last heartbeat {describe_age(age_ms)} ago")


def _describe_silent(process: ProcessInfo, age_ms: int, *, is_replaced: bool) -> Finding:
    text = f"{process.role} on {process.hostname} is dead or cut off"
    text = f"{text}: no heartbeat for {describe_age(age_ms)}"
    if is_replaced:
        return Finding("processes", "note", f"{text}; another one runs on this host")
    remedy = "start it again, or ignore this if it is gone: the entry disappears after an hour"
    return Finding("processes", "problem", f"{text}; {remedy}")


def _compare_shell(settings: Settings, alive: list[ProcessInfo]) -> list[Finding]:
    """A shell often lacks the variables of the service's unit."""
    own = configuration_digest(settings)
    for process in alive:
        names = differing_settings(own, process.configuration_digest)
        if process.hostname == socket.gethostname() and names:
            text = f"this shell has other values of {', '.join(names)} than {process.role} here"
            remedy = "doctor uses the values of this shell; give it the variables of the service"
            return [Finding("processes", "note", f"{text}: {remedy}")]
    return []
