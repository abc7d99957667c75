"""Sandboxes that a worker creates for its next jobs: their use and their end."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_worker.agents.invocation import create_run_directory
from agentjobs_worker.run.spare_sandboxes import SpareSandboxes, run_dir_in
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import SandboxTask
from agentjobs_worker.workspace.checkout import Checkout
from tests.support.sandbox import eventually, processes_with, unused_uid_base
from tests.support.workspace import REPO, WorkspaceHarness, workspace_harness

SLOT = 3


class Harness:
    def __init__(self, repository: WorkspaceHarness) -> None:
        self.repository = repository
        self.sandbox = BubblewrapSandbox(unused_uid_base())
        self.spares = SpareSandboxes(self.sandbox, repository.workspaces)

    @property
    def directories(self) -> list[Path]:
        """Directories of jobs and of spare sandboxes, but not of spare copies."""
        copies = {spare.directory for spare in self.repository.workspaces._spares.spares}
        sessions = (self.repository.root / "data/workspaces/sessions").iterdir()
        return [path for session in sessions for path in session.iterdir() if path not in copies]

    async def run_job(self, script: str = "true") -> tuple[Path | None, str]:
        """Return the directory of the spare that was borrowed, and the agent's output."""
        head = await self.repository.head()
        owner_uid = self.sandbox.owner_uid(SLOT)
        async with (
            self.spares.borrow(SLOT) as directory,
            self.repository.workspaces.checkout(
                REPO, head, owner_uid=owner_uid, into=directory
            ) as checkout,
        ):
            task = self.task(checkout, script)
            self.spares.remember(task)
            report = await self.sandbox.run(task, lambda _chunk: None)
        await self.repository.workspaces.wait_until_idle()
        return directory, report.last_lines

    def task(self, checkout: Checkout, script: str) -> SandboxTask:
        run_dir = run_dir_in(checkout.tree.parent)
        create_run_directory(run_dir, self.sandbox.owner_uid(SLOT))
        return SandboxTask(
            argv=("sh", "-c", script),
            environment={"SECRET": "x"},
            workspace=checkout.tree,
            run_dir=run_dir,
            timeout_seconds=300,
            slot=SLOT,
        )


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with workspace_harness(tmp_path) as repository:
        yield Harness(repository)


async def test_a_job_runs_in_the_spare_that_was_created_after_the_last_one(
    harness: Harness,
) -> None:
    assert await harness.run_job() == (None, "")
    harness.spares.create([SLOT])
    (spare,) = harness.directories
    await eventually(lambda: len(processes_with(spare / "tree")) > 1)
    namespaces = {
        os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - not a path
        for pid in processes_with(spare / "tree")
    }
    script = "readlink /proc/self/ns/pid; cat README.md; touch new; git status --porcelain"
    directory, output = await harness.run_job(script)
    namespace, *lines = output.splitlines()
    assert directory == spare
    assert namespace in namespaces
    assert lines == ["# Sample", "?? new"]
    assert harness.directories == []
    assert processes_with(spare / "tree") == []


async def test_a_spare_contains_nothing_of_the_job_before(harness: Harness) -> None:
    await harness.run_job(
        "touch /tmp/left /workspace/left $AGENTJOBS_REPORT $AGENTJOBS_ARTIFACTS/left"
    )
    harness.spares.create([SLOT])
    (spare,) = harness.directories
    assert list((spare / "tree").iterdir()) == []
    assert sorted(path.name for path in run_dir_in(spare).rglob("*")) == ["artifacts", "report"]
    _, output = await harness.run_job(
        "ls /tmp /workspace/left $AGENTJOBS_REPORT $AGENTJOBS_ARTIFACTS/left; env"
    )
    assert output.count("No such file") == 3
    assert "left\n" not in output


async def test_a_slot_has_one_spare_and_gets_none_without_a_job(harness: Harness) -> None:
    harness.spares.create([SLOT])
    await harness.run_job()
    harness.spares.create([SLOT, SLOT + 1])
    harness.spares.create([SLOT])
    assert len(harness.directories) == 1
    await harness.spares.close()


async def test_nothing_is_left_of_a_spare_that_its_job_did_not_use(harness: Harness) -> None:
    await harness.run_job()
    harness.spares.create([SLOT])
    with pytest.raises(RuntimeError, match="before the checkout"):
        async with harness.spares.borrow(SLOT):
            raise RuntimeError("before the checkout")
    assert harness.directories == []
    await harness.run_job()
    harness.spares.create([SLOT])
    (spare,) = harness.directories
    head = await harness.repository.head()
    with pytest.raises(RuntimeError, match="before the agent"):
        async with (
            harness.spares.borrow(SLOT) as directory,
            harness.repository.workspaces.checkout(REPO, head, owner_uid=None, into=directory),
        ):
            raise RuntimeError("before the agent")
    await harness.repository.workspaces.wait_until_idle()
    assert harness.directories == []
    assert processes_with(spare / "tree") == []


async def test_a_worker_that_stops_leaves_no_spare(harness: Harness) -> None:
    await harness.run_job()
    harness.spares.create([SLOT])
    (spare,) = harness.directories
    await harness.spares.close()
    assert harness.directories == []
    assert processes_with(spare / "tree") == []


async def test_a_spare_whose_sandbox_cannot_be_created_does_not_disturb_the_next_job(
    harness: Harness, tmp_path: Path
) -> None:
    await harness.run_job()
    last = harness.spares._last_tasks[SLOT]
    missing = tmp_path / "missing"
    harness.spares._last_tasks[SLOT] = dataclasses.replace(last, read_only=(missing,))
    harness.spares.create([SLOT])
    _, output = await harness.run_job("echo done")
    assert output == "done"
    assert harness.directories == []
