"""Removes webhooks that the service registered: of repositories that were disconnected, or for
which webhooks were turned off. A platform that is away is asked again for about a day."""

import logging

import msgspec

from agentjobs.connections.health import sync_backoff_ms
from agentjobs.connections.hook_urls import hook_path
from agentjobs.platform_sync.sync import RETRY_SECONDS, PlatformSource
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import PlatformError, RepoAddress
from agentjobs.repos import hook_rows
from agentjobs.repos.hook_rows import DueRemoval
from agentjobs.store.database import Database

MAX_BATCH = 50
# The waits between them add up to a day.
MAX_FAILURES = 30
_log = logging.getLogger(__name__)


async def remove_due_hooks(db: Database, platforms: PlatformSource) -> None:
    """A bounded number, one after the other."""
    for removal in await hook_rows.due_removals(db, MAX_BATCH):
        try:
            await _remove(platforms, removal)
        except PlatformError as error:
            await _retry_or_forget(db, removal, error)
        else:
            await db.transact(hook_rows.forget_hook, removal.repo_id)


async def remove_hooks_of_connection(
    db: Database, platforms: PlatformSource, connection_id: str
) -> list[str]:
    """Try each removal that is left once, before the connection is removed. Returns the names of
    the repositories whose webhook stays on the platform."""
    removals = await hook_rows.due_removals(db, MAX_BATCH, connection_id=connection_id)
    left = {removal.repo_id: removal.full_name for removal in removals}
    for removal in removals:
        try:
            await _remove(platforms, removal)
        except PlatformError as error:
            if error.fault == "away":
                break
        else:
            await db.transact(hook_rows.forget_hook, removal.repo_id)
            del left[removal.repo_id]
    return list(left.values())


async def _remove(platforms: PlatformSource, removal: DueRemoval) -> None:
    """A repository or connection that is gone took its webhooks along."""
    address = RepoAddress(
        removal.organization, removal.full_name, removal.repo_id, removal.external_id
    )
    path = hook_path(removal.platform, removal.connection_id, removal.repo_id)
    try:
        platform = await platforms.adapter_for(removal.connection_id, RetryBudget(RETRY_SECONDS))
        remote = await platform.repository(address)
        current = msgspec.structs.replace(address, full_name=remote.full_name)
        for hook in await platform.hooks.of_repository(current):
            if hook.target_url.endswith(path):
                await platform.hooks.delete(current, hook.hook_id)
    except PlatformError as error:
        if error.fault != "gone":
            raise


async def _retry_or_forget(db: Database, removal: DueRemoval, error: PlatformError) -> None:
    fields = {"repo_id": removal.repo_id, "failures": removal.failures + 1, "reason": str(error)}
    if removal.failures + 1 < MAX_FAILURES and error.fault != "denied":
        wait_ms = sync_backoff_ms(removal.failures)
        await db.transact(hook_rows.retry_removal, removal.repo_id, wait_ms)
        return
    _log.warning("a webhook stays on its platform: delete it there", extra={"fields": fields})
    await db.transact(hook_rows.forget_hook, removal.repo_id)
