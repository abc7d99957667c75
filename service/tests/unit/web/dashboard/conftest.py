"""The dashboard in this process, on a real SQLite store, with users of every role."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pytest
from starlette.types import ASGIApp

from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator, Caller
from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.sessions import Origin, start_session
from agentjobs.organizations.users import User
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs.web.application import build_application
from agentjobs.web.context import WebContext
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.dashboard.browser import Browser
from service.tests.unit.web.dashboard.organizations import (
    SampleOrganizations,
    create_sample_organizations,
)
from service.tests.unit.web.dashboard.platform_data import platforms_of
from service.tests.unit.web.dashboard.repository import TextMaker, create_repository, plain_text
from service.tests.unit.web.dashboard.sample_data import SampleIds
from tests.support.jobs import JobHarness, job_harness
from tests.support.users import create_user

PASSWORD = "correct horse battery"


@dataclass
class Dashboard:
    """`admin`, `member` and `viewer` are of acme, `outsider` is an admin of the organization other.

    `harness` makes repositories, jobs and runs; `caller` is acme's. `samples` are the identifiers
    of the sample data of each organization.
    """

    harness: JobHarness
    context: WebContext
    app: ASGIApp
    caller: Caller
    other: Caller
    admin: Browser
    member: Browser
    viewer: Browser
    outsider: Browser
    anonymous: Browser
    samples: dict[str, SampleIds] = field(default_factory=dict)

    @property
    def db(self) -> Database:
        return self.harness.db

    async def add_user(self, email: str, organization_id: str, role: str) -> tuple[User, Browser]:
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
    harness = job_harness(db, settings)
    acme, other = await harness.organization("acme"), await harness.organization("other")
    context = WebContext(harness.context, ApiKeyAuthenticator(db))
    context.platforms = platforms_of(harness)
    app = build_application(context)
    anonymous = Browser(app)
    created = Dashboard(
        harness, context, app, acme, other, anonymous, anonymous, anonymous, anonymous, anonymous
    )
    for role in ("admin", "member", "viewer"):
        _, browser = await created.add_user(f"{role}@acme.example", acme.organization_id, role)
        setattr(created, role, browser)
    _, created.outsider = await created.add_user(
        "eve@other.example", other.organization_id, "admin"
    )
    yield created
    for browser in (
        created.admin,
        created.member,
        created.viewer,
        created.outsider,
        anonymous,
    ):
        await browser.close()
    await context.close()
    await db.close()


@pytest.fixture(scope="session")
def sample_template(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, SampleOrganizations]:
    """The data directory and the contents of the sample organizations."""
    return build_sample_template(sqlite_template, tmp_path_factory.mktemp("samples"))


@pytest.fixture
async def sample_dashboard(
    sample_template: tuple[Path, SampleOrganizations], tmp_path: Path
) -> AsyncIterator[Dashboard]:
    """A dashboard for each test, on a copy of the sample organizations."""
    async with open_sample_dashboard(sample_template, tmp_path) as dashboard:
        yield dashboard


def build_sample_template(
    sqlite_template: Path, directory: Path, make_text: TextMaker = plain_text, suffix: str = ""
) -> tuple[Path, SampleOrganizations]:
    data = directory / "data"
    data.mkdir()
    copy(sqlite_template, data / "agentjobs.db")

    async def build() -> SampleOrganizations:
        db = await open_database(f"sqlite:///{data / 'agentjobs.db'}", migrate=False)
        settings = Settings(data_dir=str(data), webhooks_allow=["192.0.2.0/24"])
        organizations = await create_sample_organizations(
            job_harness(db, settings), create_repository(directory, make_text, suffix), make_text
        )
        await db.close()
        return organizations

    # In a separate thread, because this thread may already have an event loop.
    with ThreadPoolExecutor(1) as thread:
        return data, thread.submit(asyncio.run, build()).result()


@asynccontextmanager
async def open_sample_dashboard(
    sample_template: tuple[Path, SampleOrganizations], directory: Path, **more: Any
) -> AsyncIterator[Dashboard]:
    template, organizations = sample_template
    data = copytree(template, directory / "data")
    db = await open_database(f"sqlite:///{data / 'agentjobs.db'}", migrate=False)
    harness = job_harness(db, Settings(data_dir=str(data), **more))
    callers = [await _caller(db, name) for name in ("acme", "other")]
    context = WebContext(harness.context, ApiKeyAuthenticator(db))
    context.platforms = platforms_of(harness)
    app = build_application(context)
    browsers = [
        Browser(app, organizations.tokens["acme", role], role)
        for role in ("admin", "member", "viewer")
    ]
    browsers += [Browser(app, organizations.tokens["other", "admin"], "outsider"), Browser(app)]
    yield Dashboard(harness, context, app, *callers, *browsers, dict(organizations.samples))
    for browser in browsers:
        await browser.close()
    await context.close()
    await db.close()


async def _caller(db: Database, organization: str) -> Caller:
    created = await create_key(db, organization)
    caller = await ApiKeyAuthenticator(db).authenticate(created.key)
    assert caller is not None
    return caller
