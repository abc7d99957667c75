"""Runs a preset's real program in the real sandbox, through the gateway, on a small repository."""

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Any

from agentjobs.gateway.gateway import Gateway
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.agents.prompt import JobDetails
from agentjobs_runtime.agents.report import Report, read_report
from agentjobs_runtime.agents.steps import Step
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.tables import AgentTable
from agentjobs_worker.agents.catalog import build_catalog
from agentjobs_worker.agents.invocation import prepare_run
from agentjobs_worker.agents.model_access import GATEWAY_PORT, model_environment
from agentjobs_worker.agents.presets.all_presets import watcher_for
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxPort, SandboxReport
from tests.support.sandbox import unused_uid_base

TASK = "Write the word done into the file out.txt."
WRITE = "echo done > out.txt && echo 'Write out.txt' > $AGENTJOBS_REPORT"
_UID_BASE = unused_uid_base()


@dataclasses.dataclass
class Driven:
    """How a run ended: the failure reason, the log, the steps and the usage of the job."""

    failure: str | None
    log: str
    report: SandboxReport
    workspace: Path
    pull: Report | None
    steps: list[Step]

    def changed(self) -> list[str]:
        """Paths that differ from the base commit."""
        status = _git(self.workspace, "status", "--porcelain", "--untracked-files=all")
        return sorted(line[3:] for line in status.splitlines())


def declared(**fields: Any) -> Agent:
    """The agent that a table with these keys declares."""
    table = AgentTable(**fields)
    agent = build_catalog(Settings(data_dir="/nowhere", agents=(table,))).get(
        table.id or table.preset
    )
    assert agent is not None
    return agent


async def drive(
    agent: Agent,
    gateway: Gateway,
    base: Path,
    *,
    sandbox: Sandbox | None = None,
    timeout_seconds: float = 500,
    task: str = TASK,
) -> Driven:
    sandbox = sandbox or BubblewrapSandbox(_UID_BASE)
    owner, assigned = sandbox.owner_uid(0), agent.model
    assert assigned is not None
    workspace = make_workspace(base / "tree", owner)
    prepared = prepare_run(
        agent,
        job_details(agent, task),
        workspace=workspace,
        run_dir=base / "run",
        owner_uid=owner,
        timeout_seconds=timeout_seconds,
        slot=0,
    )
    port = SandboxPort(
        number=GATEWAY_PORT,
        protocol=gateway.protocol,
        environment=model_environment(agent, assigned, gateway.token),
    )
    watch, log, steps = watcher_for(agent), bytearray(), list[Step]()
    watch.on_step = steps.append
    report = await sandbox.run(
        dataclasses.replace(prepared, ports=(port,)), lambda data: log.extend(watch.feed(data))
    )
    log.extend(watch.end())
    return Driven(
        failure=watch.failure_reason(report, prepared.run_dir),
        log=log.decode(errors="replace"),
        report=report,
        workspace=workspace,
        pull=read_report(prepared.run_dir),
        steps=[*steps, *watch.steps_left_in(prepared.run_dir)],
    )


def job_details(agent: Agent, task: str) -> JobDetails:
    return JobDetails(
        job_id="job_1",
        repo="acme/shop",
        agent=agent.id,
        agent_name=agent.name,
        base_branch="main",
        base_commit="0" * 40,
        config_override={"prompt": task},
    )


def make_workspace(path: Path, owner: int | None) -> Path:
    path.mkdir()
    (path / "README.md").write_text("A shop.\n")
    _git(path, "init", "--quiet")
    _git(path, "add", "--all")
    _git(path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "Begin")
    if owner is not None:
        for each in (path, *path.rglob("*")):
            os.lchown(each, owner, owner)
    return path


def _git(directory: Path, *arguments: str) -> str:
    trusting = ("-c", f"safe.directory={directory}")
    return subprocess.run(
        ["git", *trusting, *arguments], cwd=directory, check=True, capture_output=True, text=True
    ).stdout
