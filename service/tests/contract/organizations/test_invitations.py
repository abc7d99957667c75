"""Invitations are created, replaced, revoked and accepted once, on both stores."""

import asyncio

import pytest

from agentjobs.organizations.audit import Actor, acting_as
from agentjobs.organizations.invitations import (
    Invitation,
    accept_as_new_user,
    accept_invitation,
    find_invitation,
    invite,
    list_invitations,
    revoke_invitation,
)
from agentjobs.organizations.memberships import (
    add_member,
    list_members,
    list_memberships,
    remove_member,
    set_role,
)
from agentjobs.organizations.operators import add_operator, remove_operator
from agentjobs.organizations.removal import close_organization
from agentjobs.organizations.sessions import find_viewer
from agentjobs.organizations.sign_in import sign_in_with_password
from agentjobs.organizations.throttle import MAX_PER_PAIR, Attempt, count_attempt
from agentjobs.organizations.users import User, find_user
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem
from tests.support.users import (
    ORIGIN,
    PASSWORD,
    actions,
    create_user,
    make_passwords_cheap,
    member,
    organization,
    problem_of,
    settings_of,
    stored_text,
    write,
)

SETTINGS = settings_of()


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    make_passwords_cheap(monkeypatch)


async def test_a_new_user_accepts_an_invitation_and_signs_in(database: Database) -> None:
    acme = await organization(database, "acme")
    with acting_as(Actor("operator", "Root")):
        invitation, token = await invite(database, acme, " Ada@Example.com", "viewer")
    assert token.startswith("aji_")
    assert token not in await stored_text(database, "invitations", "audit_log")
    assert (invitation.email, invitation.invited_by) == ("ada@example.com", "Root")
    assert invitation.expires_at - invitation.created_at == 7 * DAY_MS
    assert await find_invitation(database, token) == invitation
    assert (invitation.organization, invitation.has_account) == ("acme", False)
    assert await list_invitations(database, acme) == [invitation]

    user = await accept_as_new_user(database, token, name="Ada", password=PASSWORD)
    assert (user.email, user.name, user.has_password) == ("ada@example.com", "Ada", True)
    assert await list_invitations(database, acme) == []
    session = await sign_in_with_password(database, SETTINGS, user.email, PASSWORD, ORIGIN)
    viewer = await find_viewer(database, SETTINGS, session)
    assert viewer is not None
    assert (viewer.organization, viewer.role) == ("acme", "viewer")
    assert await actions(database, acme) == [
        ("invitation.created", "ada@example.com"),
        ("user.created", "ada@example.com"),
        ("member.added", "ada@example.com"),
        ("invitation.accepted", "ada@example.com"),
        ("user.signed_in", "ada@example.com"),
    ]


async def test_an_invitation_to_an_existing_account_is_accepted_only_by_it(
    database: Database,
) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    ada = await member(database, other, "ada@example.com")
    bob = await member(database, other, "bob@example.com")
    invitation, token = await invite(database, acme, ada.email, "admin")
    assert invitation.has_account
    assert await problem_of(accept_invitation(database, token, bob)) == "other_invitation"
    as_new = accept_as_new_user(database, token, name="", password=PASSWORD)
    assert await problem_of(as_new) == "email_taken"
    # A refused attempt does not use up the invitation.
    assert (await accept_invitation(database, token, ada)).organization == "acme"
    assert [each.organization for each in await list_memberships(database, ada.id)] == [
        "acme",
        "other",
    ]
    assert await problem_of(accept_invitation(database, token, ada)) == "invitation_not_valid"


async def test_a_bad_password_leaves_the_invitation_as_it_was(database: Database) -> None:
    acme = await organization(database, "acme")
    _, token = await invite(database, acme, "ada@example.com", "member")
    weak = accept_as_new_user(database, token, name="", password="ada@example.com")
    assert await problem_of(weak) == "weak_password"
    named = accept_as_new_user(database, token, name="a\nb", password=PASSWORD)
    assert await problem_of(named) == "invalid_name"
    assert await find_user(database, "ada@example.com") is None
    assert (await accept_as_new_user(database, token, name="", password=PASSWORD)).email


async def test_a_newer_invitation_replaces_the_older_one(database: Database) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    _, first = await invite(database, acme, "ada@example.com", "viewer")
    _, other_token = await invite(database, other, "ada@example.com", "viewer")
    second, token = await invite(database, acme, "ADA@example.com", "admin")
    assert await list_invitations(database, acme) == [second]
    assert await problem_of(find_invitation(database, first)) == "invitation_not_valid"
    assert (await find_invitation(database, token)).role == "admin"
    assert (await find_invitation(database, other_token)).organization == "other"


async def test_only_its_organization_can_revoke_an_invitation(
    database: Database,
) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    invitation, token = await invite(database, acme, "ada@example.com", "viewer")
    revoking = revoke_invitation(database, other, invitation.id)
    assert await problem_of(revoking) == "invitation_not_found"
    assert await find_invitation(database, token) == invitation
    await revoke_invitation(database, acme, invitation.id)
    assert await problem_of(find_invitation(database, token)) == "invitation_not_valid"
    accepting = accept_as_new_user(database, token, name="", password=PASSWORD)
    assert await problem_of(accepting) == "invitation_not_valid"
    repeated = revoke_invitation(database, acme, invitation.id)
    assert await problem_of(repeated) == "invitation_not_found"
    assert (await actions(database, acme))[-1] == ("invitation.revoked", "ada@example.com")


async def test_an_invitation_expires_after_seven_days(database: Database) -> None:
    acme = await organization(database, "acme")
    ada = await create_user(database, "ada@example.com")
    _, token = await invite(database, acme, ada.email, "viewer")
    await write(database, "UPDATE invitations SET expires_at = :now", now=now_ms() - 60_000)
    assert await problem_of(find_invitation(database, token)) == "invitation_not_valid"
    assert await problem_of(accept_invitation(database, token, ada)) == "invitation_not_valid"
    assert await list_invitations(database, acme) == []


async def test_many_requests_with_one_invitation_do_not_keep_the_hashing_of_passwords_busy(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    _, token = await invite(database, acme, "ada@example.com", "viewer")
    with acting_as(Actor("service", "agentjobs", address="192.0.2.1")):
        for _ in range(MAX_PER_PAIR):
            await count_attempt(database, Attempt(token, "192.0.2.1"))
        accepting = accept_as_new_user(database, token, name="", password=PASSWORD)
        assert await problem_of(accepting) == "too_many_attempts"
    with acting_as(Actor("service", "agentjobs", address="198.51.100.1")):
        user = await accept_as_new_user(database, token, name="", password=PASSWORD)
    assert user.email == "ada@example.com"


@pytest.mark.parametrize("ending", ["demoted", "removed", "deleted"])
async def test_an_invitation_ends_with_the_rights_of_the_admin_who_sent_it(
    database: Database, ending: str
) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    admin = await member(database, acme, "admin@example.com", "admin")
    ada = await create_user(database, "ada@example.com")
    await member(database, acme, "second@example.com", "admin")
    # An admin of another organization has no say in this one.
    await member(database, other, admin.email, "admin")
    with acting_as(Actor("user", "Admin", admin.id)):
        invitation, token = await invite(database, acme, ada.email, "admin")
        assert invitation.invited_by == admin.email
    assert await find_invitation(database, token) == invitation
    if ending == "demoted":
        await set_role(database, acme, admin.id, "member")
    else:
        await remove_member(database, acme, admin.id)
    if ending == "deleted":
        await close_organization(database, other)
    assert await problem_of(find_invitation(database, token)) == "invitation_not_valid"
    assert await problem_of(accept_invitation(database, token, ada)) == "invitation_not_valid"
    assert await list_invitations(database, acme) == []
    assert await list_memberships(database, ada.id) == []
    with acting_as(Actor("user", "Admin", admin.id)):
        # Their request was authorized a moment before.
        refused = invite(database, acme, "accomplice@example.com", "admin")
        assert await problem_of(refused) == "not_admin"


async def test_an_invitation_of_an_operator_is_valid_while_they_are_one(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    operator = await create_user(database, "operator@example.com")
    await add_operator(database, operator)
    with acting_as(Actor("operator", "Operator", operator.id)):
        _, token = await invite(database, acme, "ada@example.com", "admin")
    assert (await find_invitation(database, token)).invited_by == operator.email
    await remove_operator(database, operator)
    assert await problem_of(find_invitation(database, token)) == "invitation_not_valid"


async def test_an_invitation_from_before_does_not_let_a_removed_member_join_again(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    ada = await create_user(database, "ada@example.com")
    _, token = await invite(database, acme, ada.email, "admin")
    await add_member(database, acme, ada.id, "viewer")
    await remove_member(database, acme, ada.id)
    assert await problem_of(accept_invitation(database, token, ada)) == "invitation_not_valid"
    assert await list_memberships(database, ada.id) == []


async def test_members_the_operator_and_invalid_addresses_are_not_invited(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    await member(database, acme, "ada@example.com")
    for email, role, code in (
        ("Ada@example.com", "admin", "already_member"),
        ("admin@localhost", "admin", "invalid_email"),
        ("nobody", "viewer", "invalid_email"),
        ("bob@example.com", "owner", "invalid_role"),
    ):
        assert await problem_of(invite(database, acme, email, role)) == code
    for token in ("", "aji_", "\0"):
        assert await problem_of(find_invitation(database, token)) == "invitation_not_valid"


async def test_only_one_of_two_concurrent_acceptances_succeeds(
    database: Database, database_url: str
) -> None:
    acme = await organization(database, "acme")
    _, token = await invite(database, acme, "ada@example.com", "viewer")
    other_database = await open_database(database_url, migrate=False)
    try:
        outcomes = await asyncio.gather(
            *(
                accept_as_new_user(db, token, name=f"Ada {number}", password=PASSWORD)
                for number, db in enumerate((database, other_database, database, other_database))
            ),
            return_exceptions=True,
        )
    finally:
        await other_database.close()
    (ada,) = [each for each in outcomes if isinstance(each, User)]
    codes = {each.code for each in outcomes if isinstance(each, Problem)}
    assert codes <= {"invitation_not_valid", "email_taken"}
    assert [each.user_id for each in await list_members(database, acme)] == [ada.id]


async def test_concurrent_invitations_leave_one_open_link(
    database: Database, database_url: str
) -> None:
    acme = await organization(database, "acme")
    other_database = await open_database(database_url, migrate=False)
    try:
        invitations: list[tuple[Invitation, str]] = await asyncio.gather(
            *(
                invite(db, acme, "ada@example.com", "viewer")
                for db in (database, other_database, database, other_database)
            )
        )
    finally:
        await other_database.close()
    (still_open,) = await list_invitations(database, acme)
    assert still_open.id in {invitation.id for invitation, _ in invitations}
