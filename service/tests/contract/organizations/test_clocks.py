"""Keys, invitations and sessions on machines whose clocks differ from that of PostgreSQL."""

import pytest

from agentjobs.organizations.api_keys import KeyChanges, create_key, edit_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.invitations import find_invitation, invite, list_invitations
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.clock_shift import ShiftClock

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

DAY_SECONDS = DAY_MS // 1_000


@pytest.fixture
async def organization_id(database: Database) -> str:
    await ensure_default(database, Plans(DEFAULT_PLANS))
    return (await find_organization(database, "default")).id


@pytest.mark.usefixtures("organization_id")
async def test_a_key_is_valid_until_it_expires_by_the_clock_of_the_database(
    database: Database, shift_clock: ShiftClock
) -> None:
    created = await create_key(database, "default", expires_at=await database.clock_ms() + DAY_MS)
    authenticator = ApiKeyAuthenticator(database)
    shift_clock(2 * DAY_SECONDS)
    assert await authenticator.authenticate(created.key) is not None
    shift_clock(-2 * DAY_SECONDS)
    await database.transact(_expire, "api_keys")
    assert await ApiKeyAuthenticator(database).authenticate(created.key) is None


@pytest.mark.usefixtures("organization_id")
async def test_a_key_expires_after_days_of_the_database(
    database: Database, shift_clock: ShiftClock
) -> None:
    now = await database.clock_ms()
    shift_clock(-30 * DAY_SECONDS)
    created = await create_key(database, "default", expires_at=await database.clock_ms() + DAY_MS)
    assert created.record.expires_at is not None
    assert 0 <= created.record.expires_at - now - DAY_MS < DAY_MS
    with pytest.raises(Problem, match="in the future"):
        await edit_key(database, "default", created.record.id, KeyChanges(expires_at=now - DAY_MS))


async def test_an_invitation_is_open_until_it_expires_by_the_clock_of_the_database(
    database: Database, shift_clock: ShiftClock, organization_id: str
) -> None:
    shift_clock(-30 * DAY_SECONDS)
    invitation, token = await invite(database, organization_id, "ann@example.com", "member")
    shift_clock(30 * DAY_SECONDS)
    assert await find_invitation(database, token) == invitation
    assert await list_invitations(database, organization_id) == [invitation]
    shift_clock(-30 * DAY_SECONDS)
    await database.transact(_expire, "invitations")
    assert await list_invitations(database, organization_id) == []
    with pytest.raises(Problem, match="expired"):
        await find_invitation(database, token)


async def _expire(tx: Transaction, table: str) -> None:
    await tx.execute(f"UPDATE {table} SET expires_at = :now", now=await tx.clock_ms())
