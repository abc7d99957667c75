"""Checks that a tracker accepts its token, before it is stored and on request."""

import aiohttp

from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs.store.database import Database
from agentjobs.tickets import trackers
from agentjobs.tickets.resolve import jira_tracker
from agentjobs.tickets.rows import ConfiguredTracker
from agentjobs.tickets.trackers import NewTracker
from agentjobs_runtime.problems import Problem


async def verify_and_add(
    db: Database,
    keys: SealingKeys,
    session: aiohttp.ClientSession,
    organization: str,
    new: NewTracker,
    retry_budget: RetryBudget,
) -> tuple[ConfiguredTracker, str | None]:
    """The tracker and the account of its token, None for issues. Nothing is stored if the tracker
    refuses the token. Raises Problem."""
    owner = await find_organization(db, organization)
    draft = trackers.draft_from(owner.id, new)
    account = None
    if draft.kind == "jira":
        account = await _check(draft, new.token, session, retry_budget)
    added = await trackers.add_tracker(db, keys, organization, new)
    if account is not None:
        await trackers.record_check(db, added.id)
    return await trackers.find_tracker(db, organization, added.id), account


async def check_tracker(
    db: Database,
    keys: SealingKeys,
    session: aiohttp.ClientSession,
    organization: str,
    name: str,
    retry_budget: RetryBudget,
) -> tuple[ConfiguredTracker, str | None]:
    """Check a stored tracker and store the result. Raises Problem."""
    tracker = await trackers.find_tracker(db, organization, name)
    opened = await trackers.open_tracker(db, keys, tracker.id)
    account = None
    if tracker.kind == "jira" and opened is not None:
        try:
            account = await _check(*opened, session, retry_budget)
        except Problem as problem:
            await trackers.record_check(db, tracker.id, problem.message)
            raise
        await trackers.record_check(db, tracker.id)
    return await trackers.find_tracker(db, organization, tracker.id), account


async def verify_and_replace(
    db: Database,
    keys: SealingKeys,
    session: aiohttp.ClientSession,
    organization: str,
    name: str,
    token: str,
    retry_budget: RetryBudget,
) -> tuple[ConfiguredTracker, str]:
    """Replace the token if the tracker accepts the new one. Raises Problem."""
    tracker = await trackers.find_tracker(db, organization, name)
    trackers.check_token(tracker, token)
    account = await _check(tracker, token, session, retry_budget)
    await trackers.replace_token(db, keys, organization, tracker.id, token)
    await trackers.record_check(db, tracker.id)
    return await trackers.find_tracker(db, organization, tracker.id), account


async def _check(
    tracker: ConfiguredTracker,
    token: str,
    session: aiohttp.ClientSession,
    retry_budget: RetryBudget,
) -> str:
    try:
        return await jira_tracker(tracker, token, session, retry_budget).check()
    except PlatformError as error:
        raise Problem("tracker_refused", str(error)) from None
