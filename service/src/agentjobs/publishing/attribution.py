"""Whom a job's commit names: author, committer and the person who asked; and who signs it."""

import contextlib
from dataclasses import dataclass

from agentjobs.connections.commits import choose_identities
from agentjobs.connections.connections import load_connection
from agentjobs.connections.signing import open_signing_key
from agentjobs.organizations.users import ADMINISTRATOR
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import Platform, PlatformError
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.hosted_repo import RETRY_SECONDS
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.signing import SigningKey
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.outcomes import JobFailed


@dataclass(frozen=True, slots=True)
class Attribution:
    author: Identity
    committer: Identity
    co_author: Identity | None = None
    signing_key: SigningKey | None = None


async def load_attribution(run: ServiceRun) -> Attribution:
    """Raises JobFailed if the signing key cannot be decrypted."""
    connection_id = run.job.connection_id
    connection = connection_id and await load_connection(run.db, connection_id)
    author, committer = choose_identities(run.settings, connection.identity if connection else None)
    co_author = await _person_who_asked(run)
    is_author = co_author is not None and co_author.email.casefold() == author.email.casefold()
    key = None if connection_id is None else await _signing_key(run, connection_id)
    return Attribution(author, committer, None if is_author else co_author, key)


async def _signing_key(run: ServiceRun, connection_id: str) -> SigningKey | None:
    try:
        return await open_signing_key(run.db, run.tools.keys, connection_id)
    except Problem as problem:
        raise JobFailed("invalid_configuration", problem.message) from None


async def _person_who_asked(run: ServiceRun) -> Identity | None:
    """The author of the comment, or the member of the organization; jobs of API keys have none."""
    created_by, connection_id = run.job.created_by or "", run.job.connection_id
    if created_by.startswith("usr_"):
        return await _member(run, created_by)
    platform, _, login = created_by.partition(":")
    if not login or connection_id is None or platform != run.job.platform:
        return None
    with contextlib.suppress(PlatformError):
        return await (await _platform(run, connection_id)).find_identity(login)
    return None


async def _platform(run: ServiceRun, connection_id: str) -> Platform:
    retry_budget = RetryBudget(RETRY_SECONDS, run.log.note)
    return await run.tools.platforms.adapter_for(connection_id, retry_budget)


async def _member(run: ServiceRun, user_id: str) -> Identity | None:
    row = await run.db.fetch_one(
        "SELECT u.name, u.email FROM users u JOIN memberships m ON m.user_id = u.id"
        " WHERE u.id = :id AND m.organization_id = :organization_id",
        id=user_id,
        organization_id=run.job.organization_id,
    )
    if row is None or row["email"] == ADMINISTRATOR:
        return None
    return Identity.clean(row["name"] or row["email"].partition("@")[0], row["email"])
