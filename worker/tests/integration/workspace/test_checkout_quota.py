"""What the checkouts of one organization take at the same time on a worker is limited."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from agentjobs_runtime.files.copying import measure_tree
from agentjobs_runtime.mirrors.checkout_limits import CheckoutLimits
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_worker.workspace import checkout_quota
from agentjobs_worker.workspace.checkout import Workspaces
from tests.support.workspace import REPO, WorkspaceHarness, workspace_harness

MIB = 1024**2


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as harness:
        yield harness


@asynccontextmanager
async def workspaces_with_quota(
    harness: WorkspaceHarness, organization_mib: int
) -> AsyncIterator[Workspaces]:
    limits = CheckoutLimits(size_bytes=64 * MIB, organization_bytes=organization_mib * MIB)
    workspaces = Workspaces(harness.root / "data/workspaces", harness.mirrors, limits=limits)
    yield workspaces
    await workspaces.close()


async def large_commit(harness: WorkspaceHarness) -> str:
    """Its files and their pack take 6 MiB."""
    commit = harness.origin.commit({"random.bin": os.urandom(3 * MIB)})
    assert await harness.head() == commit
    return commit


async def test_a_checkout_above_the_quota_is_refused_and_nothing_is_written(
    harness: WorkspaceHarness,
) -> None:
    commit = await large_commit(harness)
    async with workspaces_with_quota(harness, 1) as workspaces:
        with pytest.raises(
            RepoUnavailable,
            match="checks out to 3 MiB on disk, and an organization may have 1 MiB on a worker;"
            " remove large files, or raise the setting limit_organization_disk_mib",
        ):
            async with workspaces.checkout(REPO, commit, owner_uid=None, organization_id="acme"):
                pytest.fail("the commit was checked out")
        assert measure_tree(harness.root / "data/workspaces")[1] < MIB // 2


async def test_a_checkout_waits_for_others_of_its_organization_but_not_for_foreign_ones(
    harness: WorkspaceHarness,
) -> None:
    commit = await large_commit(harness)
    order: list[str] = []

    async def check_out(organization_id: str, name: str) -> None:
        async with workspaces.checkout(
            REPO, commit, owner_uid=None, organization_id=organization_id
        ):
            order.append(name)

    async with workspaces_with_quota(harness, 8) as workspaces:
        async with workspaces.checkout(REPO, commit, owner_uid=None, organization_id="acme"):
            waiting = asyncio.create_task(check_out("acme", "second of acme"))
            await check_out("other", "first of other")
            await check_out("other", "second of other")
            order.append("first of acme ended")
        await waiting
    assert order == ["first of other", "second of other", "first of acme ended", "second of acme"]


async def test_a_checkout_that_waited_too_long_fails_for_lack_of_space(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_quota, "MAX_WAIT_SECONDS", 0.01)
    commit = await large_commit(harness)
    async with workspaces_with_quota(harness, 8) as workspaces, AsyncExitStack() as stack:
        await stack.enter_async_context(
            workspaces.checkout(REPO, commit, owner_uid=None, organization_id="acme")
        )
        with pytest.raises(RepoUnavailable, match="other jobs of the organization have") as caught:
            await stack.enter_async_context(
                workspaces.checkout(REPO, commit, owner_uid=None, organization_id="acme")
            )
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EDQUOT


async def test_only_what_a_checkout_really_takes_is_held(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_quota, "MAX_WAIT_SECONDS", 0.01)
    commit = await harness.head()
    async with workspaces_with_quota(harness, 4) as workspaces, AsyncExitStack() as stack:
        for _ in range(5):
            # A small tree may take 4 MiB, and takes some kilobytes.
            await stack.enter_async_context(
                workspaces.checkout(REPO, commit, owner_uid=None, organization_id="acme")
            )
