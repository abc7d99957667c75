"""Whether a tracker takes its token: asked before one is added, and when somebody wants to know."""

import aiohttp

from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import ForgeError
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.store.database import Database
from agentjobs.tickets import trackers
from agentjobs.tickets.resolve import jira_of
from agentjobs.tickets.trackers import ConfiguredTracker, NewTracker


async def verify_and_add(
    db: Database,
    keys: SealingKeys,
    session: aiohttp.ClientSession,
    organization: str,
    new: NewTracker,
    retry_budget: RetryBudget,
) -> tuple[ConfiguredTracker, str | None]:
    """With who we are to it; None where nobody is asked. Nothing is stored if it refuses."""
    owner = await find_organization(db, organization)
    draft = trackers.draft_from(owner.id, new)
    account = None
    if draft.kind == "jira":
        account = await _asked(draft, new.token, session, retry_budget)
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
    """Likewise, for one that is there; what it says is kept with it. Raises Problem."""
    found = await trackers.find_tracker(db, organization, name)
    opened = await trackers.open_tracker(db, keys, found.id)
    account = None
    if found.kind == "jira" and opened is not None:
        try:
            account = await _asked(*opened, session, retry_budget)
        except Problem as problem:
            await trackers.record_check(db, found.id, problem.message)
            raise
        await trackers.record_check(db, found.id)
    return await trackers.find_tracker(db, organization, found.id), account


async def verify_and_replace(
    db: Database,
    keys: SealingKeys,
    session: aiohttp.ClientSession,
    organization: str,
    name: str,
    token: str,
    retry_budget: RetryBudget,
) -> tuple[ConfiguredTracker, str]:
    """The old token stays if the new one is not accepted. Raises Problem."""
    found = await trackers.find_tracker(db, organization, name)
    trackers.check_token(found, token)
    account = await _asked(found, token, session, retry_budget)
    await trackers.replace_token(db, keys, organization, found.id, token)
    await trackers.record_check(db, found.id)
    return await trackers.find_tracker(db, organization, found.id), account


async def _asked(
    tracker: ConfiguredTracker,
    token: str,
    session: aiohttp.ClientSession,
    retry_budget: RetryBudget,
) -> str:
    try:
        return await jira_of(tracker, token, session, retry_budget).check()
    except ForgeError as error:
        raise Problem("tracker_refused", str(error)) from None
