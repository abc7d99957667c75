"""Password reset links and operators, on both stores."""

import asyncio
from typing import Any

import pytest

from agentjobs.organizations.audit import Actor, acting_as
from agentjobs.organizations.memberships import add_member, remove_member, set_role
from agentjobs.organizations.operators import add_operator, list_operators, remove_operator
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.password_changes import set_password
from agentjobs.organizations.password_resets import (
    create_reset_link,
    find_reset_link,
    reset_password,
)
from agentjobs.organizations.retention import prune_sign_ins
from agentjobs.organizations.sessions import find_viewer, list_sessions, start_session
from agentjobs.organizations.sign_in import sign_in_with_password
from agentjobs.organizations.sign_in_links import create_link, revoke_link, use_link
from agentjobs.organizations.sign_out import (
    end_session,
    end_session_by_id,
    end_sessions,
    sign_member_out,
)
from agentjobs.organizations.throttle import MAX_PER_PAIR, Attempt, count_attempt
from agentjobs.organizations.users import User, ensure_administrator, get_user
from agentjobs.store.database import Database
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from tests.support.users import (
    ORIGIN,
    PASSWORD,
    PLANS,
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
NEW_PASSWORD = "another horse battery"
NOT_VALID = "reset_link_not_valid"


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    make_passwords_cheap(monkeypatch)


@pytest.fixture
async def acme(database: Database) -> str:
    return await organization(database, "acme")


@pytest.fixture
async def ada(database: Database, acme: str) -> User:
    return await member(database, acme, "ada@example.com")


async def reset(database: Database, token: str, password: str) -> str:
    return await reset_password(database, SETTINGS, token, password, ORIGIN)


async def test_a_link_sets_a_password_once_and_ends_all_sessions(
    database: Database, acme: str, ada: User
) -> None:
    await set_password(database, ada.id, PASSWORD)
    await start_session(database, SETTINGS, ada.id, ORIGIN)
    link, token = await create_reset_link(database, ada.id, organization_id=acme)
    assert (link.email, token[:4]) == (ada.email, "ajr_")
    assert token not in await stored_text(database, "sign_in_links")
    assert await find_reset_link(database, token) == link
    # Nothing has changed so far, and the address may have guessed too often.
    assert len(await list_sessions(database, ada.id)) == 1
    for _ in range(MAX_PER_PAIR):
        await count_attempt(database, Attempt(ada.email, ORIGIN.address))
    viewer = await find_viewer(database, SETTINGS, await reset(database, token, NEW_PASSWORD))
    assert viewer is not None
    assert viewer.user_id == ada.id
    assert [each.hash for each in await list_sessions(database, ada.id)] == [viewer.session]
    logged = [action for action, _ in await actions(database, acme)]
    assert logged[-3:] == ["password.reset_link_created", "password.reset", "user.signed_in"]
    await sign_in_with_password(database, SETTINGS, ada.email, NEW_PASSWORD, ORIGIN)
    assert await problem_of(find_reset_link(database, token)) == NOT_VALID
    assert await problem_of(reset(database, token, PASSWORD)) == NOT_VALID


async def test_neither_kind_of_link_is_accepted_as_the_other(
    database: Database, acme: str, ada: User
) -> None:
    _, reset_token = await create_reset_link(database, ada.id, organization_id=acme)
    sign_in = await create_link(database, ada.id)
    assert await problem_of(use_link(database, SETTINGS, reset_token, ORIGIN)) == "link_not_valid"
    assert await problem_of(reset(database, sign_in, PASSWORD)) == NOT_VALID
    # Even with the prefix of the other kind.
    await write(database, "UPDATE sign_in_links SET purpose = 'password_reset'")
    assert await problem_of(use_link(database, SETTINGS, sign_in, ORIGIN)) == "link_not_valid"
    await write(database, "UPDATE sign_in_links SET purpose = 'sign_in'")
    assert await problem_of(reset(database, reset_token, PASSWORD)) == NOT_VALID


async def test_a_link_expires_after_a_day_and_a_newer_one_replaces_it(
    database: Database, acme: str, ada: User
) -> None:
    _, first = await create_reset_link(database, ada.id, organization_id=acme)
    link, second = await create_reset_link(database, ada.id, organization_id=acme)
    assert 86_300_000 < link.expires_at - now_ms() <= 86_400_000
    assert await problem_of(find_reset_link(database, first)) == NOT_VALID
    await find_reset_link(database, second)
    await write(database, "UPDATE sign_in_links SET expires_at = :now", now=now_ms() - 60_000)
    assert await problem_of(reset(database, second, PASSWORD)) == NOT_VALID
    assert await prune_sign_ins(database, now_ms(), idle_hours=1, session_days=1) == 1
    _, third = await create_reset_link(database, ada.id)
    await revoke_link(database, third)
    assert await problem_of(find_reset_link(database, third)) == NOT_VALID


async def test_admins_reset_only_accounts_of_no_other_organization(
    database: Database, acme: str, ada: User
) -> None:
    other = await organization(database, "other")
    _, early = await create_reset_link(database, ada.id, organization_id=acme)
    await add_member(database, other, ada.id, "viewer")
    # The account has become that of two organizations.
    assert await problem_of(reset(database, early, PASSWORD)) == NOT_VALID
    refused = create_reset_link(database, ada.id, organization_id=acme)
    assert await problem_of(refused) == "other_organizations"
    _, token = await create_reset_link(database, ada.id, organization_id=acme, is_by_operator=True)
    await reset(database, token, PASSWORD)
    third = await organization(database, "third")
    refused = create_reset_link(database, ada.id, organization_id=third, is_by_operator=True)
    assert await problem_of(refused) == "member_not_found"


async def _link_by(
    database: Database, creator: User, user: User, organization_id: str, **options: bool
) -> str:
    with acting_as(Actor("user", creator.name, creator.id)):
        return (
            await create_reset_link(database, user.id, organization_id=organization_id, **options)
        )[1]


async def test_a_link_stops_working_when_its_creator_is_no_longer_an_admin(
    database: Database, acme: str, ada: User
) -> None:
    creator = await member(database, acme, "admin@example.com", role="admin")
    await member(database, acme, "other-admin@example.com", role="admin")
    token = await _link_by(database, creator, ada, acme)
    await find_reset_link(database, token)
    # An admin elsewhere has no power here.
    await add_member(database, await organization(database, "other"), creator.id, "admin")
    await set_role(database, acme, creator.id, "member")
    assert await problem_of(find_reset_link(database, token)) == NOT_VALID
    assert await problem_of(reset(database, token, PASSWORD)) == NOT_VALID
    await set_role(database, acme, creator.id, "admin")
    token = await _link_by(database, creator, ada, acme)
    await remove_member(database, acme, creator.id)
    assert await problem_of(reset(database, token, PASSWORD)) == NOT_VALID


async def test_a_link_by_an_operator_stops_working_when_they_are_no_longer_one(
    database: Database, acme: str, ada: User
) -> None:
    await ensure_default(database, PLANS)
    creator = await member(database, acme, "operator@example.com", role="admin")
    await add_operator(database, creator)
    token = await _link_by(database, creator, ada, acme, is_by_operator=True)
    await find_reset_link(database, token)
    await remove_operator(database, creator)
    assert await problem_of(reset(database, token, PASSWORD)) == NOT_VALID


async def test_ending_sessions_of_an_admin_revokes_the_links_that_they_created(
    database: Database, acme: str, ada: User
) -> None:
    creator = await member(database, acme, "admin@example.com", role="admin")
    other = await organization(database, "other")

    async def end_one() -> None:
        session = (await list_sessions(database, creator.id))[0]
        await end_session_by_id(database, creator.id, session.id)

    for end in (
        lambda: set_password(database, creator.id, NEW_PASSWORD),
        lambda: end_sessions(database, creator.id),
        lambda: sign_member_out(database, acme, creator.id),
        end_one,
    ):
        await start_session(database, SETTINGS, creator.id, ORIGIN, organization_id=acme)
        token = await _link_by(database, creator, ada, acme)
        await find_reset_link(database, token)
        await end()
        assert await problem_of(find_reset_link(database, token)) == NOT_VALID
    # Those of other organizations remain, and signing out is no alarm.
    await add_member(database, other, creator.id, "admin")
    session = await start_session(database, SETTINGS, creator.id, ORIGIN)
    token = await _link_by(database, creator, ada, acme)
    await sign_member_out(database, other, creator.id)
    await end_session(database, session)
    await reset(database, token, PASSWORD)


async def test_a_request_in_flight_when_its_session_ends_leaves_no_link(
    database: Database, acme: str, ada: User
) -> None:
    creator = await member(database, acme, "admin@example.com", role="admin")

    async def create(session: bytes) -> str:
        with acting_as(Actor("user", creator.name, creator.id)):
            link = create_reset_link(database, ada.id, organization_id=acme, session=session)
            return (await link)[1]

    for end in (
        lambda: set_password(database, creator.id, NEW_PASSWORD),
        lambda: end_sessions(database, creator.id),
        lambda: sign_member_out(database, acme, creator.id),
    ):
        await start_session(database, SETTINGS, creator.id, ORIGIN, organization_id=acme)
        session = (await list_sessions(database, creator.id))[0].hash
        requests = [create(session) for _ in range(4)]
        created = await asyncio.gather(end(), *requests, return_exceptions=True)
        for token in created:
            if isinstance(token, str):
                assert await problem_of(find_reset_link(database, token)) == NOT_VALID
        assert await problem_of(create(session)) == "not_signed_in"


async def test_one_of_several_links_that_are_created_at_once_works(
    database: Database, acme: str, ada: User
) -> None:
    links = (create_reset_link(database, ada.id, organization_id=acme) for _ in range(5))
    await asyncio.gather(*links)
    row = await database.fetch_one("SELECT COUNT(*) AS links FROM sign_in_links")
    assert row is not None
    assert row["links"] == 1


async def test_operators_and_ones_own_account_are_not_reset_by_admins(
    database: Database, acme: str, ada: User
) -> None:
    with acting_as(Actor("user", "Ada", ada.id)):
        refused = create_reset_link(database, ada.id, organization_id=acme)
        assert await problem_of(refused) == "own_password"
    _, early = await create_reset_link(database, ada.id, organization_id=acme)
    await add_operator(database, ada)
    assert await problem_of(reset(database, early, PASSWORD)) == NOT_VALID
    for is_by_operator in (False, True):
        refused = create_reset_link(
            database, ada.id, organization_id=acme, is_by_operator=is_by_operator
        )
        assert await problem_of(refused) == "operator_account"
    # The command line may.
    _, token = await create_reset_link(database, ada.id)
    await reset(database, token, PASSWORD)


async def test_accounts_of_the_provider_and_without_membership_have_no_link(
    database: Database, acme: str, ada: User
) -> None:
    await write(database, "UPDATE users SET oidc_issuer = 'https://i', oidc_subject = 's'")
    refused = create_reset_link(database, ada.id, organization_id=acme)
    assert await problem_of(refused) == "managed_by_provider"
    nobody = await create_user(database, "bob@example.com")
    assert await problem_of(create_reset_link(database, nobody.id)) == "no_membership"
    assert await problem_of(create_reset_link(database, "usr_0")) == "member_not_found"


async def test_weak_passwords_keep_the_link_and_guesses_are_limited(
    database: Database, acme: str, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await create_reset_link(database, ada.id, organization_id=acme)
    assert await problem_of(reset(database, token, "short")) == "weak_password"
    await find_reset_link(database, token)
    unknown = (await create_reset_link(database, ada.id))[1]
    await revoke_link(database, unknown)
    codes = [await problem_of(reset(database, unknown, PASSWORD)) for _ in range(MAX_PER_PAIR + 1)]
    assert codes == [NOT_VALID] * MAX_PER_PAIR + ["too_many_attempts"]

    def transact(*_: object, **__: object) -> None:
        raise AssertionError("a transaction")

    monkeypatch.setattr(database, "transact", transact)
    for wrong in ("", "ajr_" + "0" * 38, "\0", "\udc80"):
        assert await problem_of(reset(database, wrong, PASSWORD)) == NOT_VALID


async def test_only_one_of_two_concurrent_uses_of_a_link_succeeds(
    database: Database, acme: str, ada: User
) -> None:
    _, token = await create_reset_link(database, ada.id, organization_id=acme)
    outcomes = await asyncio.gather(
        *(reset(database, token, f"{PASSWORD} {n}") for n in range(3)),
        return_exceptions=True,
    )
    assert sorted(each.code for each in outcomes if isinstance(each, Problem)) == [NOT_VALID] * 2


async def test_a_password_set_right_after_a_reset_ends_the_session_of_the_reset(
    database: Database, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await create_reset_link(database, ada.id)
    transact = database.transact

    async def transact_before_another_change(work: Any, *args: Any, **options: Any) -> Any:
        result = await transact(work, *args, **options)
        row = await database.fetch_one("SELECT password_hash FROM users")
        if row is not None and row["password_hash"] is not None:
            monkeypatch.setattr(database, "transact", transact)
            await set_password(database, ada.id, PASSWORD)
        return result

    monkeypatch.setattr(database, "transact", transact_before_another_change)
    await reset(database, token, NEW_PASSWORD)
    assert await list_sessions(database, ada.id) == []


async def test_operators_are_added_and_removed_with_entries_in_the_services_log(
    database: Database, acme: str, ada: User
) -> None:
    await ensure_default(database, PLANS)
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    for change, is_operator in ((add_operator, True), (remove_operator, False)):
        assert await change(database, ada)
        assert not await change(database, ada)
        viewer = await find_viewer(database, SETTINGS, token)
        assert viewer is not None
        assert viewer.is_operator is is_operator
        assert [each.email for each in await list_operators(database)] == [ada.email] * is_operator
    default = (await find_organization(database, "default")).id
    assert await actions(database, default) == [
        ("operator.added", ada.email),
        ("operator.removed", ada.email),
    ]


async def test_the_account_that_the_service_creates_on_a_laptop_is_an_operator(
    database: Database, acme: str, ada: User
) -> None:
    administrator = await ensure_administrator(database, "acme")
    assert administrator.is_operator
    assert not (await get_user(database, ada.id)).is_operator
