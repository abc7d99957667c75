"""The dashboard in this process, on a real SQLite store, with people of every role."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from agentjobs.organizations.key_ring import Caller, KeyRing
from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.sessions import Origin, start_session
from agentjobs.organizations.users import User, create_user
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs.web.application import build_application
from agentjobs.web.context import WebContext
from tests.unit.web.dashboard.browser import Browser
from tests.world import World, world_of

PASSWORD = "correct horse battery"


@dataclass
class Dashboard:
    """`admin`, `member` and `viewer` are of acme, `outsider` is an admin of the organization other.

    `world` makes repositories, jobs and runs; `caller` is acme's.
    """

    world: World
    context: WebContext
    app: ASGIApp
    caller: Caller
    other: Caller
    admin: Browser
    member: Browser
    viewer: Browser
    outsider: Browser
    nobody: Browser

    @property
    def db(self) -> Database:
        return self.world.db

    async def person(self, email: str, organization_id: str, role: str) -> tuple[User, Browser]:
        user = await create_user(self.db, email, name=email.partition("@")[0].title())
        await add_member(self.db, organization_id, user.id, role)
        origin = Origin("127.0.0.1", "a test")
        token = await start_session(self.db, self.context.settings, user.id, origin)
        return user, Browser(self.app, token, email)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path))


@pytest.fixture
async def dashboard(sqlite_url: str, settings: Settings) -> AsyncIterator[Dashboard]:
    db = await open_database(sqlite_url, migrate=False)
    world = world_of(db, settings)
    acme, other = await world.organization("acme"), await world.organization("other")
    context = WebContext(world.context, KeyRing(db))
    app = build_application(context)
    nobody = Browser(app)
    house = Dashboard(world, context, app, acme, other, nobody, nobody, nobody, nobody, nobody)
    for role in ("admin", "member", "viewer"):
        _, browser = await house.person(f"{role}@acme.example", acme.organization_id, role)
        setattr(house, role, browser)
    _, house.outsider = await house.person("eve@other.example", other.organization_id, "admin")
    yield house
    for browser in (house.admin, house.member, house.viewer, house.outsider, nobody):
        await browser.close()
    await context.close()
    await db.close()
