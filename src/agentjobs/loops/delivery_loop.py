"""Webhooks go out while the body runs; at its end what is under way gets a moment to finish."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from agentjobs.loops.loop import end_tasks, keep_alive
from agentjobs.loops.open_files import raise_open_files_limit
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.settings import Settings, SettingsError
from agentjobs.store.database import Database, StoreError
from agentjobs.webhooks.send import connections_of
from agentjobs.webhooks.sender import Sender
from agentjobs.webhooks.signing_secrets import SecretBox

_log = logging.getLogger(__name__)
# A receiver that hangs must not hold up the end; what is cut off is sent again.
_MOST_DRAIN_SECONDS = 5.0


@contextlib.asynccontextmanager
async def sending(
    db: Database, settings: Settings, allowed: Allowed, hurry: asyncio.Event
) -> AsyncIterator[None]:
    if not settings.send_webhooks:
        yield
        return
    # Receivers hold connections, too.
    raise_open_files_limit()
    try:
        connections = connections_of(settings, allowed)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    sender = Sender(db, SecretBox(SealingKeys.load(settings)), connections, settings)
    running = {
        asyncio.create_task(keep_alive("deliveries", sender.run)),
        asyncio.create_task(keep_alive("delivery records", sender.recorder.run)),
    }
    try:
        yield
    finally:
        await end_tasks(running)
        await _drain(sender, settings, hurry)
        await connections.close()


async def _drain(sender: Sender, settings: Settings, hurry: asyncio.Event) -> None:
    seconds = min(_MOST_DRAIN_SECONDS, settings.drain_grace_seconds)
    try:
        await sender.drain(seconds, hurry)
    except StoreError as error:
        _log.warning("the store does not learn which deliveries went out last: %s", error)
