"""Slow platforms do not block the others, on both stores."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import pytest

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection
from agentjobs.connections.repositories import connect_repositories
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.loops import platform_loop
from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.organizations.organizations import create_organization, ensure_default
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.platforms.protocol import Platform, RemoteRepository, RepoAddress
from agentjobs.store.database import Database
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.settings import Settings, load
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from agentjobs_worker.agents.catalog import Catalog
from tests.support.added_connections import add_connection
from tests.support.platform_sync import FakePlatform
from tests.support.stores import until


class SlowPlatform(FakePlatform):
    """Does not respond while it is slow."""

    is_slow = False

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        if self.is_slow:
            self.requests["repository"] += 1
            await asyncio.Event().wait()
        return await super().repository(repo)


@dataclass
class PlatformSet:
    """One platform per connection."""

    db: Database
    settings: Settings
    by_connection: dict[str, SlowPlatform] = field(default_factory=dict)

    async def adapter_for(self, connection_id: str, _: object = None, /) -> Platform:
        return self.by_connection[connection_id]

    async def open(self, organization: str, name: str, repositories: int) -> SlowPlatform:
        keys = SealingKeys.load(self.settings)
        new = NewConnection(
            platform="gitea", credential="t0ken", url="https://git.example.org", name=name
        )
        added = await add_connection(self.db, keys, organization, new)
        platform = self.by_connection[added.connection.id] = SlowPlatform(
            Remote("https://nowhere.example")
        )
        for number in range(repositories):
            remote = RemoteRepository(f"{number}", f"{organization}/{name}-{number}", "main")
            platform.repos[remote.external_id] = remote
        await connect_repositories(self.db, cast("Platforms", self), organization, name)
        # Without a default branch, nothing is fetched.
        for remote in list(platform.repos.values()):
            platform.repos[remote.external_id] = msgspec.structs.replace(remote, default_branch="")
        return platform

    def loop(self) -> PlatformLoop:
        context = JobsContext(self.db, self.settings, Catalog([]))
        return PlatformLoop(
            self.db, PlatformSync(context, self, SealingKeys.load(context.settings))
        )


@pytest.fixture
async def platforms(database: Database, tmp_path: Path) -> PlatformSet:
    plans = Plans(DEFAULT_PLANS)
    await ensure_default(database, plans)
    await create_organization(database, plans, "slow", "enterprise")
    await create_organization(database, plans, "quick", "enterprise")
    return PlatformSet(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))


@pytest.fixture
async def running(platforms: PlatformSet) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_slow_platforms_of_one_organization_do_not_block_other_organizations(
    platforms: PlatformSet, running: list[asyncio.Task[None]]
) -> None:
    slow = [await platforms.open("slow", f"c{number}", 4) for number in range(3)]
    for platform in slow:
        platform.is_slow = True
    quick = await platforms.open("quick", "q", 5)
    running.append(asyncio.create_task(platforms.loop().run()))
    await until(lambda: quick.requests["repository"] == 5)
    requests = [platform.requests["repository"] for platform in slow]
    assert sum(requests) == platform_loop.MAX_PER_ORGANIZATION
    assert max(requests) == platform_loop.MAX_PER_CONNECTION


async def test_a_very_long_sync_counts_against_its_organization_only(
    platforms: PlatformSet, running: list[asyncio.Task[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform_loop, "MAX_CONCURRENT", 1)
    monkeypatch.setattr(platform_loop, "LONG_SECONDS", -1.0)
    slow = await platforms.open("slow", "c", 4)
    slow.is_slow = True
    quick = await platforms.open("quick", "q", 2)
    running.append(asyncio.create_task(platforms.loop().run()))
    await until(lambda: quick.requests["repository"] == 2)
    assert slow.requests["repository"] == platform_loop.MAX_PER_CONNECTION
