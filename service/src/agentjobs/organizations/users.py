"""Users, identified by email address; one user can be a member of several organizations."""

import re

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.memberships import (
    ADMIN,
    add_member,
    check_role,
    insert_membership,
    lock_organization,
)
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.passwords import check_password, hash_password
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem

ADMINISTRATOR = "admin@localhost"
# Announced when a user or an invitation is added.
USERS_TOPIC = "users"

_MAX_EMAIL_LENGTH = 254
_MAX_NAME_LENGTH = 200
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_EMAIL = re.compile(
    r"(?=[^@]{1,64}@)"
    rf"[a-z0-9!#$%&'*+/=?^_`{{|}}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{{|}}~-]+)*@{_LABEL}(?:\.{_LABEL})*"
)
COLUMNS = "id, email, name, password_hash, oidc_subject, is_operator, created_at, last_sign_in_at"


class User(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    email: str
    name: str
    has_password: bool
    has_provider: bool
    is_operator: bool
    created_at: int
    last_sign_in_at: int | None

    def as_actor(self) -> audit.Actor:
        """Acts without a session, from the address of the current actor."""
        return audit.acting_user(self.id, self.name or self.email, audit.current_actor().address)


class NewUser(msgspec.Struct, frozen=True, kw_only=True):
    """The data from which a user is created."""

    email: str
    name: str = ""
    password_hash: str | None = None
    oidc_issuer: str | None = None
    oidc_subject: str | None = None
    is_operator: bool = False


def normalize_email(text: str) -> str:
    """The form in which email addresses are stored and compared."""
    # Checked before lower(), which turns a few non-ASCII letters into ASCII.
    email = text.strip().lower() if text.isascii() else ""
    if len(email) > _MAX_EMAIL_LENGTH or not _EMAIL.fullmatch(email):
        raise Problem(
            "invalid_email",
            "This is not a valid email address; use the form ada@example.com with ASCII letters.",
        )
    return email


def normalize_name(text: str) -> str:
    name = text.strip()
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise Problem(
            "invalid_name",
            f"A name must be one line of at most {_MAX_NAME_LENGTH} printable characters.",
        )
    return name


async def add_user(
    db: Database, organization_id: str, email: str, role: str, *, name: str = ""
) -> User:
    """Add a user to the organization; create the user if the email address is new."""
    check_role(role)
    new = await new_user(email, name=name)
    user = await find_user(db, new.email)
    if user is None:
        return await add_new_user(db, organization_id, role, new, actor=audit.current_actor())
    await add_member(db, organization_id, user.id, role)
    return user


async def find_user(db: Database, email: str) -> User | None:
    try:
        normal = normalize_email(email)
    except Problem:
        return None
    return await _find_by_email(db, normal)


async def get_user(db: Database, user_id: str) -> User:
    row = await db.fetch_one(f"SELECT {COLUMNS} FROM users WHERE id = :id", id=user_id)
    if row is None:
        raise _no_such_user()
    return user_from_row(row)


async def list_users(db: Database) -> list[User]:
    """All users, with or without memberships, sorted by email address. For the operator."""
    rows = await db.fetch_all(f"SELECT {COLUMNS} FROM users ORDER BY email")
    return [user_from_row(row) for row in rows]


async def has_only_the_operator(db: Database) -> bool:
    """Whether nobody else can sign in or has an open invitation."""
    row = await db.fetch_one(
        "SELECT 1 AS other FROM users WHERE email <> :administrator"
        " UNION ALL SELECT 1 FROM invitations"
        " WHERE accepted_at IS NULL AND revoked_at IS NULL AND expires_at > :now LIMIT 1",
        administrator=ADMINISTRATOR,
        now=now_ms(),
    )
    return row is None


@audit.in_transaction
async def rename_user(tx: Transaction, user_id: str, name: str) -> User:
    """Written to the audit log of each of the user's organizations, which shows names."""
    name = normalize_name(name)
    row = await tx.fetch_one(
        f"SELECT {COLUMNS} FROM users WHERE id = :id /*postgresql FOR NO KEY UPDATE */", id=user_id
    )
    if row is None:
        raise _no_such_user()
    before = user_from_row(row)
    if before.name != name:
        await tx.execute("UPDATE users SET name = :name WHERE id = :id", id=user_id, name=name)
        details = {"from": before.name, "to": name}
        entry = audit.entry("user.renamed", before.email, **details)
        await audit.write_for_user(tx, user_id, entry)
    return msgspec.structs.replace(before, name=name)


@audit.in_transaction
async def ensure_administrator(tx: Transaction, organization: str) -> User:
    """The admin who signed in last, else the oldest admin, else a new one, who is an operator."""
    owner = await find_organization(tx, organization)
    await lock_organization(tx, owner.id)
    row = await tx.fetch_one(
        f"SELECT {COLUMNS} FROM users WHERE id IN (SELECT user_id FROM memberships"
        "  WHERE organization_id = :organization_id AND role = :admin)"
        " ORDER BY COALESCE(last_sign_in_at, 0) DESC, id LIMIT 1",
        organization_id=owner.id,
        admin=ADMIN,
    )
    if row is not None:
        return user_from_row(row)
    return await _create_administrator(tx, owner.id, audit.current_actor())


async def new_user(email: str, *, name: str = "", password: str | None = None) -> NewUser:
    """Validate and hash. Call it before the transaction, because hashing is slow."""
    email, name = normalize_email(email), normalize_name(name)
    if password is None:
        return NewUser(email=email, name=name)
    check_password(password, email)
    return NewUser(email=email, name=name, password_hash=await hash_password(password))


async def insert_user(tx: Transaction, new: NewUser) -> User:
    row = await tx.fetch_one(
        "INSERT INTO users"
        " (id, email, name, password_hash, oidc_issuer, oidc_subject, is_operator, created_at)"
        " VALUES (:id, :email, :name, :password_hash, :oidc_issuer, :oidc_subject, :is_operator,"
        " :now)"
        f" ON CONFLICT (email) DO NOTHING RETURNING {COLUMNS}",
        id=new_id("usr"),
        now=now_ms(),
        **msgspec.structs.asdict(new),
    )
    tx.announce(USERS_TOPIC)
    if row is None:
        raise Problem(
            "email_taken", f"The user {new.email} already exists; sign in as that user instead."
        )
    return user_from_row(row)


async def insert_member(
    tx: Transaction,
    organization_id: str,
    role: str,
    new: NewUser,
    *,
    actor: audit.Actor | None = None,
) -> User:
    """Create a user and their membership. Without `actor`, the new user is the actor."""
    user = await insert_user(tx, new)
    actor = actor or user.as_actor()
    await audit.write(tx, organization_id, audit.Entry(actor, "user.created", user.email, {}))
    await insert_membership(tx, organization_id, user.id, user.email, role, actor)
    return user


add_new_user = audit.in_transaction(insert_member)


def user_from_row(row: Row) -> User:
    return to_struct(
        row,
        User,
        has_password=row["password_hash"] is not None,
        has_provider=row["oidc_subject"] is not None,
        is_operator=bool(row["is_operator"]),
    )


async def _create_administrator(tx: Transaction, organization_id: str, actor: audit.Actor) -> User:
    """The user may already exist, in another organization or here with a lower role."""
    user = await _find_by_email(tx, ADMINISTRATOR)
    if user is None:
        new = NewUser(email=ADMINISTRATOR, name="Administrator", is_operator=True)
        try:
            return await insert_member(tx, organization_id, ADMIN, new, actor=actor)
        except Problem:
            # Another process has just created it for another organization.
            user = await _find_by_email(tx, ADMINISTRATOR)
            assert user is not None
    if not await insert_membership(tx, organization_id, user.id, user.email, ADMIN, actor):
        await tx.execute(
            "UPDATE memberships SET role = :role"
            " WHERE organization_id = :organization_id AND user_id = :user_id",
            organization_id=organization_id,
            user_id=user.id,
            role=ADMIN,
        )
        await audit.record(tx, organization_id, "member.role_changed", user.email, role=ADMIN)
        await tx.invalidate("sessions")
    return user


async def _find_by_email(db: Database | Transaction, email: str) -> User | None:
    row = await db.fetch_one(f"SELECT {COLUMNS} FROM users WHERE email = :email", email=email)
    return None if row is None else user_from_row(row)


def _no_such_user() -> Problem:
    return Problem("user_not_found", "This user does not exist.")
