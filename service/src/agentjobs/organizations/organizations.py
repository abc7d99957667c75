"""Organizations are the tenants; all other data belongs to exactly one of them."""

import re

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, IntegrityError, Row, Transaction, to_struct
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem

DEFAULT_ORGANIZATION = "default"

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Pages have paths of the form /<org>/…; these names would shadow paths of the service.
_RESERVED = frozenset(
    {
        *("account", "agents", "docs", "git", "healthz", "hooks", "invitation", "jobs", "mcp"),
        *("metrics", "operator", "password-reset", "pulls", "readyz", "repos", "settings"),
        *("sign-in", "sign-out", "static", "stream", "v1"),
    }
)


class Organization(msgspec.Struct, frozen=True):
    id: str
    name: str
    plan: str
    created_at: int
    paused_at: int | None = None
    setup_network: tuple[str, ...] | None = None


async def create_organization(db: Database, plans: Plans, name: str, plan: str) -> Organization:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise Problem(
            "invalid_name",
            f"{name!r} is not a valid organization name: use 1 to 63 lowercase letters, digits "
            "and inner hyphens, and no reserved name such as settings, git or v1.",
        )
    plans.check(plan)
    organization = Organization(new_id("org"), name, plan, now_ms())
    try:
        await _insert(db, organization)
    except IntegrityError:
        raise Problem("name_taken", f"An organization named {name!r} already exists.") from None
    return organization


async def write_service_entry(tx: Transaction, entry: audit.Entry) -> None:
    """An audit entry that concerns the whole service: its operators read the log of `default`,
    which cannot be deleted."""
    row = await tx.fetch_one(
        "SELECT id FROM organizations WHERE name = :name", name=DEFAULT_ORGANIZATION
    )
    if row is not None:
        await audit.write(tx, row["id"], entry)


async def ensure_default(db: Database, plans: Plans) -> bool:
    """Create the organization `default` on the highest plan unless it exists.

    Returns whether it was created.
    """
    row = await db.fetch_one(
        "SELECT id FROM organizations WHERE name = :name", name=DEFAULT_ORGANIZATION
    )
    if row is not None:
        return False
    try:
        await create_organization(db, plans, DEFAULT_ORGANIZATION, plans.highest)
    except Problem as problem:
        if problem.code != "name_taken":
            raise
        return False
    return True


async def find_organization(db: Database | Transaction, name: str) -> Organization:
    row = await db.fetch_one("SELECT * FROM organizations WHERE name = :name", name=name)
    if row is None:
        raise Problem(
            "organization_not_found",
            f"There is no organization {name!r}; `agentjobs orgs list` shows all organizations.",
        )
    return _organization(row)


async def list_organizations(db: Database) -> list[Organization]:
    rows = await db.fetch_all("SELECT * FROM organizations ORDER BY name")
    return [_organization(row) for row in rows]


@audit.in_transaction
async def set_plan(tx: Transaction, plans: Plans, name: str, plan: str) -> Organization:
    plans.check(plan)
    organization = await find_organization(tx, name)
    changed = await tx.execute(
        "UPDATE organizations SET plan = :plan WHERE id = :id AND plan <> :plan",
        id=organization.id,
        plan=plan,
    )
    if changed:
        details = {"from": organization.plan, "to": plan}
        await audit.record(tx, organization.id, "plan.changed", name, **details)
        await tx.invalidate("organizations")
        tx.announce("jobs")
    return msgspec.structs.replace(organization, plan=plan)


async def update_auto_trigger(tx: Transaction, organization_id: str, level: str | None) -> None:
    await tx.execute(
        "UPDATE organizations SET auto_trigger = :level WHERE id = :id",
        id=organization_id,
        level=level,
    )


@audit.in_transaction
async def _insert(tx: Transaction, organization: Organization) -> None:
    await tx.execute(
        "INSERT INTO organizations (id, name, plan, created_at)"
        " VALUES (:id, :name, :plan, :created_at)",
        id=organization.id,
        name=organization.name,
        plan=organization.plan,
        created_at=organization.created_at,
    )
    await audit.record(
        tx, organization.id, "organization.created", organization.name, plan=organization.plan
    )


def _organization(row: Row) -> Organization:
    return to_struct(row, Organization, setup_network=decode_hosts(row["setup_network"]))


def decode_hosts(stored: str | None) -> tuple[str, ...] | None:
    return None if stored is None else msgspec.json.decode(stored, type=tuple[str, ...])


@audit.in_transaction
async def set_setup_network(
    tx: Transaction, organization: str, hosts: tuple[str, ...] | None
) -> None:
    """Expects valid host patterns."""
    owner = await find_organization(tx, organization)
    changed = await tx.execute(
        "UPDATE organizations SET setup_network = :stored WHERE id = :id"
        " AND COALESCE(setup_network, '') <> COALESCE(CAST(:stored AS TEXT), '')",
        id=owner.id,
        stored=None if hosts is None else msgspec.json.encode(hosts).decode(),
    )
    if not changed:
        return
    await audit.record(tx, owner.id, "organization.setup_network_set", owner.name, hosts=hosts)
