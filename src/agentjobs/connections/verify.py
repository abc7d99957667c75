"""Connections whose platform is asked: before a credential is stored, and whenever somebody wants
to know. Says what went wrong as a Problem, for a person."""

from typing import NamedTuple

import msgspec

from agentjobs.clock import now_ms
from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import (
    AddedConnection,
    NewConnection,
    draft_of,
    find_connection,
    note_check,
    replace_credential,
    store_connection,
)
from agentjobs.connections.validate import checked_credential
from agentjobs.forges.connection import Connection
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import Account, ForgeError, ForgeFault
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.store.database import Database

_CODES: dict[ForgeFault, str] = {
    "refused": "forge_refused",
    "denied": "forge_denied",
    "unauthorized": "forge_unauthorized",
    "gone": "forge_gone",
    "away": "forge_unavailable",
}


class CheckedConnection(NamedTuple):
    added: AddedConnection
    account: Account


def as_problem(error: ForgeError) -> Problem:
    return Problem(_CODES[error.fault], str(error))


async def add_checked(
    db: Database,
    keys: SealingKeys,
    platforms: Platforms,
    organization: str,
    new: NewConnection,
    retry_budget: RetryBudget | None = None,
) -> CheckedConnection:
    """Stored only if the platform accepts the credential; what that lacks is for the caller."""
    owner = await find_organization(db, organization)
    draft = draft_of(owner, new)
    account = await _ask(platforms, draft, new.credential, retry_budget)
    known = msgspec.structs.replace(draft, account=account.login, checked_at=now_ms())
    return CheckedConnection(await store_connection(db, keys, known, new.credential), account)


async def replace_checked(
    db: Database,
    keys: SealingKeys,
    platforms: Platforms,
    organization: str,
    name: str,
    credential: str,
    retry_budget: RetryBudget | None = None,
) -> tuple[Connection, Account]:
    """The old credential stays unless the platform accepts the new one."""
    found = await find_connection(db, organization, name)
    checked_credential(found.kind, credential)
    account = await _ask(platforms, found, credential, retry_budget)
    await replace_credential(db, keys, organization, found.id, credential)
    await note_check(db, found.id, account=account.login)
    return await find_connection(db, organization, found.id), account


async def check_connection(
    db: Database, platforms: Platforms, connection_id: str, retry_budget: RetryBudget | None = None
) -> Account:
    """What the platform says is kept with the connection. Raises Problem."""
    try:
        account = await (await platforms.adapter_for(connection_id, retry_budget)).check()
    except ForgeError as error:
        await note_check(db, connection_id, error=str(error))
        raise as_problem(error) from None
    await note_check(db, connection_id, account=account.login)
    return account


async def _ask(
    platforms: Platforms, connection: Connection, credential: str, retry_budget: RetryBudget | None
) -> Account:
    try:
        platform = await platforms.with_credential(connection, credential, retry_budget)
        return await platform.check()
    except ForgeError as error:
        raise as_problem(error) from None
