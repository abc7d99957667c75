"""The environment variables of an agent, made from nothing: the service's own never reach it."""

from collections.abc import Callable
from pathlib import PurePath

from agentjobs.sandbox.protocol import JOB_FILE, REPORT_DIRECTORY, REPORT_FILE, Door, SandboxTask


def agent_environment(
    task: SandboxTask,
    *,
    path: str,
    home: PurePath,
    temporary: PurePath,
    run_dir: PurePath,
    address_of: Callable[[Door], str],
) -> dict[str, str]:
    """What the definition asks for, between the basics and what no definition may change."""
    of_doors = {
        name: value.replace("{address}", address_of(door))
        for door in task.doors
        for name, value in door.environment.items()
    }
    return {
        "PATH": path,
        "LANG": "C.UTF-8",
        "USER": "agent",
        "LOGNAME": "agent",
        **task.environment,
        **of_doors,
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "AGENTJOBS_JOB": str(run_dir / JOB_FILE),
        "AGENTJOBS_REPORT": str(run_dir / REPORT_DIRECTORY / REPORT_FILE),
    }
