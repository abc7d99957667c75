"""The trackers of organizations and their tickets, on both stores."""

import base64
from pathlib import Path

import pytest

from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import create_organization, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.http.client import ApiError, RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs.store.database import Database, Transaction
from agentjobs.tickets.protocol import ResultLink, TicketNotFound, TrackerUnavailable
from agentjobs.tickets.resolve import TicketQuery, Tickets
from agentjobs.tickets.trackers import (
    NewTracker,
    add_tracker,
    find_tracker,
    list_trackers,
    open_tracker,
    record_check,
    remove_tracker,
    replace_token,
    set_link_back,
)
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.jobs import insert_repo
from tests.support.memory_issues import MemoryIssues

TOKEN = "jira-token-" + "x1" * 10
ISSUES = NewTracker(kind="issues", link_back=True)
JIRA = NewTracker(kind="jira", url="https://jira.example.com", token=TOKEN)
LINK = ResultLink("job_1", "A title", "https://git.example.com/pull/9")


@pytest.fixture
def keys(tmp_path: Path) -> SealingKeys:
    return SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")


@pytest.fixture
async def acme(database: Database) -> str:
    for name in ("acme", "other"):
        await create_organization(database, Plans(DEFAULT_PLANS), name, "free")
    return (await find_organization(database, "acme")).id


@pytest.fixture
def platform() -> MemoryIssues:
    return MemoryIssues()


@pytest.fixture
def tickets(database: Database, keys: SealingKeys, platform: MemoryIssues) -> Tickets:
    # No test sends requests, so no session is needed.
    return Tickets(database, keys, None, platform)  # type: ignore[arg-type]


def ticket_query(acme: str, ticket_id: str, connection_id: str | None = "fcn_1") -> TicketQuery:
    return TicketQuery(
        organization_id=acme,
        ticket_id=ticket_id,
        full_name="acme/shop",
        connection_id=connection_id,
    )


def retry_budget() -> RetryBudget:
    return RetryBudget(0)


async def test_a_token_is_encrypted_and_opens_only_for_its_tracker(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    added = await add_tracker(database, keys, "acme", JIRA)
    assert await open_tracker(database, keys, added.id) == (added, TOKEN)
    assert await list_trackers(database, "acme") == [added]
    assert await list_trackers(database, "other") == []
    with pytest.raises(Problem, match="trackers list --org other"):
        await find_tracker(database, "other", added.id)
    (row,) = await database.fetch_all("SELECT * FROM trackers")
    assert TOKEN.encode() not in bytes(row["sealed"])
    assert TOKEN not in repr(added) + repr(JIRA)

    other = await find_organization(database, "other")
    await database.transact(_give_all_to, other.id)
    with pytest.raises(Problem, match="jira cannot be decrypted") as problem:
        await open_tracker(database, keys, added.id)
    assert problem.value.code == "sealed_value_damaged"


async def test_changes_and_the_removal_of_a_tracker_are_audited(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    added = await add_tracker(database, keys, "acme", JIRA)
    issues = await add_tracker(database, keys, "acme", ISSUES)
    for again in (JIRA, ISSUES):
        with pytest.raises(Problem) as problem:
            await add_tracker(database, keys, "acme", again)
        assert problem.value.code == "name_taken"
    await add_tracker(database, keys, "other", JIRA)
    with pytest.raises(Problem, match="replace the token of that connection"):
        await replace_token(database, keys, "acme", "issues", TOKEN)

    await record_check(database, added.id, "expired\nyesterday")
    assert (await find_tracker(database, "acme", "jira")).error == "expired yesterday"
    replaced = await replace_token(database, keys, "acme", "jira", "another-token")
    assert (replaced.error, replaced.checked_at) == (None, None)
    opened = await open_tracker(database, keys, added.id)
    assert opened is not None
    assert opened[1] == "another-token"
    assert (await set_link_back(database, "acme", "jira", True)).link_back
    assert (await find_tracker(database, "acme", added.id)).link_back

    await remove_tracker(database, "acme", "jira")
    assert await list_trackers(database, "acme") == [issues]
    assert await open_tracker(database, keys, added.id) is None
    row = await database.fetch_one("SELECT sealed FROM trackers WHERE id = :id", id=added.id)
    assert row is not None
    assert row["sealed"] is None
    assert (await add_tracker(database, keys, "acme", JIRA)).id != added.id

    entries = await list_entries(database, acme, AuditFilter(action="tracker"), limit=20)
    assert [entry.action.removeprefix("tracker.") for entry in reversed(entries)] == [
        *("added", "added", "token_replaced", "changed", "removed", "added")
    ]
    assert TOKEN not in repr(entries)


async def test_without_a_tracker_for_the_repository_nothing_is_looked_up(
    database: Database, keys: SealingKeys, acme: str, tickets: Tickets, platform: MemoryIssues
) -> None:
    await add_tracker(database, keys, "other", ISSUES)
    assert await tickets.find(ticket_query(acme, "12"), retry_budget()) is None
    await add_tracker(database, keys, "acme", ISSUES)
    # A repository of the platform `local` has no issues.
    assert await tickets.find(ticket_query(acme, "12", None), retry_budget()) is None
    assert platform.requested_connections == []


async def test_an_issue_is_found_and_gets_a_link_to_the_pull_request(
    database: Database, keys: SealingKeys, acme: str, tickets: Tickets, platform: MemoryIssues
) -> None:
    await add_tracker(database, keys, "acme", ISSUES)
    ticket = await tickets.find(ticket_query(acme, "#12"), retry_budget())
    assert ticket is not None
    assert ticket.ticket.id == "acme/shop#12"
    assert (ticket.ticket.title, ticket.ticket.text) == ("The cart is empty", "Please mend it.")
    assert ticket.ticket.labels == ("bug",)
    assert (ticket.tracker, ticket.link_back) == ("issues", True)
    other_ticket = await tickets.find(ticket_query(acme, "acme/notes#1"), retry_budget())
    assert other_ticket is not None
    assert other_ticket.ticket.title == "Elsewhere"
    assert set(platform.requested_connections) == {"fcn_1"}

    with pytest.raises(PlatformError, match="not in a connected repository"):
        await tickets.link_back(ticket, LINK, retry_budget())
    await database.transact(insert_repo, acme, "acme/shop", "ready")
    await database.transact(connect_all, "fcn_1")
    assert await tickets.link_back(ticket, LINK, retry_budget())
    ((full_name, number, text),) = platform.comments
    assert (full_name, number) == ("acme/shop", 12)
    assert text.split("\n") == [
        "<!-- agentjobs -->",
        "A pull request was opened for this issue: https://git.example.com/pull/9",
    ]
    await set_link_back(database, "acme", "issues", False)
    assert not await tickets.link_back(ticket, LINK, retry_budget())
    await remove_tracker(database, "acme", "issues")
    assert not await tickets.link_back(ticket, LINK, retry_budget())
    assert len(platform.comments) == 1


async def connect_all(tx: Transaction, connection_id: str) -> None:
    await tx.execute("UPDATE repos SET connection_id = :id, external_id = '1'", id=connection_id)


async def test_an_error_about_a_missing_ticket_names_the_trackers(
    database: Database, keys: SealingKeys, acme: str, tickets: Tickets, platform: MemoryIssues
) -> None:
    await add_tracker(database, keys, "acme", ISSUES)
    with pytest.raises(TicketNotFound, match=r"'#13' was not found\. issues does not have it"):
        await tickets.find(ticket_query(acme, "#13"), retry_budget())
    with pytest.raises(TicketNotFound, match=r"does not match .*issues: #12 or"):
        await tickets.find(ticket_query(acme, "SHOP-17\u202e"), retry_budget())
    platform.error = PlatformError("the permission “Issues: read” is missing", "denied")
    with pytest.raises(TicketNotFound, match="issues: the permission"):
        await tickets.find(ticket_query(acme, "12"), retry_budget())


async def test_an_unavailable_tracker_is_another_error_than_a_missing_ticket(
    database: Database, keys: SealingKeys, acme: str, tickets: Tickets, platform: MemoryIssues
) -> None:
    await add_tracker(database, keys, "acme", ISSUES)
    platform.error = PlatformError("it is out of order", "away")
    with pytest.raises(TrackerUnavailable, match="issues: it is out of order") as error:
        await tickets.find(ticket_query(acme, "12"), retry_budget())
    platform.requested_connections.clear()
    with pytest.raises(TrackerUnavailable, match="did not respond at the last attempt"):
        await tickets.find(ticket_query(acme, "12"), retry_budget(), {error.value.key})
    assert platform.requested_connections == []


async def test_a_rate_limit_of_a_tracker_says_how_long_to_wait(
    database: Database, keys: SealingKeys, acme: str, tickets: Tickets, platform: MemoryIssues
) -> None:
    await add_tracker(database, keys, "acme", ISSUES)
    platform.error = ApiError("rate limit", "away", retry_after_seconds=60.0)
    with pytest.raises(TrackerUnavailable) as error:
        await tickets.find(ticket_query(acme, "12"), retry_budget())
    assert error.value.retry_after_seconds == 60.0


async def _give_all_to(tx: Transaction, organization_id: str) -> None:
    await tx.execute("UPDATE trackers SET organization_id = :id", id=organization_id)
