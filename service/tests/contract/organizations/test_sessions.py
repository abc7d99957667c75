"""Sessions: the user a token identifies, its lifetime and its end, on both stores."""

from agentjobs.organizations.audit import Actor, AuditFilter, acting_as, list_entries
from agentjobs.organizations.memberships import add_member, remove_member, set_role
from agentjobs.organizations.retention import prune_sign_ins
from agentjobs.organizations.sessions import (
    Origin,
    find_viewer,
    list_sessions,
    start_session,
    switch_organization,
)
from agentjobs.organizations.sign_out import (
    end_session,
    end_session_by_id,
    end_sessions,
    sign_member_out,
)
from agentjobs.organizations.users import get_user, rename_user
from agentjobs.store.database import Database
from agentjobs_runtime.clock import DAY_MS, now_ms
from tests.support.users import (
    ORIGIN,
    actions,
    create_user,
    member,
    organization,
    problem_of,
    settings_of,
    stored_text,
    write,
)

SETTINGS = settings_of()
HOUR_MS = 3_600_000


async def test_a_session_identifies_its_user_and_only_its_hash_is_stored(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com", "admin")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    viewer = await find_viewer(database, SETTINGS, token)
    assert viewer is not None
    assert (viewer.user_id, viewer.role, viewer.organization) == (ada.id, "admin", "acme")
    assert (viewer.plan, viewer.memberships, viewer.display_name) == ("free", 1, "ada@example.com")
    assert token.startswith("ajs_")
    stored = await stored_text(database, "sessions")
    assert token not in stored
    assert viewer.csrf not in stored
    assert (await get_user(database, ada.id)).last_sign_in_at is not None
    assert ("user.signed_in", ada.email) not in await actions(database, acme)


async def test_the_csrf_token_belongs_to_one_session_and_stays_the_same(
    database: Database,
) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    first_token, second_token = [
        await start_session(database, SETTINGS, ada.id, ORIGIN) for _ in range(2)
    ]
    viewers = [
        await find_viewer(database, SETTINGS, token)
        for token in (first_token, first_token, second_token)
    ]
    first, again, other = [viewer.csrf for viewer in viewers if viewer is not None]
    assert first == again != other
    assert len(first) == 43


async def test_members_and_admins_may_create_jobs(database: Database) -> None:
    acme = await organization(database, "acme")
    await member(database, acme, "root@example.com", "admin")
    ada = await member(database, acme, "ada@example.com")
    await rename_user(database, ada.id, "Ada")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    for role, scope in (("viewer", "read"), ("member", "jobs"), ("admin", "jobs")):
        await set_role(database, acme, ada.id, role)
        viewer = await find_viewer(database, SETTINGS, token)
        assert viewer is not None
        caller = viewer.caller
        assert (caller.key_id, caller.organization_id, caller.name) == (ada.id, acme, "Ada")
        assert (caller.scope, caller.git_write) == (scope, False)


async def test_invalid_tokens_have_no_viewer(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    for wrong in ("", "ajs_", token[:-1], token + "x", token.swapcase(), "ajs_" + "0" * 38, "\0"):
        assert await find_viewer(database, SETTINGS, wrong) is None


async def test_a_session_expires_by_idling_and_by_age(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    limits = {"idle_hours": SETTINGS.session_idle_hours, "session_days": SETTINGS.session_days}
    for column, age_ms, is_over in (
        ("seen_at", 12 * HOUR_MS - 60_000, False),
        ("seen_at", 12 * HOUR_MS, True),
        ("created_at", 14 * DAY_MS - 60_000, False),
        ("created_at", 14 * DAY_MS, True),
        ("expires_at", 0, True),
    ):
        token = await start_session(database, SETTINGS, ada.id, ORIGIN)
        await write(database, f"UPDATE sessions SET {column} = :at", at=now_ms() - age_ms)
        assert (await find_viewer(database, SETTINGS, token) is None) == is_over
        assert await prune_sign_ins(database, now_ms(), **limits) == is_over
        assert await end_sessions(database, ada.id) == (not is_over)


async def test_shorter_session_limits_apply_to_existing_sessions(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    await write(database, "UPDATE sessions SET created_at = created_at - :day", day=DAY_MS)
    assert await find_viewer(database, SETTINGS, token) is not None
    assert await find_viewer(database, settings_of(session_days="1"), token) is None


async def test_the_last_use_of_a_session_is_stored_once_a_minute(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)

    async def seen_after(age_ms: int) -> bool:
        at = now_ms() - age_ms
        await write(database, "UPDATE sessions SET seen_at = :at", at=at)
        await find_viewer(database, SETTINGS, token)
        (session,) = await list_sessions(database, ada.id)
        return session.seen_at > at

    assert not await seen_after(50_000)
    assert await seen_after(60_000)


async def test_an_open_stream_does_not_keep_a_session_alive(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    at = now_ms() - HOUR_MS
    await write(database, "UPDATE sessions SET seen_at = :at", at=at)
    viewer = await find_viewer(database, SETTINGS, token, is_request=False)
    assert viewer is not None
    assert [each.seen_at for each in await list_sessions(database, ada.id)] == [at]


async def test_changes_of_roles_and_removals_apply_at_once(database: Database) -> None:
    acme = await organization(database, "acme")
    await member(database, acme, "root@example.com", "admin")
    ada = await member(database, acme, "ada@example.com")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    with database.changes.listen("sessions") as signal:
        await set_role(database, acme, ada.id, "viewer")
        assert await signal.wait(30)
    viewer = await find_viewer(database, SETTINGS, token)
    assert viewer is not None
    assert viewer.role == "viewer"
    # The user may be removed during sign-in.
    await write(database, "DELETE FROM memberships WHERE user_id = :id", id=ada.id)
    assert await find_viewer(database, SETTINGS, token) is None


async def test_a_new_session_replaces_the_previous_one(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    first = await start_session(database, SETTINGS, ada.id, ORIGIN)
    second = await start_session(database, SETTINGS, ada.id, ORIGIN, replacing=first)
    assert await find_viewer(database, SETTINGS, first) is None
    assert await find_viewer(database, SETTINGS, second) is not None
    nobody = await create_user(database, "bob@example.com")
    starting = start_session(database, SETTINGS, nobody.id, ORIGIN, replacing=second)
    assert await problem_of(starting) == "no_membership"
    assert await find_viewer(database, SETTINGS, second) is not None


async def test_a_session_starts_in_the_requested_or_last_used_organization(
    database: Database,
) -> None:
    zoo, acme = await organization(database, "zoo"), await organization(database, "acme")
    other = await organization(database, "other")
    ada = await member(database, zoo, "ada@example.com")
    await add_member(database, acme, ada.id, "viewer")

    async def stands_in(organization_id: str | None = None) -> str:
        token = await start_session(
            database, SETTINGS, ada.id, ORIGIN, organization_id=organization_id
        )
        viewer = await find_viewer(database, SETTINGS, token)
        assert viewer is not None
        return viewer.organization

    assert await stands_in() == "acme"
    await end_sessions(database, ada.id)
    assert await stands_in(zoo) == "zoo"
    assert await stands_in() == "zoo"
    assert await problem_of(stands_in(other)) == "no_membership"


async def test_users_switch_only_to_organizations_they_belong_to(database: Database) -> None:
    acme, zoo = await organization(database, "acme"), await organization(database, "zoo")
    await organization(database, "other")
    ada = await member(database, acme, "ada@example.com")
    bob = await member(database, zoo, "bob@example.com")
    await add_member(database, zoo, ada.id, "admin")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN)
    for name in ("other", "none"):
        switching = switch_organization(database, token, ada.id, name)
        assert await problem_of(switching) == "not_a_member"
    await switch_organization(database, token, ada.id, "zoo")
    viewer = await find_viewer(database, SETTINGS, token)
    assert viewer is not None
    assert (viewer.organization, viewer.role, viewer.memberships) == ("zoo", "admin", 2)
    # Only the session's user can switch its organization.
    switching = switch_organization(database, token, bob.id, "zoo")
    assert await problem_of(switching) == "not_signed_in"


async def test_signing_out_ends_one_session_and_signing_out_everywhere_all(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    bob = await member(database, acme, "bob@example.com")
    tokens = [await start_session(database, SETTINGS, ada.id, ORIGIN) for _ in range(4)]
    bobs = await start_session(database, SETTINGS, bob.id, ORIGIN)
    with database.changes.listen("sessions") as signal:
        await end_session(database, tokens.pop())
        assert await signal.wait(30)
    viewer = await find_viewer(database, SETTINGS, tokens[0])
    assert viewer is not None
    assert await end_sessions(database, ada.id, keep=viewer.session) == 2
    assert [each.hash for each in await list_sessions(database, ada.id)] == [viewer.session]
    assert await end_sessions(database, ada.id) == 1
    assert await end_sessions(database, ada.id) == 0
    assert await find_viewer(database, SETTINGS, bobs) is not None
    assert (await actions(database, acme)).count(("sessions.ended", ada.email)) == 2


async def test_users_see_their_own_sessions_with_address_and_browser(database: Database) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    bob = await member(database, acme, "bob@example.com")
    await start_session(database, SETTINGS, bob.id, ORIGIN)
    odd = Origin("192.0.2.9", "x\0\udc80" + "y" * 400)
    token = await start_session(database, SETTINGS, ada.id, odd)
    viewer = await find_viewer(database, SETTINGS, token)
    (session,) = await list_sessions(database, ada.id)
    assert viewer is not None
    assert (session.hash, session.id) == (viewer.session, viewer.session.hex()[:16])
    assert (session.address, session.user_agent) == (
        "192.0.2.9",
        "x\N{REPLACEMENT CHARACTER}?" + "y" * 297,
    )


async def test_a_removed_member_cannot_start_another(database: Database) -> None:
    acme = await organization(database, "acme")
    await member(database, acme, "root@example.com", "admin")
    ada = await member(database, acme, "ada@example.com")
    await remove_member(database, acme, ada.id)
    starting = start_session(database, SETTINGS, ada.id, ORIGIN)
    assert await problem_of(starting) == "no_membership"


async def test_signing_out_is_audited_in_the_sessions_organization(database: Database) -> None:
    acme, zoo = await organization(database, "acme"), await organization(database, "zoo")
    ada = await member(database, acme, "ada@example.com")
    await add_member(database, zoo, ada.id, "viewer")
    token = await start_session(database, SETTINGS, ada.id, ORIGIN, organization_id=zoo)
    with acting_as(Actor("user", "Ada", ada.id, "192.0.2.7")):
        for _ in range(2):
            await end_session(database, token)
    assert ("user.signed_out", ada.email) not in await actions(database, acme)
    (record,) = await list_entries(database, zoo, AuditFilter(action="user.signed_out"), limit=9)
    assert (record.actor_id, record.target, record.address) == (ada.id, ada.email, "192.0.2.7")


async def test_only_its_user_can_end_a_session_by_id(database: Database) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    bob = await member(database, acme, "bob@example.com")
    session, other_session = [
        await start_session(database, SETTINGS, ada.id, ORIGIN) for _ in range(2)
    ]
    viewer = await find_viewer(database, SETTINGS, other_session)
    assert viewer is not None
    ended = viewer.session.hex()[:16]
    for user_id, wrong in ((bob.id, ended), (ada.id, ended[:-1]), (ada.id, ""), (ada.id, "\0")):
        assert await problem_of(end_session_by_id(database, user_id, wrong)) == "not_found"
    with database.changes.listen("sessions") as signal:
        assert await end_session_by_id(database, ada.id, ended) == viewer.session
        assert await signal.wait(30)
    assert await find_viewer(database, SETTINGS, other_session) is None
    assert await find_viewer(database, SETTINGS, session) is not None
    assert (await actions(database, acme)).count(("sessions.ended", ada.email)) == 1
    assert await problem_of(end_session_by_id(database, ada.id, ended)) == "not_found"


async def test_an_admin_ends_a_members_sessions_in_their_organization(
    database: Database,
) -> None:
    acme, zoo = await organization(database, "acme"), await organization(database, "zoo")
    ada = await member(database, acme, "ada@example.com")
    bob = await member(database, zoo, "bob@example.com")
    await add_member(database, zoo, ada.id, "viewer")
    session, other_session = [
        await start_session(database, SETTINGS, ada.id, ORIGIN, organization_id=each)
        for each in (acme, zoo)
    ]
    bobs = await start_session(database, SETTINGS, bob.id, ORIGIN)
    for nobody in (bob.id, "usr_0"):
        assert await problem_of(sign_member_out(database, acme, nobody)) == "member_not_found"
    with database.changes.listen("sessions") as signal:
        assert await sign_member_out(database, acme, ada.id) == 1
        assert await signal.wait(30)
    assert await sign_member_out(database, acme, ada.id) == 0
    left = [
        await find_viewer(database, SETTINGS, token) for token in (session, other_session, bobs)
    ]
    assert [each is not None for each in left] == [False, True, True]
    assert (await actions(database, acme)).count(("member.signed_out", ada.email)) == 1
    assert ("member.signed_out", ada.email) not in await actions(database, zoo)
