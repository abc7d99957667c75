"""`agentjobs doctor`: checks the credentials of platform connections and trackers."""

import asyncio

import aiohttp

from agentjobs.app.outbound_setup import build_platforms, open_session, prepare_certificates
from agentjobs.cli.doctor.finding import Finding
from agentjobs.connections.adapters import Platforms
from agentjobs.connections.commits import describe_commits
from agentjobs.connections.connections import (
    list_all_connections,
    open_credential,
    open_hook_secret,
)
from agentjobs.connections.signing import open_signing_key
from agentjobs.organizations.organizations import list_organizations
from agentjobs.organizations.sealing import DecryptionFailed, SealingKeys
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs.store.database import Database
from agentjobs.tickets.resolve import jira_tracker
from agentjobs.tickets.rows import ConfiguredTracker
from agentjobs.tickets.trackers import load_trackers, open_tracker
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, SettingsError

_RETRY_SECONDS = 10.0


async def check_platforms(settings: Settings, db: Database) -> list[Finding]:
    connections = await list_all_connections(db)
    trackers = await _list_jira_trackers(db)
    if not connections and not trackers:
        return [
            Finding(
                "platforms",
                "note",
                "no platform is connected; add one with `agentjobs platforms add`",
            )
        ]
    try:
        return await _check_all(settings, db, connections, trackers)
    except (Problem, SettingsError) as error:
        return [Finding("platforms", "problem", str(error))]


async def _check_all(
    settings: Settings,
    db: Database,
    connections: list[Connection],
    trackers: list[ConfiguredTracker],
) -> list[Finding]:
    keys = SealingKeys.load(settings)
    async with open_session(settings) as session:
        platforms = build_platforms(db, settings, session, prepare_certificates(settings))
        return await asyncio.gather(
            *(
                _check_platform(settings, db, keys, platforms, connection)
                for connection in connections
            ),
            *(_check_tracker(db, keys, session, tracker) for tracker in trackers),
        )


async def _check_platform(
    settings: Settings,
    db: Database,
    keys: SealingKeys,
    platforms: Platforms,
    connection: Connection,
) -> Finding:
    name = f"{connection.name} at {connection.url}"
    try:
        # First, because an adapter's error does not say which key is missing.
        await open_credential(db, keys, connection.id)
        await open_hook_secret(db, keys, connection.id)
        await open_signing_key(db, keys, connection.id)
        platform = await platforms.adapter_for(connection.id, RetryBudget(_RETRY_SECONDS))
        account = await platform.check()
    except DecryptionFailed as failure:
        return Finding("platforms", "problem", f"{name}: {failure.reason}")
    except (PlatformError, Problem) as error:
        return Finding("platforms", "problem", f"{name}: {error}")
    if account.missing:
        return Finding(
            "platforms", "problem", f"{name} lacks permissions: {'; '.join(account.missing)}"
        )
    commits = describe_commits(settings, connection.checked_as(account))
    return Finding("platforms", "ok", f"{name}: signed in as {account.login}. {commits}")


async def _list_jira_trackers(db: Database) -> list[ConfiguredTracker]:
    """The Jira trackers of all organizations. Issue trackers use the connections."""
    owners = await list_organizations(db)
    trackers = [tracker for owner in owners for tracker in await load_trackers(db, owner.id)]
    return [tracker for tracker in trackers if tracker.kind == "jira"]


async def _check_tracker(
    db: Database,
    keys: SealingKeys,
    session: aiohttp.ClientSession,
    tracker: ConfiguredTracker,
) -> Finding:
    name = f"{tracker.name} at {tracker.url}"
    try:
        opened = await open_tracker(db, keys, tracker.id)
        if opened is None:
            return Finding("trackers", "note", f"{name} was just removed")
        account = await jira_tracker(*opened, session, RetryBudget(_RETRY_SECONDS)).check()
    except DecryptionFailed as failure:
        return Finding("trackers", "problem", f"{name}: {failure.reason}")
    except (PlatformError, Problem) as error:
        return Finding("trackers", "problem", f"{name}: {error}")
    return Finding("trackers", "ok", f"{name}: signed in as {account}")
