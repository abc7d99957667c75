"""Members of organizations and their roles. The last admin cannot be removed or demoted."""

import msgspec

from agentjobs.organizations import audit
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import ROLES

ADMIN = ROLES[-1]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """`created_at` is when the user joined."""

    user_id: str
    email: str
    name: str
    role: str
    created_at: int
    last_sign_in_at: int | None
    has_password: bool
    has_provider: bool


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    organization_id: str
    organization: str
    role: str


def allows(role: str, needed: str) -> bool:
    """A role includes all roles before it in ROLES. An unknown role allows nothing, and no role
    allows what needs an unknown one."""
    return role in ROLES and needed in ROLES and ROLES.index(role) >= ROLES.index(needed)


def check_role(role: str) -> None:
    if role not in ROLES:
        raise Problem("invalid_role", f"Unknown role {role!r}; choose one of: {', '.join(ROLES)}.")


async def list_members(db: Database, organization_id: str) -> list[Member]:
    """Sorted by e-mail address."""
    rows = await db.fetch_all(
        "SELECT u.id AS user_id, u.email, u.name, m.role, m.created_at, u.last_sign_in_at,"
        " u.password_hash IS NOT NULL AS has_password,"
        " u.oidc_subject IS NOT NULL AS has_provider"
        " FROM memberships m JOIN users u ON u.id = m.user_id"
        " WHERE m.organization_id = :organization_id ORDER BY u.email",
        organization_id=organization_id,
    )
    return [_member(row) for row in rows]


async def list_memberships(db: Database, user_id: str) -> list[Membership]:
    """Lists memberships, sorted by the organization's name."""
    rows = await db.fetch_all(
        "SELECT o.id AS organization_id, o.name AS organization, m.role"
        " FROM memberships m JOIN organizations o ON o.id = m.organization_id"
        " WHERE m.user_id = :user_id ORDER BY o.name",
        user_id=user_id,
    )
    return [to_struct(row, Membership) for row in rows]


async def memberships_by_user(db: Database) -> dict[str, list[Membership]]:
    """The memberships of all users, keyed by user id. For the operator."""
    rows = await db.fetch_all(
        "SELECT m.user_id, o.id AS organization_id, o.name AS organization, m.role"
        " FROM memberships m JOIN organizations o ON o.id = m.organization_id ORDER BY o.name"
    )
    memberships: dict[str, list[Membership]] = {}
    for row in rows:
        memberships.setdefault(row["user_id"], []).append(to_struct(row, Membership))
    return memberships


@audit.in_transaction
async def add_member(tx: Transaction, organization_id: str, user_id: str, role: str) -> None:
    check_role(role)
    user = await tx.fetch_one("SELECT email FROM users WHERE id = :id", id=user_id)
    if user is None:
        raise Problem("user_not_found", "This user does not exist; invite them instead.")
    email, actor = user["email"], audit.current_actor()
    if not await insert_membership(tx, organization_id, user_id, email, role, actor):
        raise Problem("already_member", f"{email} is already a member; change their role instead.")


@audit.in_transaction
async def set_role(tx: Transaction, organization_id: str, user_id: str, role: str) -> None:
    check_role(role)
    before = await _member_to_change(tx, organization_id, user_id, role)
    if before["role"] == role:
        return
    await tx.execute(
        "UPDATE memberships SET role = :role"
        " WHERE organization_id = :organization_id AND user_id = :user_id",
        organization_id=organization_id,
        user_id=user_id,
        role=role,
    )
    details = {"role": role, "before": before["role"]}
    await audit.record(tx, organization_id, "member.role_changed", before["email"], **details)
    await tx.invalidate("sessions")


@audit.in_transaction
async def remove_member(tx: Transaction, organization_id: str, user_id: str) -> None:
    """End the membership and its sessions; the user and their other memberships remain."""
    member = await _member_to_change(tx, organization_id, user_id, None)
    for table in ("memberships", "sessions"):
        await tx.execute(
            f"DELETE FROM {table} WHERE organization_id = :organization_id AND user_id = :user_id",
            organization_id=organization_id,
            user_id=user_id,
        )
    # An invitation that they never used would let them join again.
    await tx.execute(
        "UPDATE invitations SET revoked_at = :now WHERE organization_id = :organization_id"
        " AND email = :email AND accepted_at IS NULL AND revoked_at IS NULL",
        organization_id=organization_id,
        email=member["email"],
        now=await tx.clock_ms(),
    )
    role = member["role"]
    await audit.record(tx, organization_id, "member.removed", member["email"], role=role)
    await tx.invalidate("sessions")


async def lock_organization(tx: Transaction, organization_id: str) -> None:
    """Serialize changes of an organization's members or endpoints. Jobs can still be created."""
    await tx.fetch_one(
        "SELECT id FROM organizations WHERE id = :id /*postgresql FOR NO KEY UPDATE */",
        id=organization_id,
    )


async def insert_membership(
    tx: Transaction, organization_id: str, user_id: str, email: str, role: str, actor: audit.Actor
) -> bool:
    """False if the user is already a member; their role stays unchanged."""
    inserted = await tx.execute(
        "INSERT INTO memberships (organization_id, user_id, role, created_at)"
        " VALUES (:organization_id, :user_id, :role, :now)"
        " ON CONFLICT (organization_id, user_id) DO NOTHING",
        organization_id=organization_id,
        user_id=user_id,
        role=role,
        now=now_ms(),
    )
    if inserted:
        entry = audit.Entry(actor, "member.added", email, {"role": role})
        await audit.write(tx, organization_id, entry)
        await tx.invalidate("sessions")
    return inserted > 0


async def _member_to_change(
    tx: Transaction, organization_id: str, user_id: str, role: str | None
) -> Row:
    """The member before the change. Raises Problem if no admin would be left after it."""
    await lock_organization(tx, organization_id)
    member = await tx.fetch_one(
        "SELECT u.email, m.role,"
        " (SELECT COUNT(*) FROM memberships n WHERE n.organization_id = m.organization_id"
        "  AND n.user_id <> m.user_id AND n.role = :admin) AS other_admins"
        " FROM memberships m JOIN users u ON u.id = m.user_id"
        " WHERE m.organization_id = :organization_id AND m.user_id = :user_id",
        organization_id=organization_id,
        user_id=user_id,
        admin=ADMIN,
    )
    if member is None:
        raise Problem("member_not_found", "This user is not a member of the organization.")
    if member["role"] == ADMIN and role != ADMIN and not member["other_admins"]:
        raise Problem(
            "last_admin",
            f"{member['email']} is the organization's last admin; make another member an admin "
            "first.",
        )
    return member


def _member(row: Row) -> Member:
    flags = {name: bool(row[name]) for name in ("has_password", "has_provider")}
    return to_struct(row, Member, **flags)
