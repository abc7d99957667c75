"""Prepares one run of an agent: its run directory and the task for the sandbox."""

import os
from pathlib import Path

import msgspec

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.agents.prompt import JobDetails, build_prompt, job_json
from agentjobs_runtime.sandboxes.directories import JOB_FILE, WRITABLE_DIRECTORIES
from agentjobs_worker.agents.cve_fixer_support import with_package_managers
from agentjobs_worker.agents.installation import resolve_preset
from agentjobs_worker.agents.pod_programs import PodPrograms
from agentjobs_worker.sandbox.protocol import OnNote, RunOwner, SandboxTask


def prepare_run(
    agent: Agent,
    job: JobDetails,
    *,
    workspace: Path,
    run_dir: Path,
    owner_uid: int | None,
    timeout_seconds: float,
    slot: int,
    owner: RunOwner | None = None,
    on_note: OnNote | None = None,
    image: PodPrograms | None = None,
) -> SandboxTask:
    """Write `run_dir`, which must be empty or not exist, and return the task for the sandbox.
    `image` has the agent's program, if it runs in a pod.

    Raises NotInstalled (a SandboxError) if the agent's program is no longer installed.
    """
    agent = image.resolve(agent) if image else with_package_managers(resolve_preset(agent))
    prompt = build_prompt(job)
    create_run_directory(run_dir, owner_uid)
    _write_job_file(run_dir, msgspec.json.encode(job_json(job, prompt)))
    return SandboxTask(
        argv=agent.command,
        environment={**agent.environment, "AGENTJOBS_PROMPT": prompt},
        workspace=workspace,
        run_dir=run_dir,
        timeout_seconds=min(timeout_seconds, agent.timeout_seconds),
        slot=slot,
        read_only=agent.read_only,
        limits=agent.limits,
        owner=owner,
        on_note=on_note,
        placement=agent.placement,
    )


def create_run_directory(run_dir: Path, owner_uid: int | None) -> None:
    """Sets modes explicitly, because the agent may be another user than the service.

    Does nothing if it exists: a sandbox may have been prepared with it.
    """
    if run_dir.exists():
        return
    run_dir.mkdir()
    run_dir.chmod(0o755)
    for name in WRITABLE_DIRECTORIES:
        directory = run_dir / name
        directory.mkdir()
        directory.chmod(0o700)
        if owner_uid is not None:
            os.chown(directory, owner_uid, owner_uid)


def _write_job_file(run_dir: Path, job_json: bytes) -> None:
    path = run_dir / JOB_FILE
    path.write_bytes(job_json)
    path.chmod(0o444)
