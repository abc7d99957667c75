"""Makes one run of an agent ready: its directory beside the workspace and the sandbox's task."""

import os
from pathlib import Path

import msgspec

from agentjobs.agents.cve_fixer_support import with_package_managers
from agentjobs.agents.definitions import Agent
from agentjobs.agents.installation import runnable
from agentjobs.agents.prompt import JobFacts, build_prompt, job_file
from agentjobs.sandbox.protocol import JOB_FILE, REPORT_DIRECTORY, SandboxTask


def prepare(
    agent: Agent,
    facts: JobFacts,
    *,
    workspace: Path,
    run_dir: Path,
    owner_uid: int | None,
    timeout_seconds: float,
    slot: int,
) -> SandboxTask:
    """Writes `run_dir`, which must not exist yet, and returns what the sandbox shall run.

    Raises NotInstalled, a SandboxError, when the agent's program went away.
    """
    agent = with_package_managers(runnable(agent))
    prompt = build_prompt(facts)
    _write_run_directory(run_dir, msgspec.json.encode(job_file(facts, prompt)), owner_uid)
    return SandboxTask(
        argv=agent.command,
        environment={**agent.environment, "AGENTJOBS_PROMPT": prompt},
        workspace=workspace,
        run_dir=run_dir,
        timeout_seconds=min(timeout_seconds, agent.timeout_seconds),
        slot=slot,
        read_only=agent.read_only,
        limits=agent.limits,
    )


def _write_run_directory(run_dir: Path, job: bytes, owner_uid: int | None) -> None:
    """The agent may be another user, so its modes do not depend on the service's umask."""
    run_dir.mkdir()
    report = run_dir / REPORT_DIRECTORY
    report.mkdir()
    job_path = run_dir / JOB_FILE
    job_path.write_bytes(job)
    job_path.chmod(0o444)
    run_dir.chmod(0o755)
    report.chmod(0o700)
    if owner_uid is not None:
        os.chown(report, owner_uid, owner_uid)
