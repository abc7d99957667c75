"""Whose repositories are looked at when somebody's platform is slow, on both stores."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection, add_connection
from agentjobs.connections.repositories import connect_repositories
from agentjobs.forges.protocol import Platform, RemoteRepository, RepoAddress
from agentjobs.git.remote import Remote
from agentjobs.loops import platform_loop
from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.organizations.organizations import create_organization, ensure_default
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.settings import Settings, load
from agentjobs.settings.tables import DEFAULT_PLANS
from agentjobs.store.database import Database
from tests.support.platform_sync import TownHall
from tests.support.stores import until


class SlowHall(TownHall):
    """One that never says what it has."""

    is_slow = False

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        if self.is_slow:
            self.asked["repository"] += 1
            await asyncio.Event().wait()
        return await super().repository(repo)


@dataclass
class Halls:
    """Of each connection one; `Platforms` for who asks."""

    db: Database
    settings: Settings
    by_connection: dict[str, SlowHall] = field(default_factory=dict)

    async def adapter_for(self, connection_id: str, _: object = None, /) -> Platform:
        return self.by_connection[connection_id]

    async def open(self, organization: str, name: str, repositories: int) -> SlowHall:
        keys = SealingKeys.load(self.settings)
        new = NewConnection(
            platform="gitea", credential="t0ken", url="https://git.example.org", name=name
        )
        added = await add_connection(self.db, keys, organization, new)
        hall = self.by_connection[added.connection.id] = SlowHall(Remote("https://nowhere.example"))
        for number in range(repositories):
            seen = RemoteRepository(f"{number}", f"{organization}/{name}-{number}", "main")
            hall.seen[seen.external_id] = seen
        await connect_repositories(self.db, cast("Platforms", self), organization, name)
        # Nothing is fetched: this is not about git.
        for one in hall.seen.values():
            hall.seen[one.external_id] = RemoteRepository(one.external_id, one.full_name, "")
        return hall

    def loop(self) -> PlatformLoop:
        return PlatformLoop(self.db, PlatformSync(self.db, self, self.settings, nothing, nothing))


async def nothing(*_: object) -> None:
    pass


@pytest.fixture
async def halls(database: Database, tmp_path: Path) -> Halls:
    plans = Plans(DEFAULT_PLANS)
    await ensure_default(database, plans)
    await create_organization(database, plans, "slow", "enterprise")
    await create_organization(database, plans, "quick", "enterprise")
    return Halls(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))


@pytest.fixture
async def running(halls: Halls) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_the_platforms_of_one_organization_do_not_keep_the_others_waiting(
    halls: Halls, running: list[asyncio.Task[None]]
) -> None:
    slow = [await halls.open("slow", f"c{number}", 4) for number in range(3)]
    for hall in slow:
        hall.is_slow = True
    quick = await halls.open("quick", "q", 5)
    running.append(asyncio.create_task(halls.loop().run()))
    await until(lambda: quick.asked["repository"] == 5)
    asked = [hall.asked["repository"] for hall in slow]
    assert sum(asked) == platform_loop.MOST_OF_AN_ORGANIZATION
    assert max(asked) == platform_loop.MOST_OF_A_CONNECTION


async def test_what_takes_very_long_holds_a_place_of_its_organization_only(
    halls: Halls, running: list[asyncio.Task[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform_loop, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(platform_loop, "LONG_SECONDS", -1.0)
    slow = await halls.open("slow", "c", 4)
    slow.is_slow = True
    quick = await halls.open("quick", "q", 2)
    running.append(asyncio.create_task(halls.loop().run()))
    await until(lambda: quick.asked["repository"] == 2)
    assert slow.asked["repository"] == platform_loop.MOST_OF_A_CONNECTION
