"""A worker with the tools its jobs need."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from agentjobs.agents.certificates import make_bundle
from agentjobs.forges.local import LocalForge
from agentjobs.gateway.prices import prices_of
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.credentials import may_write_branch
from agentjobs.jobs.tools import JobTools
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.outbound.addresses import Allowed
from agentjobs.outbound.connector import new_session
from agentjobs.repos.facts import FactsCache
from agentjobs.sandbox.choice import sandbox_for
from agentjobs.settings import Settings, SettingsError
from agentjobs.worker.worker import Worker
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.mirror import Mirrors


@contextlib.asynccontextmanager
async def working(context: JobsContext, git_url: str) -> AsyncIterator[Worker]:
    settings = context.settings
    sandbox = sandbox_for(settings)
    await sandbox.check()
    mirrors = Mirrors(settings.data_path / "mirrors")
    public_url = settings.effective_public_url
    forge = LocalForge(context.db, git_url, public_url, may_write_branch)
    allowed = _allowed(settings)
    workspaces = Workspaces(
        settings.data_path / "workspaces", mirrors, cache_max_bytes=settings.cache_max_bytes
    )
    session = _session(settings, allowed)
    try:
        tools = JobTools(
            context=context,
            mirrors=mirrors,
            workspaces=workspaces,
            sandbox=sandbox,
            forges={forge.platform: forge},
            facts=FactsCache(),
            keys=SealingKeys.load(settings),
            prices=prices_of(settings),
            allowed=allowed,
            session=session,
            certificates=certificates_of(settings),
        )
        worker = Worker(tools, settings.effective_slots)
        await worker.start()
        yield worker
    finally:
        await session.close()
        await workspaces.close()


def _session(settings: Settings, allowed: Allowed) -> aiohttp.ClientSession:
    try:
        return new_session(allowed, settings.ca_file)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def certificates_of(settings: Settings) -> Path | None:
    if not settings.ca_file:
        return None
    try:
        return make_bundle(Path(settings.ca_file), settings.data_path)
    except OSError as error:
        raise SettingsError(f"ca_file {settings.ca_file}: {error.strerror}") from None


def _allowed(settings: Settings) -> Allowed:
    try:
        return Allowed.parse(settings.egress_allow)
    except ValueError as error:
        raise SettingsError(f"AGENTJOBS_EGRESS_ALLOW: {error}") from None
