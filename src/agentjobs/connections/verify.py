"""Checks connections against their platform, before a credential is stored and on request.

Errors of the platform become Problems, with messages for a person.
"""

from typing import NamedTuple

import msgspec

from agentjobs.clock import now_ms
from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import (
    AddedConnection,
    NewConnection,
    draft_from,
    find_connection,
    record_check,
    replace_credential,
    store_connection,
)
from agentjobs.connections.validate import validate_credential
from agentjobs.forges.connection import Connection
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import Account, ForgeError, ForgeFault
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.store.database import Database

_CODES: dict[ForgeFault, str] = {
    "refused": "forge_refused",
    "unusable": "forge_refused",
    "denied": "forge_denied",
    "unauthorized": "forge_unauthorized",
    "gone": "forge_gone",
    "away": "forge_unavailable",
}


class VerifiedConnection(NamedTuple):
    added: AddedConnection
    account: Account


def problem_from(error: ForgeError) -> Problem:
    return Problem(_CODES[error.fault], str(error))


async def verify_and_add(
    db: Database,
    keys: SealingKeys,
    platforms: Platforms,
    organization: str,
    new: NewConnection,
    retry_budget: RetryBudget | None = None,
) -> VerifiedConnection:
    """Store the connection if the platform accepts its credential.

    A credential with missing permissions is stored; `account.missing` lists them.
    """
    owner = await find_organization(db, organization)
    draft = draft_from(owner, new)
    account = await _check(platforms, draft, new.credential, retry_budget)
    verified = msgspec.structs.replace(draft.checked_as(account), checked_at=now_ms())
    return VerifiedConnection(await store_connection(db, keys, verified, new.credential), account)


async def verify_and_replace(
    db: Database,
    keys: SealingKeys,
    platforms: Platforms,
    organization: str,
    name: str,
    credential: str,
    retry_budget: RetryBudget | None = None,
) -> tuple[Connection, Account]:
    """Replace the credential if the platform accepts the new one."""
    connection = await find_connection(db, organization, name)
    validate_credential(connection.kind, credential)
    account = await _check(platforms, connection, credential, retry_budget)
    await replace_credential(db, keys, organization, connection.id, credential)
    await record_check(db, connection.id, account=account)
    return await find_connection(db, organization, connection.id), account


async def check_connection(
    db: Database, platforms: Platforms, connection_id: str, retry_budget: RetryBudget | None = None
) -> Account:
    """Check a stored connection and store the result. Raises Problem."""
    try:
        account = await (await platforms.adapter_for(connection_id, retry_budget)).check()
    except ForgeError as error:
        await record_check(db, connection_id, error=str(error))
        raise problem_from(error) from None
    await record_check(db, connection_id, account=account)
    return account


async def _check(
    platforms: Platforms, connection: Connection, credential: str, retry_budget: RetryBudget | None
) -> Account:
    try:
        platform = await platforms.with_credential(connection, credential, retry_budget)
        return await platform.check()
    except ForgeError as error:
        raise problem_from(error) from None
