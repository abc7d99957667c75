"""Runs a webhook sender; on shutdown, attempts in progress get a few seconds to finish."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from functools import partial

from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.users import USERS_TOPIC, has_only_the_operator
from agentjobs.store.database import Database, StoreError
from agentjobs.webhooks.allowed_addresses import with_loopback
from agentjobs.webhooks.attempt import WebhookClient
from agentjobs.webhooks.sender import Sender
from agentjobs.webhooks.signing import SecretOpener
from agentjobs_runtime.loop import end_tasks, keep_alive
from agentjobs_runtime.open_files import raise_open_files_limit
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.settings import Settings, SettingsError

_log = logging.getLogger(__name__)
# Limits how long a hanging receiver delays shutdown; interrupted deliveries are sent again.
_MAX_DRAIN_SECONDS = 5.0
# Invitations expire without an announcement.
_RECHECK_SECONDS = 30.0


@contextlib.asynccontextmanager
async def run_sender(
    db: Database,
    settings: Settings,
    allowed: AllowList,
    force_stop: asyncio.Event,
    *,
    loopback: bool = False,
) -> AsyncIterator[Mapping[str, int]]:
    """`loopback`: receivers on this machine are allowed while the operator is the only user.

    Yields the number of attempts by result.
    """
    if not settings.send_webhooks:
        yield {}
        return
    # Every attempt needs a file descriptor.
    raise_open_files_limit()
    has_loopback = loopback and await has_only_the_operator(db)
    try:
        client = WebhookClient.from_settings(
            settings, with_loopback(allowed) if has_loopback else allowed
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None
    sender = Sender(db, SecretOpener(SealingKeys.load(settings)), client, settings)
    tasks = {
        asyncio.create_task(keep_alive("deliveries", sender.run)),
        asyncio.create_task(keep_alive("delivery records", sender.recorder.run)),
    }
    if loopback:
        follow = partial(_follow_users, db, client, allowed)
        tasks.add(asyncio.create_task(keep_alive("webhook addresses", follow)))
    try:
        yield sender.results
    finally:
        await end_tasks(tasks)
        await _drain(sender, settings, force_stop)
        await client.close()


async def _follow_users(db: Database, client: WebhookClient, allowed: AllowList) -> None:
    """Allows loopback as long as nobody but the operator can add endpoints."""
    with db.changes.listen(USERS_TOPIC) as signal:
        while True:
            is_alone = await has_only_the_operator(db)
            if client.set_allowed(with_loopback(allowed) if is_alone else allowed):
                _log.info(
                    "webhooks may %s receivers on this machine",
                    "reach" if is_alone else "no longer reach",
                )
            await signal.wait(_RECHECK_SECONDS)


async def _drain(sender: Sender, settings: Settings, force_stop: asyncio.Event) -> None:
    seconds = min(_MAX_DRAIN_SECONDS, settings.drain_grace_seconds)
    try:
        await sender.drain(seconds, force_stop)
    except StoreError as error:
        _log.warning("the last deliveries could not be recorded: %s", error)
