"""Checks connections against their platform, before a credential is stored and on request.

Errors of the platform become Problems, with messages for a person.
"""

from typing import NamedTuple

import msgspec

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import (
    AddedConnection,
    NewConnection,
    draft_from,
    find_connection,
    open_credential,
    record_check,
    replace_credential,
    store_connection,
)
from agentjobs.connections.rows import retry_refused, update
from agentjobs.connections.validate import validate_credential, validate_installation
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import Account, PlatformError, PlatformFault
from agentjobs.repos.queues import retry_failed_syncs
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem

_CODES: dict[PlatformFault, str] = {
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


def problem_from(error: PlatformError) -> Problem:
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


async def verify_installation(
    db: Database,
    keys: SealingKeys,
    platforms: Platforms,
    organization: str,
    name: str,
    installation_id: str,
    retry_budget: RetryBudget | None = None,
) -> tuple[Connection, Account]:
    """Use another installation of the same GitHub App: one that is installed again has a new ID.

    Raises Problem if the App does not have it.
    """
    stored = await find_connection(db, organization, name)
    connection, credential = await open_credential(db, keys, stored.id)
    if connection.kind != "app":
        raise Problem("invalid_app", f"{connection.name} is not connected with a GitHub App.")
    validate_installation(connection.platform, connection.app_id, installation_id)
    moved = msgspec.structs.replace(connection, installation_id=installation_id)
    account = await _check(platforms, moved, credential, retry_budget)
    await _replace_installation(db, connection, installation_id)
    await record_check(db, connection.id, account=account)
    return await find_connection(db, organization, connection.id), account


@audit.in_transaction
async def _replace_installation(
    tx: Transaction, connection: Connection, installation_id: str
) -> None:
    assignments = "installation_id = :installation_id, error = NULL"
    await update(tx, connection, assignments, installation_id=installation_id)
    await retry_refused(tx, connection)
    await audit.record(
        tx,
        connection.organization_id,
        "forge.installation_replaced",
        connection.name,
        before=connection.installation_id,
        after=installation_id,
    )


async def check_connection(
    db: Database, platforms: Platforms, connection_id: str, retry_budget: RetryBudget | None = None
) -> Account:
    """Check a stored connection and store the result. Raises Problem."""
    try:
        account = await (await platforms.adapter_for(connection_id, retry_budget)).check()
    except PlatformError as error:
        await record_check(db, connection_id, error=str(error))
        raise problem_from(error) from None
    await record_check(db, connection_id, account=account)
    # What was wrong may have been repaired.
    await db.transact(retry_failed_syncs, connection_id)
    return account


async def _check(
    platforms: Platforms, connection: Connection, credential: str, retry_budget: RetryBudget | None
) -> Account:
    try:
        platform = await platforms.with_credential(connection, credential, retry_budget)
        return await platform.check()
    except PlatformError as error:
        raise problem_from(error) from None
