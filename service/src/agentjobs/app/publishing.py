"""Builds what prepares runs and publishes finished work, and starts the loop that publishes it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agentjobs.advisories.registries.registry import Registry
from agentjobs.app.outbound_setup import build_platforms, open_session, prepare_certificates
from agentjobs.inventory.commit_summary import CommitSummaryCache
from agentjobs.inventory.indexing import pom_fetcher
from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.loops.mirrors_loop import MirrorsLoop
from agentjobs.loops.publish_loop import PublishLoop
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.publishing.context import ServiceTools
from agentjobs.pulls.local_platform import LocalPlatform
from agentjobs.tickets.resolve import Tickets
from agentjobs.web.context import WebContext
from agentjobs_dependencies.version_choice import RegistryVersionChooser
from agentjobs_runtime.loop import Loop, running_loops
from agentjobs_runtime.mirrors.checkout_limits import MIB, CheckoutLimits
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.settings import Settings


@contextlib.asynccontextmanager
async def open_service_tools(context: JobsContext, git_url: str) -> AsyncIterator[ServiceTools]:
    """`git_url` is the address of this service, from which `local` repositories are fetched."""
    settings = context.settings
    certificates = prepare_certificates(settings)
    async with contextlib.AsyncExitStack() as stack:
        session = open_session(settings)
        stack.push_async_callback(session.close)
        registry = Registry(settings, session)
        keys = SealingKeys.load(settings)
        platforms = build_platforms(context.db, settings, session, certificates)
        local = LocalPlatform(
            context.db, git_url, settings.effective_public_url, may_write_branch, certificates
        )
        yield ServiceTools(
            context=context,
            mirrors=Mirrors(settings.data_path / "mirrors"),
            builtin_adapters={local.platform: local},
            platforms=platforms,
            tickets=Tickets(context.db, keys, session, platforms),
            keys=keys,
            chooser=RegistryVersionChooser(registry, settings.minimum_release_age_days),
            poms=pom_fetcher(settings, registry),
            commit_summaries=CommitSummaryCache(checkout_limits(settings)),
        )


@contextlib.asynccontextmanager
async def publishing(
    tools: ServiceTools, web: WebContext, stop_now: asyncio.Event, *, has_worker: bool = False
) -> AsyncIterator[None]:
    """At exit, work that is being published has the time of a drain; `stop_now` ends it.

    `has_worker`: a worker of this process takes care of the mirrors.
    """
    settings = tools.context.settings
    loop = PublishLoop(tools, is_able=lambda: web.repositories.is_usable)
    loops: list[Loop] = [loop]
    if not has_worker:
        loops.append(MirrorsLoop(tools.db, tools.mirrors, settings.cache_max_bytes))
    try:
        async with running_loops(loops):
            yield
    finally:
        await loop.finish(settings.drain_grace_seconds, stop_now)


def checkout_limits(settings: Settings) -> CheckoutLimits:
    return CheckoutLimits(
        size_bytes=settings.limit_checkout_mib * MIB,
        files=settings.limit_checkout_files,
        organization_bytes=settings.limit_organization_disk_mib * MIB,
    )
