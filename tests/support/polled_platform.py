"""A service that polls all repositories of a contract server, in this process."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection
from agentjobs.connections.repositories import connect_repositories
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.organizations.organizations import ensure_default
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.store.database import Database
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from agentjobs_worker.agents.catalog import Catalog
from tests.support.added_connections import add_connection
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.platform_adapters import LOOPBACK, connection_to, credential_of


@contextlib.asynccontextmanager
async def polled_platform(
    db: Database, directory: Path, server: ContractServer, *, as_app: bool = False
) -> AsyncIterator[PlatformLoop]:
    settings = Settings(data_dir=str(directory / "data"))
    await ensure_default(db, Plans(DEFAULT_PLANS))
    keys = SealingKeys.load(settings)
    async with server.serving(), new_session(LOOPBACK, str(server.authorities)) as session:
        platforms = Platforms(db, keys, session, GitTransport(LOOPBACK, server.authorities))
        connection = connection_to(server, as_app=as_app)
        new = NewConnection(
            platform=server.platform,
            credential=credential_of(server, connection),
            url=server.url,
            app_id=connection.app_id,
            installation_id=connection.installation_id,
        )
        added = await add_connection(db, keys, "default", new)
        await connect_repositories(db, platforms, "default", added.connection.name)
        context = JobsContext(db, settings, Catalog([]))
        yield PlatformLoop(db, PlatformSync(context, platforms, keys))
