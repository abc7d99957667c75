"""Checks of `agentjobs doctor` on the processes with an API, and whether all processes agree."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentjobs.store.database import Database

# Subject, state ("ok", "note" or "problem") and message.
Finding = tuple[str, str, str]


async def check_processes(db: "Database") -> list[Finding]:
    from agentjobs.clock import iso_utc
    from agentjobs.fleet.processes import (
        configuration_problems,
        list_processes,
        running_configurations,
    )

    findings: list[Finding] = []
    for process in await list_processes(db):
        state = f"{process.role} on {process.hostname}, version {process.version}"
        findings.append(("processes", "ok", f"{state}, last seen {iso_utc(process.heartbeat_at)}"))
        if process.repositories_problem is not None:
            text = f"{process.hostname} serves no repositories: {process.repositories_problem}"
            findings.append(("processes", "problem", text))
    problems = configuration_problems(await running_configurations(db))
    return findings + [("processes", "problem", problem) for problem in problems]
