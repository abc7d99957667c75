"""Builds an agent's environment from scratch: it never gets the service's own variables."""

from collections.abc import Callable
from pathlib import PurePath

from agentjobs_runtime.sandboxes import directories
from agentjobs_runtime.sandboxes.directories import (
    ARTIFACTS_DIRECTORY,
    JOB_FILE,
    REPORT_DIRECTORY,
    REPORT_FILE,
    RESULT_FILE,
)
from agentjobs_worker.sandbox import mounts
from agentjobs_worker.sandbox.protocol import SandboxPort, SandboxTask


def environment_inside(task: SandboxTask) -> dict[str, str]:
    """The variables of a sandbox, with the paths and addresses that every sandbox has."""
    return agent_environment(
        task,
        path=mounts.PATH,
        home=directories.HOME,
        temporary=mounts.TEMPORARY,
        run_dir=directories.RUN_DIRECTORY,
        to_address=lambda port: f"127.0.0.1:{port.number}",
    )


def agent_environment(
    task: SandboxTask,
    *,
    path: str,
    home: PurePath,
    temporary: PurePath,
    run_dir: PurePath,
    to_address: Callable[[SandboxPort], str],
) -> dict[str, str]:
    """The definition's variables override the basics, but not the ports or the last six."""
    port_variables = {
        name: value.replace("{address}", to_address(port))
        for port in task.ports
        for name, value in port.environment.items()
    }
    return {
        "PATH": path,
        "LANG": "C.UTF-8",
        "USER": "agent",
        "LOGNAME": "agent",
        **task.environment,
        **port_variables,
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "AGENTJOBS_JOB": str(run_dir / JOB_FILE),
        "AGENTJOBS_REPORT": str(run_dir / REPORT_DIRECTORY / REPORT_FILE),
        "AGENTJOBS_RESULT": str(run_dir / REPORT_DIRECTORY / RESULT_FILE),
        "AGENTJOBS_ARTIFACTS": str(run_dir / ARTIFACTS_DIRECTORY),
    }
