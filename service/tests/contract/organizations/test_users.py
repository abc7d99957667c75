"""Users, their roles and their passwords, on both stores."""

import asyncio

import pytest

from agentjobs.organizations.audit import Actor, AuditFilter, acting_as, list_entries
from agentjobs.organizations.memberships import (
    Membership,
    add_member,
    allows,
    list_members,
    list_memberships,
    remove_member,
    set_role,
)
from agentjobs.organizations.password_changes import change_password, set_password
from agentjobs.organizations.sessions import find_viewer, list_sessions, start_session
from agentjobs.organizations.sign_in import sign_in_with_password
from agentjobs.organizations.sign_in_links import create_link, use_link
from agentjobs.organizations.users import (
    ensure_administrator,
    find_user,
    get_user,
    list_users,
    normalize_email,
    rename_user,
)
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
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


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (" Ada@Example.COM ", "ada@example.com"),
        ("admin@localhost", "admin@localhost"),
        ("o'hara+x@mail.example", "o'hara+x@mail.example"),
    ],
)
def test_an_email_address_is_normalized(text: str, normal: str) -> None:
    assert normalize_email(text) == normal


@pytest.mark.parametrize(
    "text",
    [
        *("", "ada", "@x.y", "a@", "a@b@c", "a b@c.d", "a@-b.c", "a..b@c.d", ".a@b.c", "a@b..c"),
        *("a@b\0.c", "a@b.c\nBcc: x@y.z", "\u212aelvin@example.com", "<a@b.c>"),
        *("a" * 65 + "@b.c", "a@" + "b." * 130 + "c"),
    ],
)
def test_an_invalid_email_address_is_refused(text: str) -> None:
    with pytest.raises(Problem) as caught:
        normalize_email(text)
    assert caught.value.code == "invalid_email"


async def test_a_user_is_found_by_any_spelling_and_created_only_once(database: Database) -> None:
    user = await create_user(database, "Ada@Example.com", name=" Ada ", password=PASSWORD)
    assert (user.email, user.name) == ("ada@example.com", "Ada")
    assert (user.has_password, user.has_provider) == (True, False)
    assert await find_user(database, " ADA@example.com") == user
    assert await get_user(database, user.id) == user
    assert await find_user(database, "bob@example.com") is None
    assert await find_user(database, "no address\0") is None
    assert await problem_of(create_user(database, "ada@EXAMPLE.com")) == "email_taken"
    assert await problem_of(get_user(database, "usr_0")) == "user_not_found"
    assert PASSWORD not in await stored_text(database, "users")
    assert await list_users(database) == [user]


async def test_a_name_is_one_printable_line(database: Database) -> None:
    user = await create_user(database, "ada@example.com")
    assert (await rename_user(database, user.id, "Ada L.")).name == "Ada L."
    for name in ("a\nb", "\x1b[31m", "x" * 201, "\u202e"):
        assert await problem_of(rename_user(database, user.id, name)) == "invalid_name"


def test_a_role_includes_all_lower_roles() -> None:
    assert [allows("member", needed) for needed in ("viewer", "member", "admin")] == [
        True,
        True,
        False,
    ]
    assert not allows("root", "viewer")


async def test_changes_of_members_are_audited(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    with acting_as(Actor("user", "Root", "usr_root", "192.0.2.1")):
        root = await member(database, acme, "root@example.com", "admin")
        ada = await create_user(database, "ada@example.com")
        await add_member(database, acme, ada.id, "viewer")
        await set_role(database, acme, ada.id, "member")
        await set_role(database, acme, ada.id, "member")
        members = await list_members(database, acme)
        assert [(member.email, member.role) for member in members] == [
            ("ada@example.com", "member"),
            ("root@example.com", "admin"),
        ]
        assert await problem_of(add_member(database, acme, ada.id, "admin")) == "already_member"
        assert await problem_of(set_role(database, acme, ada.id, "root")) == "invalid_role"
        await remove_member(database, acme, ada.id)
    assert [each.user_id for each in await list_members(database, acme)] == [root.id]
    assert await actions(database, acme) == [
        ("user.created", "root@example.com"),
        ("member.added", "root@example.com"),
        ("member.added", "ada@example.com"),
        ("member.role_changed", "ada@example.com"),
        ("member.removed", "ada@example.com"),
    ]
    changed = await list_entries(database, acme, AuditFilter(action="member.role_changed"), limit=9)
    assert [(each.actor, each.address, each.details) for each in changed] == [
        ("Root", "192.0.2.1", {"role": "member", "before": "viewer"})
    ]


async def test_members_of_another_organization_are_not_found(database: Database) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    await member(database, acme, "root@example.com", "admin")
    ada = await member(database, other, "ada@example.com", "admin")
    for call in (set_role(database, acme, ada.id, "viewer"), remove_member(database, acme, ada.id)):
        assert await problem_of(call) == "member_not_found"
    assert await problem_of(set_role(database, "org_0", ada.id, "viewer")) == "member_not_found"
    assert await problem_of(add_member(database, acme, "usr_0", "admin")) == "user_not_found"
    assert await list_memberships(database, ada.id) == [
        Membership(organization_id=other, organization="other", role="admin")
    ]


async def test_the_last_admin_cannot_be_demoted_or_removed(database: Database) -> None:
    acme = await organization(database, "acme")
    root = await member(database, acme, "root@example.com", "admin")
    await member(database, acme, "ada@example.com")
    assert await problem_of(set_role(database, acme, root.id, "member")) == "last_admin"
    assert await problem_of(remove_member(database, acme, root.id)) == "last_admin"
    await set_role(database, acme, root.id, "admin")


async def test_two_admins_cannot_leave_concurrently(database: Database, database_url: str) -> None:
    acme = await organization(database, "acme")
    other_database = await open_database(database_url, migrate=False)
    try:
        for round_number in range(5):
            pair = [
                await member(database, acme, f"{name}{round_number}@example.com", "admin")
                for name in ("a", "b")
            ]
            for each in await list_members(database, acme):
                if each.user_id not in {user.id for user in pair}:
                    await remove_member(database, acme, each.user_id)
            outcomes = await asyncio.gather(
                remove_member(database, acme, pair[0].id),
                set_role(other_database, acme, pair[1].id, "viewer"),
                return_exceptions=True,
            )
            problems = [each for each in outcomes if isinstance(each, Problem)]
            assert [each.code for each in problems] == ["last_admin"]
            roles = [each.role for each in await list_members(database, acme)]
            assert roles.count("admin") == 1
    finally:
        await other_database.close()


async def test_a_removed_member_is_signed_out_only_there(database: Database) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    ada = await member(database, acme, "ada@example.com")
    await add_member(database, other, ada.id, "viewer")
    session = await start_session(database, SETTINGS, ada.id, ORIGIN, organization_id=acme)
    other_session = await start_session(database, SETTINGS, ada.id, ORIGIN, organization_id=other)
    with database.changes.listen("sessions") as signal:
        await remove_member(database, acme, ada.id)
        assert await signal.wait(30)
    assert await find_viewer(database, SETTINGS, session) is None
    viewer = await find_viewer(database, SETTINGS, other_session)
    assert viewer is not None
    assert (viewer.organization, viewer.memberships) == ("other", 1)


async def test_an_organization_without_an_admin_gets_one(database: Database) -> None:
    acme, other = await organization(database, "acme"), await organization(database, "other")
    administrator = await ensure_administrator(database, "acme")
    assert (administrator.email, administrator.name) == ("admin@localhost", "Administrator")
    assert await ensure_administrator(database, "acme") == administrator
    assert (await ensure_administrator(database, "other")).id == administrator.id
    assert [each.role for each in await list_members(database, other)] == ["admin"]
    late = await member(database, acme, "ada@example.com", "admin")
    assert (await ensure_administrator(database, "acme")).id == administrator.id
    await start_session(database, SETTINGS, late.id, ORIGIN)
    assert (await ensure_administrator(database, "acme")).id == late.id
    assert await problem_of(ensure_administrator(database, "none")) == "organization_not_found"


async def test_two_processes_create_one_administrator(
    database: Database, database_url: str
) -> None:
    names = ["one", "two", "three"]
    for name in names:
        await organization(database, name)
    other_database = await open_database(database_url, migrate=False)
    try:
        administrators = await asyncio.gather(
            *(ensure_administrator(db, name) for name in names for db in (database, other_database))
        )
    finally:
        await other_database.close()
    assert len({user.id for user in administrators}) == 1
    assert [
        (each.organization, each.role)
        for each in await list_memberships(database, administrators[0].id)
    ] == [("one", "admin"), ("three", "admin"), ("two", "admin")]


async def test_a_member_who_is_the_administrator_becomes_admin_again(database: Database) -> None:
    acme = await organization(database, "acme")
    user = await member(database, acme, "admin@localhost", "viewer")
    assert (await ensure_administrator(database, "acme")).id == user.id
    assert [each.role for each in await list_members(database, acme)] == ["admin"]
    assert (await actions(database, acme))[-1] == ("member.role_changed", user.email)


async def test_a_changed_password_ends_every_session_and_link(database: Database) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    await set_password(database, ada.id, PASSWORD)
    await start_session(database, SETTINGS, ada.id, ORIGIN)
    link = await create_link(database, ada.id)
    for wrong in (None, "", PASSWORD + "x"):
        changing = change_password(database, ada.id, wrong, "another password")
        assert await problem_of(changing) == "wrong_password"
    assert await problem_of(change_password(database, ada.id, PASSWORD, "short")) == "weak_password"
    await change_password(database, ada.id, PASSWORD, "another password")
    assert await list_sessions(database, ada.id) == []
    assert await problem_of(use_link(database, SETTINGS, link, ORIGIN)) == "link_not_valid"
    sign_in = sign_in_with_password(database, SETTINGS, ada.email, PASSWORD, ORIGIN)
    assert await problem_of(sign_in) == "sign_in_failed"
    assert await sign_in_with_password(database, SETTINGS, ada.email, "another password", ORIGIN)
    assert (await actions(database, acme)).count(("password.changed", ada.email)) == 2


async def test_a_user_without_a_password_can_set_one(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    await change_password(database, ada.id, None, PASSWORD)
    assert (await get_user(database, ada.id)).has_password


async def test_guesses_of_the_current_password_are_limited_too(
    database: Database,
) -> None:
    ada = await create_user(database, "ada@example.com", password=PASSWORD)
    await write(
        database,
        "INSERT INTO sign_in_failures (subject, failures, since) SELECT :subject, 10, created_at"
        " FROM users",
        subject=subject_of(ada.email),
    )
    changing = change_password(database, ada.id, PASSWORD, "another password")
    assert await problem_of(changing) == "too_many_attempts"


async def test_only_one_of_two_concurrent_password_changes_succeeds(database: Database) -> None:
    ada = await create_user(database, "ada@example.com", password=PASSWORD)
    outcomes = await asyncio.gather(
        change_password(database, ada.id, PASSWORD, "another password"),
        change_password(database, ada.id, PASSWORD, "a third password"),
        return_exceptions=True,
    )
    problems = [each for each in outcomes if isinstance(each, Problem)]
    assert [each.code for each in problems] == ["wrong_password"]


def subject_of(email: str) -> str:
    from agentjobs.organizations.throttle import Attempt

    return Attempt(email, None).pair_subject


async def test_a_rename_is_in_the_audit_log_of_each_organization(database: Database) -> None:
    acme, zoo = await organization(database, "acme"), await organization(database, "zoo")
    ada = await member(database, acme, "ada@example.com")
    await add_member(database, zoo, ada.id, "viewer")
    with acting_as(Actor("user", ada.email, ada.id)):
        for name in (" Root ", "Root", "Ada"):
            assert (await rename_user(database, ada.id, name)).name == name.strip()
    for each in (acme, zoo):
        records = await list_entries(database, each, AuditFilter(action="user.renamed"), limit=9)
        assert [record.details for record in reversed(records)] == [
            {"from": "", "to": "Root"},
            {"from": "Root", "to": "Ada"},
        ]
        assert {(record.target, record.actor_id) for record in records} == {(ada.email, ada.id)}
    assert await problem_of(rename_user(database, "usr_0", "Nobody")) == "user_not_found"


async def test_only_the_operator_sets_a_password_for_provider_users(
    database: Database,
) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    await write(database, "UPDATE users SET oidc_issuer = 'https://id.example', oidc_subject = '1'")
    await start_session(database, SETTINGS, ada.id, ORIGIN)
    choosing = change_password(database, ada.id, None, PASSWORD)
    assert await problem_of(choosing) == "managed_by_provider"
    assert not (await get_user(database, ada.id)).has_password
    assert len(await list_sessions(database, ada.id)) == 1
    await set_password(database, ada.id, PASSWORD)
    await change_password(database, ada.id, PASSWORD, "another password")


async def test_a_user_linked_to_a_provider_meanwhile_gets_no_password(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")

    async def hashed_meanwhile(password: str) -> str:
        await write(database, "UPDATE users SET oidc_issuer = 'https://x', oidc_subject = '1'")
        return "a hash"

    monkeypatch.setattr("agentjobs.organizations.password_changes.hash_password", hashed_meanwhile)
    with pytest.raises(Problem):
        await change_password(database, ada.id, None, PASSWORD)
    assert not (await get_user(database, ada.id)).has_password
