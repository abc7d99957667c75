"""Runs a webhook sender; on shutdown, attempts in progress get a few seconds to finish."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from agentjobs.loops.loop import end_tasks, keep_alive
from agentjobs.loops.open_files import raise_open_files_limit
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.settings import Settings, SettingsError
from agentjobs.store.database import Database, StoreError
from agentjobs.webhooks.attempt import WebhookClient
from agentjobs.webhooks.sender import Sender
from agentjobs.webhooks.signing import SecretOpener

_log = logging.getLogger(__name__)
# Limits how long a hanging receiver delays shutdown; interrupted deliveries are sent again.
_MAX_DRAIN_SECONDS = 5.0


@contextlib.asynccontextmanager
async def run_sender(
    db: Database, settings: Settings, allowed: AllowList, hurry: asyncio.Event
) -> AsyncIterator[None]:
    if not settings.send_webhooks:
        yield
        return
    # Every attempt needs a file descriptor.
    raise_open_files_limit()
    try:
        client = WebhookClient.from_settings(settings, allowed)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    sender = Sender(db, SecretOpener(SealingKeys.load(settings)), client, settings)
    tasks = {
        asyncio.create_task(keep_alive("deliveries", sender.run)),
        asyncio.create_task(keep_alive("delivery records", sender.recorder.run)),
    }
    try:
        yield
    finally:
        await end_tasks(tasks)
        await _drain(sender, settings, hurry)
        await client.close()


async def _drain(sender: Sender, settings: Settings, hurry: asyncio.Event) -> None:
    seconds = min(_MAX_DRAIN_SECONDS, settings.drain_grace_seconds)
    try:
        await sender.drain(seconds, hurry)
    except StoreError as error:
        _log.warning("the last deliveries could not be recorded: %s", error)
