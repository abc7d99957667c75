"""A worker process with one command in a pod, for tests that kill the worker."""

import asyncio
import sys
from pathlib import Path

import msgspec

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_worker.sandbox.protocol import RunOwner, SandboxTask


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    settings: ClusterSettings
    directory: str
    workspace: str
    run_dir: str
    owner: RunOwner
    script: str


def plan_sandbox(plan: WorkerPlan) -> KubernetesSandbox:
    return KubernetesSandbox(plan.settings, Path(plan.directory))


def plan_task(plan: WorkerPlan) -> SandboxTask:
    return SandboxTask(
        argv=("sh", "-c", plan.script),
        environment={},
        workspace=Path(plan.workspace),
        run_dir=Path(plan.run_dir),
        timeout_seconds=300,
        slot=0,
        owner=plan.owner,
    )


def _write(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    plan = msgspec.json.decode(sys.argv[1], type=WorkerPlan)
    asyncio.run(plan_sandbox(plan).run(plan_task(plan), _write))
