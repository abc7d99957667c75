"""Users identified by an OpenID Connect provider, on both stores."""

import asyncio

import msgspec
import pytest

from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.identities import Identity, resolve_identity
from agentjobs.organizations.invitations import invite
from agentjobs.organizations.memberships import list_members, list_memberships, remove_member
from agentjobs.organizations.password_changes import set_password
from agentjobs.organizations.sessions import find_viewer, list_sessions, start_session
from agentjobs.organizations.sign_in import sign_in_with_identity
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from tests.support.users import (
    ORIGIN,
    PASSWORD,
    make_passwords_cheap,
    member,
    organization,
    problem_of,
    settings_of,
    write,
)

CLOSED = settings_of()
JOINING = settings_of(
    oidc_join_role="member", oidc_join_organization="acme", oidc_email_domains="Example.com, @b.org"
)
ADA = Identity(
    issuer="https://id.example.com",
    subject="248289761001",
    email="Ada@Example.com",
    email_verified=True,
    name="Ada\n L.",
)
UNVERIFIED = msgspec.structs.replace(ADA, email_verified=False)


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    make_passwords_cheap(monkeypatch)


async def test_an_unknown_identity_needs_an_invitation(database: Database) -> None:
    await organization(database, "acme")
    assert await problem_of(resolve_identity(database, CLOSED, ADA)) == "not_invited"
    assert await database.fetch_all("SELECT id FROM users") == []


async def test_a_user_with_the_same_verified_address_is_linked(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    assert await problem_of(resolve_identity(database, CLOSED, UNVERIFIED)) == "email_not_verified"
    linked = await resolve_identity(database, CLOSED, ADA)
    assert (linked.id, linked.has_provider) == (ada.id, True)
    # Later sign-ins match the subject, because e-mail addresses change.
    renamed = msgspec.structs.replace(UNVERIFIED, email="countess@example.com")
    assert (await resolve_identity(database, CLOSED, renamed)).id == ada.id


async def test_linking_an_identity_removes_an_unproven_password(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    await set_password(database, ada.id, PASSWORD)
    await start_session(database, CLOSED, ada.id, ORIGIN)
    assert not (await resolve_identity(database, CLOSED, ADA)).has_password
    assert await list_sessions(database, ada.id) == []
    # Only the first link removes a password; a password set later stays.
    await set_password(database, ada.id, PASSWORD)
    assert (await resolve_identity(database, CLOSED, ADA)).has_password


async def test_another_account_with_the_same_address_does_not_take_the_user_over(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    await resolve_identity(database, CLOSED, ADA)
    other_account = msgspec.structs.replace(ADA, subject="another")
    assert await problem_of(resolve_identity(database, CLOSED, other_account)) == "other_identity"
    # An identity of another issuer replaces the link: the operator may switch providers.
    moved = msgspec.structs.replace(ADA, issuer="https://new.example.com", subject="another")
    assert (await resolve_identity(database, CLOSED, moved)).id == ada.id


async def test_an_invitation_admits_only_its_verified_address(database: Database) -> None:
    acme = await organization(database, "acme")
    _, token = await invite(database, acme, "ada@example.com", "admin")
    bob = msgspec.structs.replace(ADA, email="bob@example.com")
    for identity, code in ((UNVERIFIED, "email_not_verified"), (bob, "other_invitation")):
        sign_in = resolve_identity(database, CLOSED, identity, invitation=token)
        assert await problem_of(sign_in) == code
    user = await resolve_identity(database, CLOSED, ADA, invitation=token)
    assert (user.email, user.name, user.has_provider) == ("ada@example.com", "Ada L.", True)
    assert [
        (each.organization, each.role) for each in await list_memberships(database, user.id)
    ] == [("acme", "admin")]
    # Signing in with the accepted invitation again is allowed.
    assert (await resolve_identity(database, CLOSED, ADA, invitation=token)).id == user.id


async def test_a_known_user_accepts_an_invitation_while_signing_in(database: Database) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    ada = await member(database, acme, "ada@example.com")
    _, token = await invite(database, other, "ada@example.com", "viewer")
    await resolve_identity(database, CLOSED, ADA, invitation=token)
    assert len(await list_memberships(database, ada.id)) == 2


async def test_users_of_an_allowed_domain_join_without_an_invitation(database: Database) -> None:
    acme = await organization(database, "acme")
    for email in ("x@sub.example.com", "x@notexample.com", "x@example.com.evil.org"):
        uninvited = msgspec.structs.replace(ADA, subject=email, email=email)
        assert await problem_of(resolve_identity(database, JOINING, uninvited)) == "not_invited"
    unverified = resolve_identity(database, JOINING, UNVERIFIED)
    assert await problem_of(unverified) == "email_not_verified"
    for email in ("ada@example.com", "bob@b.org"):
        identity = msgspec.structs.replace(ADA, subject=email, email=email)
        await resolve_identity(database, JOINING, identity)
    assert [(each.email, each.role) for each in await list_members(database, acme)] == [
        ("ada@example.com", "member"),
        ("bob@b.org", "member"),
    ]


async def test_a_removed_member_does_not_join_again(database: Database) -> None:
    acme = await organization(database, "acme")
    await member(database, acme, "root@example.com", "admin")
    user = await resolve_identity(database, JOINING, ADA)
    await remove_member(database, acme, user.id)
    signing_in = sign_in_with_identity(database, JOINING, ADA, ORIGIN)
    assert await problem_of(signing_in) == "no_membership"
    assert await list_memberships(database, user.id) == []


async def test_two_concurrent_first_sign_ins_create_one_user(
    database: Database, database_url: str
) -> None:
    await organization(database, "acme")
    other_database = await open_database(database_url, migrate=False)
    try:
        users = await asyncio.gather(
            *(
                resolve_identity(db, JOINING, ADA)
                for db in (database, other_database, database, other_database)
            )
        )
    finally:
        await other_database.close()
    assert len({user.id for user in users}) == 1


async def test_a_sign_in_through_a_provider_is_audited(database: Database) -> None:
    acme = await organization(database, "acme")
    token = await sign_in_with_identity(database, JOINING, ADA, ORIGIN)
    viewer = await find_viewer(database, JOINING, token)
    assert viewer is not None
    (entry,) = await list_entries(database, acme, AuditFilter(action="user.signed_in"), limit=9)
    assert (entry.actor_id, entry.details) == (viewer.user_id, {"how": "single sign-on"})


async def test_accepting_an_invitation_by_single_sign_on_starts_in_its_organization(
    database: Database,
) -> None:
    acme, zoo = await organization(database, "acme"), await organization(database, "zoo")
    ada = await member(database, acme, "ada@example.com")
    await start_session(database, CLOSED, ada.id, ORIGIN)
    _, token = await invite(database, zoo, "ada@example.com", "viewer")

    async def organization_after_sign_in(invitation: str) -> str:
        session = await sign_in_with_identity(database, CLOSED, ADA, ORIGIN, invitation=invitation)
        viewer = await find_viewer(database, CLOSED, session)
        assert viewer is not None
        return viewer.organization

    assert await organization_after_sign_in(token) == "zoo"
    # Signing in with the accepted invitation again starts in the same organization.
    assert await organization_after_sign_in(token) == "zoo"
    await write(database, "DELETE FROM sessions")
    _, withdrawn = await invite(database, await organization(database, "other"), ADA.email, "admin")
    await write(database, "UPDATE invitations SET revoked_at = 1 WHERE accepted_at IS NULL")
    assert await organization_after_sign_in(withdrawn) == "acme"
