"""Sign-in with passwords and links, and its rate limits, on both stores."""

import asyncio
import logging

import pytest
from argon2 import PasswordHasher

from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.password_changes import set_password
from agentjobs.organizations.retention import prune_sign_ins
from agentjobs.organizations.sessions import Origin, find_viewer, list_sessions, start_session
from agentjobs.organizations.sign_in import sign_in_with_password
from agentjobs.organizations.sign_in_links import create_link, revoke_link, use_link
from agentjobs.organizations.throttle import (
    MAX_PER_ADDRESS,
    MAX_PER_EMAIL,
    MAX_PER_PAIR,
    WINDOW_MS,
    Attempt,
    count_attempt,
)
from agentjobs.organizations.users import User
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from tests.support.users import (
    ORIGIN,
    PASSWORD,
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


async def ada_of(database: Database, organization_id: str) -> User:
    ada = await member(database, organization_id, "ada@example.com")
    await set_password(database, ada.id, PASSWORD)
    return ada


async def sign_in(db: Database, email: str, password: str, address: str = "192.0.2.7") -> str:
    return await sign_in_with_password(db, SETTINGS, email, password, Origin(address, "Browser"))


async def test_the_right_password_starts_a_session_and_is_audited(
    database: Database,
) -> None:
    acme = await organization(database, "acme")
    ada = await ada_of(database, acme)
    before = await start_session(database, SETTINGS, ada.id, ORIGIN)
    token = await sign_in_with_password(
        database, SETTINGS, " ADA@Example.com ", PASSWORD, ORIGIN, replacing=before
    )
    assert await find_viewer(database, SETTINGS, before) is None
    viewer = await find_viewer(database, SETTINGS, token)
    assert viewer is not None
    assert viewer.user_id == ada.id
    (entry,) = await list_entries(database, acme, AuditFilter(action="user.signed_in"), limit=9)
    assert (entry.actor_id, entry.address, entry.details) == (
        ada.id,
        "192.0.2.7",
        {"how": "password"},
    )


async def test_every_failed_sign_in_has_the_same_message(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    acme = await organization(database, "acme")
    await ada_of(database, acme)
    await member(database, acme, "no-password@example.com")
    await create_user(database, "no-membership@example.com", password=PASSWORD)
    wrong = [
        ("ada@example.com", "not the password"),
        ("ada@example.com", ""),
        ("bob@example.com", PASSWORD),
        ("no-password@example.com", PASSWORD),
        ("no-password@example.com", ""),
        ("no-membership@example.com", PASSWORD),
        (PASSWORD, "ada@example.com"),
        ("a\0@example.com", PASSWORD),
        ("\udc80", PASSWORD),
    ]
    errors = set()
    with caplog.at_level(logging.INFO):
        for email, password in wrong:
            with pytest.raises(Problem) as caught:
                await sign_in(database, email, password)
            errors.add((caught.value.code, caught.value.message, caught.value.details))
    assert errors == {("sign_in_failed", "Incorrect email address or password.", None)}
    assert len(caplog.records) == len(wrong)
    assert PASSWORD not in caplog.text
    assert "example.com" not in caplog.text


async def test_a_hash_with_old_costs_is_replaced_at_sign_in(database: Database) -> None:
    ada = await ada_of(database, await organization(database, "acme"))
    cheap = PasswordHasher(time_cost=2, memory_cost=8, parallelism=1).hash(PASSWORD)
    await write(database, "UPDATE users SET password_hash = :hash", hash=cheap)
    await sign_in(database, ada.email, PASSWORD)
    row = await database.fetch_one("SELECT password_hash FROM users WHERE id = :id", id=ada.id)
    assert row is not None
    assert row["password_hash"] != cheap
    await sign_in(database, ada.email, PASSWORD)


async def test_a_sign_in_fails_if_the_password_changes_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await ada_of(database, await organization(database, "acme"))

    async def right_but_late(hashed: str | None, password: str) -> bool:
        await set_password(database, ada.id, "another password")
        return True

    monkeypatch.setattr("agentjobs.organizations.sign_in.verify_password", right_but_late)
    assert await problem_of(sign_in(database, ada.email, PASSWORD)) == "sign_in_failed"
    assert await list_sessions(database, ada.id) == []


@pytest.mark.parametrize("email", ["ada@example.com", "nobody@example.com"])
async def test_after_ten_failures_even_the_right_password_is_refused(
    database: Database, email: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ada_of(database, await organization(database, "acme"))
    looked_at = []

    async def wrong(hashed: str | None, password: str) -> bool:
        looked_at.append(password)
        return False

    monkeypatch.setattr("agentjobs.organizations.sign_in.verify_password", wrong)
    for number in range(MAX_PER_PAIR):
        spelling = email.upper() if number % 2 else f" {email}"
        assert await problem_of(sign_in(database, spelling, "a guess")) == "sign_in_failed"
    with pytest.raises(Problem) as caught:
        await sign_in(database, email, PASSWORD)
    assert caught.value.code == "too_many_attempts"
    assert 0 < (caught.value.retry_after_seconds or 0) <= WINDOW_MS // 1000
    assert len(looked_at) == MAX_PER_PAIR
    assert email not in await stored_text(database, "sign_in_failures")


async def failures(database: Database, subject: str | None) -> int:
    row = await database.fetch_one(
        "SELECT failures FROM sign_in_failures WHERE subject = :subject", subject=subject
    )
    return 0 if row is None else row["failures"]


async def test_guesses_from_one_network_do_not_lock_out_other_networks(database: Database) -> None:
    """The limit affects neither the user at another address nor other users at this address."""
    ada = await ada_of(database, await organization(database, "acme"))
    guess = Attempt(ada.email, "203.0.113.1")
    for _ in range(MAX_PER_PAIR):
        await count_attempt(database, guess)
    for _ in range(5):
        assert await problem_of(count_attempt(database, guess)) == "too_many_attempts"
    assert await failures(database, guess.email_subject) == MAX_PER_PAIR
    assert await failures(database, guess.address_subject) == MAX_PER_PAIR
    assert await sign_in(database, ada.email, PASSWORD, "192.0.2.7")
    await count_attempt(database, Attempt("bob@example.com", "203.0.113.1"))


async def test_an_email_address_may_fail_a_hundred_times_from_all_networks_together(
    database: Database,
) -> None:
    ada = await ada_of(database, await organization(database, "acme"))
    for number in range(3):
        await count_attempt(database, Attempt(ada.email, f"203.0.113.{number}"))
    subject = Attempt(ada.email, None).email_subject
    assert await failures(database, subject) == 3
    await write(
        database,
        "UPDATE sign_in_failures SET failures = :most WHERE subject = :subject",
        subject=subject,
        most=MAX_PER_EMAIL,
    )
    attempt = sign_in(database, ada.email, PASSWORD, "192.0.2.7")
    assert await problem_of(attempt) == "too_many_attempts"
    # The operator sets a new password.
    await set_password(database, ada.id, PASSWORD)
    assert await sign_in(database, ada.email, PASSWORD, "192.0.2.7")
    assert await failures(database, Attempt(ada.email, "203.0.113.0").pair_subject) == 0


async def test_parallel_guesses_cannot_exceed_the_limit(
    database: Database, database_url: str
) -> None:
    other_database = await open_database(database_url, migrate=False)
    try:
        outcomes = await asyncio.gather(
            *(
                count_attempt(db, Attempt("ada@example.com", "192.0.2.7"))
                for _ in range(2 * MAX_PER_PAIR)
                for db in (database, other_database)
            ),
            return_exceptions=True,
        )
    finally:
        await other_database.close()
    assert outcomes.count(None) == MAX_PER_PAIR
    codes = {each.code for each in outcomes if isinstance(each, Problem)}
    assert codes == {"too_many_attempts"}


async def test_a_successful_sign_in_clears_its_own_failures_only(
    database: Database,
) -> None:
    ada = await ada_of(database, await organization(database, "acme"))
    await count_attempt(database, Attempt(ada.email, "192.0.2.7"))
    await count_attempt(database, Attempt("bob@example.com", "192.0.2.7"))
    await sign_in(database, ada.email, PASSWORD)
    rows = await database.fetch_all("SELECT subject, failures FROM sign_in_failures")
    bob = Attempt("bob@example.com", "192.0.2.7")
    assert {row["subject"]: row["failures"] for row in rows} == {
        bob.email_subject: 1,
        bob.pair_subject: 1,
        # Attempts for ada from other addresses count here as well, so they stay.
        Attempt(ada.email, None).email_subject: 1,
        "address:192.0.2.7": 2,
    }


async def test_a_network_may_fail_a_hundred_times_for_all_users_together(
    database: Database,
) -> None:
    await count_attempt(database, Attempt("first@example.com", "2001:db8::1"))
    await write(
        database,
        "UPDATE sign_in_failures SET failures = :most WHERE subject LIKE 'address:%'",
        most=MAX_PER_ADDRESS,
    )
    await count_attempt(database, Attempt("other@example.com", "2001:db8:0:1::1"))
    before = await stored_text(database, "sign_in_failures")
    attempt = count_attempt(database, Attempt("third@example.com", "2001:db8::2"))
    assert await problem_of(attempt) == "too_many_attempts"
    # Refused attempts neither count against the user nor fill the store.
    assert await stored_text(database, "sign_in_failures") == before


@pytest.mark.parametrize(
    ("age_ms", "is_free"),
    # The database's clock may differ from this one by some milliseconds.
    [(WINDOW_MS - 60_000, False), (WINDOW_MS + 1_000, True)],
)
async def test_the_failure_count_restarts_after_fifteen_minutes(
    database: Database, age_ms: int, is_free: bool
) -> None:
    attempt = Attempt("ada@example.com", "192.0.2.7")
    await count_attempt(database, attempt)
    await write(
        database,
        "UPDATE sign_in_failures SET failures = 99, since = :since",
        since=now_ms() - age_ms,
    )
    pruned = await prune_sign_ins(database, now_ms() - 5_000, idle_hours=1, session_days=1)
    assert pruned == 0
    if is_free:
        await count_attempt(database, attempt)
    else:
        assert await problem_of(count_attempt(database, attempt)) == "too_many_attempts"
    later = now_ms() + WINDOW_MS + 1_000
    assert await prune_sign_ins(database, later, idle_hours=1, session_days=1) == 3


async def test_a_failure_count_from_the_future_locks_no_user_out(database: Database) -> None:
    attempt = Attempt("ada@example.com", "192.0.2.7")
    await count_attempt(database, attempt)
    await write(
        database,
        "UPDATE sign_in_failures SET failures = 99, since = :since",
        since=now_ms() + 10 * WINDOW_MS,
    )
    await count_attempt(database, attempt)


async def test_a_link_signs_in_once(database: Database) -> None:
    acme = await organization(database, "acme")
    ada = await member(database, acme, "ada@example.com")
    link = await create_link(database, ada.id)
    assert link.startswith("ajl_")
    assert link not in await stored_text(database, "sign_in_links")
    token = await use_link(database, SETTINGS, link, ORIGIN)
    viewer = await find_viewer(database, SETTINGS, token)
    assert viewer is not None
    assert viewer.user_id == ada.id
    (entry,) = await list_entries(database, acme, AuditFilter(action="user.signed_in"), limit=9)
    assert (entry.actor, entry.details) == (ada.email, {"how": "link"})
    for wrong in (link, link[:-1], "", "\0", "\udc80"):
        assert await problem_of(use_link(database, SETTINGS, wrong, ORIGIN)) == "link_not_valid"


async def test_only_one_of_two_concurrent_uses_of_a_link_succeeds(
    database: Database, database_url: str
) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    other_database = await open_database(database_url, migrate=False)
    try:
        for round_number in range(1, 6):
            link = await create_link(database, ada.id)
            outcomes = await asyncio.gather(
                *(
                    use_link(db, SETTINGS, link, ORIGIN)
                    for db in (database, other_database, database, other_database)
                ),
                return_exceptions=True,
            )
            codes = [each.code for each in outcomes if isinstance(each, Problem)]
            assert codes == ["link_not_valid"] * 3
            assert len(await list_sessions(database, ada.id)) == round_number
    finally:
        await other_database.close()


async def test_a_link_expires_after_ten_minutes_and_is_pruned(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    link = await create_link(database, ada.id)
    (row,) = await database.fetch_all("SELECT expires_at - created_at AS life FROM sign_in_links")
    assert row["life"] == 600_000
    await write(database, "UPDATE sign_in_links SET expires_at = :now", now=now_ms() - 60_000)
    assert await problem_of(use_link(database, SETTINGS, link, ORIGIN)) == "link_not_valid"
    assert await prune_sign_ins(database, now_ms(), idle_hours=1, session_days=1) == 1
    assert await database.fetch_all("SELECT hash FROM sign_in_links") == []


async def test_a_link_can_be_revoked_and_is_only_for_members(database: Database) -> None:
    ada = await member(database, await organization(database, "acme"), "ada@example.com")
    link = await create_link(database, ada.id)
    await revoke_link(database, link)
    assert await problem_of(use_link(database, SETTINGS, link, ORIGIN)) == "link_not_valid"
    nobody = await create_user(database, "bob@example.com")
    for user_id in (nobody.id, "usr_0"):
        assert await problem_of(create_link(database, user_id)) == "no_membership"


async def test_a_malformed_link_token_causes_no_write(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def transact(*_: object, **__: object) -> None:
        raise AssertionError("a transaction")

    monkeypatch.setattr(database, "transact", transact)
    for wrong in ("", "ajl_", "ajl_" + "0" * 38, "x" * 5_000):
        assert await problem_of(use_link(database, SETTINGS, wrong, ORIGIN)) == "link_not_valid"
