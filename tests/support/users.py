"""Organizations with members, for tests of sign-in, roles and sessions."""

from collections.abc import Awaitable
from typing import Any

import pytest
from argon2 import PasswordHasher

from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sessions import Origin
from agentjobs.organizations.users import User, add_user, insert_user, new_user
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, load
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

PLANS = Plans(DEFAULT_PLANS)
PASSWORD = "correct horse battery"
ORIGIN = Origin("192.0.2.7", "Browser/1.0")


def make_passwords_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Still argon2id, but at a thousandth of the cost, because tests hash many passwords."""
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr("agentjobs.organizations.passwords._hasher", lambda: hasher)


def settings_of(**values: str) -> Settings:
    environ = {f"AGENTJOBS_{name.upper()}": value for name, value in values.items()}
    return load({"AGENTJOBS_DATA_DIR": "/nowhere", **environ})


async def organization(db: Database, name: str) -> str:
    return (await create_organization(db, PLANS, name, "free")).id


async def member(db: Database, organization_id: str, email: str, role: str = "member") -> User:
    return await add_user(db, organization_id, email, role)


async def problem_of(call: Awaitable[Any]) -> str:
    with pytest.raises(Problem) as caught:
        await call
    return caught.value.code


async def actions(db: Database, organization_id: str) -> list[tuple[str, str]]:
    """The audit log as (action, target), oldest first."""
    records = await list_entries(db, organization_id, AuditFilter(), limit=100)
    entries = [(record.action, record.target) for record in reversed(records)]
    return [entry for entry in entries if entry[0] != "organization.created"]


async def write(db: Database, sql: str, **parameters: Any) -> None:
    async def work(tx: Transaction) -> None:
        await tx.execute(sql, **parameters)

    await db.transact(work)


async def stored_text(db: Database, *tables: str) -> str:
    rows = [await db.fetch_all(f"SELECT * FROM {table}") for table in tables]
    return str([[dict(row) for row in each] for each in rows])


async def create_user(
    db: Database, email: str, *, name: str = "", password: str | None = None
) -> User:
    """A user without memberships."""
    return await db.transact(insert_user, await new_user(email, name=name, password=password))
