"""Whom a job's commit names: author, committer and the person who asked; and who signs it."""

import contextlib
from dataclasses import dataclass

from agentjobs.connections.commits import choose_identities
from agentjobs.connections.connections import load_connection
from agentjobs.connections.signing import open_signing_key
from agentjobs.connections.verify import check_connection
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import ForgeError
from agentjobs.git.identity import Identity
from agentjobs.git.signing import SigningKey
from agentjobs.jobs.run.context import RunContext
from agentjobs.jobs.run.hosted_repo import RETRY_SECONDS, HostedRepo
from agentjobs.organizations.users import ADMINISTRATOR
from agentjobs.problems import Problem


@dataclass(frozen=True, slots=True)
class Attribution:
    author: Identity
    committer: Identity
    co_author: Identity | None = None
    signing_key: SigningKey | None = None


async def load_attribution(run: RunContext, repo: HostedRepo) -> Attribution:
    author, committer = choose_identities(run.settings, await _account(run))
    co_author = await _person_who_asked(run, repo)
    is_author = co_author is not None and co_author.email.casefold() == author.email.casefold()
    key = await _signing_key(run)
    return Attribution(author, committer, None if is_author else co_author, key)


async def _signing_key(run: RunContext) -> SigningKey | None:
    if run.job.connection_id is None:
        return None
    return await open_signing_key(run.db, run.tools.keys, run.job.connection_id)


async def _account(run: RunContext) -> Identity | None:
    """The account of the connection; connections of earlier releases do not have it stored."""
    if run.job.connection_id is None:
        return None
    connection = await load_connection(run.db, run.job.connection_id)
    if connection is not None and connection.identity is not None:
        return connection.identity
    with contextlib.suppress(Problem):
        retry_budget = RetryBudget(RETRY_SECONDS, run.log.note)
        platforms, connection_id = run.tools.platforms, run.job.connection_id
        return (await check_connection(run.db, platforms, connection_id, retry_budget)).identity
    return None


async def _person_who_asked(run: RunContext, repo: HostedRepo) -> Identity | None:
    """The author of the comment, or the member of the organization; jobs of API keys have none."""
    created_by = run.job.created_by or ""
    platform, is_login, login = created_by.partition(":")
    if not is_login:
        return await _member(run, created_by)
    if platform != run.job.platform or not repo.is_remote:
        return None
    retry_budget = RetryBudget(RETRY_SECONDS, run.log.note)
    with contextlib.suppress(ForgeError):
        forge = await run.tools.platforms.adapter_for(run.job.connection_id or "", retry_budget)
        return await forge.identity_of(login)
    return None


async def _member(run: RunContext, user_id: str) -> Identity | None:
    row = await run.db.fetch_one(
        "SELECT u.name, u.email FROM users u JOIN memberships m ON m.user_id = u.id"
        " WHERE u.id = :id AND m.organization_id = :organization_id",
        id=user_id,
        organization_id=run.job.organization_id,
    )
    if row is None or row["email"] == ADMINISTRATOR:
        return None
    return Identity.clean(row["name"] or row["email"].partition("@")[0], row["email"])
