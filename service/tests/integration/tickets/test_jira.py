"""Jira, Cloud and Data Center, by a server that holds every request to its description."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs.store.opening import open_database
from agentjobs.tickets.jira import JiraTracker
from agentjobs.tickets.protocol import ResultLink, Ticket, TicketNotFound
from agentjobs.tickets.resolve import TicketQuery, Tickets
from agentjobs.tickets.trackers import NewTracker, add_tracker, find_tracker
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.forge_servers import faults
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.jira import ACCOUNT, JiraServer

LOOPBACK = AllowList.parse(["127.0.0.1/32"])
LINK = ResultLink("job_1", "Fill the\ncart", "https://git.example.com/acme/shop/pull/9")
TEXT = "h2. It is _always_ so."


@pytest.fixture(params=["cloud", "data-center"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JiraServer]:
    is_cloud = request.param == "cloud"
    async with JiraServer(tmp_path / "jira", is_cloud=is_cloud).serving() as server:
        server.add_issue(
            "SHOP-17",
            summary="The cart is empty",
            description=TEXT,
            labels=["bug", "cart"],
            former_keys=("OLD-3",),
        )
        server.add_issue("SHOP-18", summary="", may_link=False)
        yield server


@pytest.fixture
async def session(server: JiraServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with new_session(LOOPBACK, str(server.authorities)) as session:
        yield session


class Waits:
    """RetryBudget that takes no time, and tells what was waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.retry_budget = RetryBudget(
            300, self.said.append, clock=self._clock, time_of_day=self._clock, sleep=self._sleep
        )

    def _clock(self) -> float:
        return self.now

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def jira(server: JiraServer, session: aiohttp.ClientSession, waits: Waits) -> JiraTracker:
    return JiraTracker(server.url, server.jira_account, server.token, session, waits.retry_budget)


def wrong_jira(server: JiraServer, session: aiohttp.ClientSession) -> JiraTracker:
    return JiraTracker(server.url, server.jira_account, "wrong-token", session, RetryBudget(0))


async def test_a_ticket_is_found_by_its_key_its_page_or_a_former_key(
    server: JiraServer, jira: JiraTracker
) -> None:
    expected = Ticket(
        id="SHOP-17",
        title="The cart is empty",
        text=TEXT,
        labels=("bug", "cart"),
        url=f"{server.url}/browse/SHOP-17",
    )
    for written in ("SHOP-17", "shop-17", f"{server.url}/browse/SHOP-17", "OLD-3"):
        assert await jira.find(written) == expected
    bare = await jira.find("SHOP-18")
    assert bare is not None
    assert (bare.title, bare.text, bare.labels) == ("SHOP-18", "", ())
    assert await jira.find("SHOP-19") is None
    assert await jira.find("#12") is None
    assert await jira.check() == (ACCOUNT if server.is_cloud else "bot")


async def test_a_token_with_scopes_goes_through_the_gateway_and_links_to_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.tickets.jira.GATEWAY_HOST", "127.0.0.1")
    server = JiraServer(tmp_path / "jira", is_cloud=True)
    monkeypatch.setattr(server, "api_path", "/ex/jira/11-22", raising=False)
    server.add_issue("SHOP-17")
    async with server.serving(), new_session(LOOPBACK, str(server.authorities)) as session:
        url = f"{server.url}/ex/jira/11-22"
        jira = JiraTracker(url, ACCOUNT, server.token, session, RetryBudget(0))
        ticket = await jira.find("SHOP-17")
    assert ticket is not None
    assert ticket.url == "https://acme.atlassian.net/browse/SHOP-17"


async def test_a_link_made_twice_is_one(server: JiraServer, jira: JiraTracker) -> None:
    ticket = await jira.find("SHOP-17")
    assert ticket is not None
    await jira.link_back(ticket, LINK)
    # The second time the answer is lost, so that it is made a third time.
    server.next(faults.cut(after=True, on="POST"))
    await jira.link_back(ticket, LINK)
    (link,) = server.issues[0].links.values()
    assert link["object"] == {"url": LINK.url, "title": "Fill the cart"}
    assert len([call for call in server.calls if call.name.startswith("POST")]) == 3


async def test_a_missing_permission_to_link_is_named(server: JiraServer, jira: JiraTracker) -> None:
    ticket = await jira.find("SHOP-18")
    assert ticket is not None
    with pytest.raises(PlatformError, match="Link issues") as error:
        await jira.link_back(ticket, LINK)
    assert error.value.fault == "denied"


async def test_a_wrong_token_is_another_error_than_a_missing_ticket(
    server: JiraServer, session: aiohttp.ClientSession
) -> None:
    jira = wrong_jira(server, session)
    for question in (jira.check(), jira.find("SHOP-17")):
        with pytest.raises(
            PlatformError, match="API token" if server.is_cloud else "personal"
        ) as no:
            await question
        assert no.value.fault == "unauthorized"
        assert "wrong-token" not in str(no.value)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (faults.web_page(401), "unauthorized", "does not accept"),
        (faults.web_page(403), "denied", "browser"),
        (faults.web_page(404), "unusable", "web page"),
        (faults.web_page(200), "unusable", "web page"),
        (faults.broken_json(), "unusable", "web page"),
        (faults.forbidden("No."), "denied", "Browse projects"),
        (faults.redirect_loop(), "unusable", "endlessly"),
        (
            Fault(status=302, raw=b"", headers={"Location": "https://sso.example.com/login"}),
            "unusable",
            "not followed",
        ),
        (Fault(status=200, raw=b'{"key": "../../x", "fields": {}}'), "unusable", "invalid key"),
        (Fault(status=200, raw=b'{"key": 7}'), "unusable", "unexpected response"),
        (Fault(status=200, raw=b"[" * 100_000), "unusable", "unexpected response"),
    ],
    ids=str,
)
async def test_an_invalid_response_has_a_clear_error(
    server: JiraServer, jira: JiraTracker, fault: Fault, kind: str, words: str
) -> None:
    server.next(fault)
    with pytest.raises(PlatformError, match=words) as error:
        await jira.find("SHOP-17")
    assert error.value.fault == kind


async def test_temporary_errors_are_retried_and_lasting_ones_reported(
    server: JiraServer, jira: JiraTracker, waits: Waits
) -> None:
    for fault in (faults.too_many(30), faults.server_error(503), faults.web_page()):
        server.next(fault)
    assert await jira.find("SHOP-17") is not None
    assert len(waits.said) == 3
    assert "rate limit" in waits.said[0]
    server.next(faults.server_error(times=None))
    with pytest.raises(PlatformError) as error:
        await jira.find("SHOP-17")
    assert error.value.fault == "away"


async def test_the_trackers_of_an_organization_are_searched_in_order(
    server: JiraServer, session: aiohttp.ClientSession, sqlite_url: str, tmp_path: Path
) -> None:
    """The first has lost its token: that stands with it, and does not keep the second from it."""
    db = await open_database(sqlite_url, migrate=False)
    keys = SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")
    organization = await create_organization(db, Plans(DEFAULT_PLANS), "acme", "free")
    shared: dict[str, Any] = {
        "kind": "jira",
        "url": server.url,
        "account": server.jira_account,
        "flavour": "cloud" if server.is_cloud else "data-center",
    }
    await add_tracker(db, keys, "acme", NewTracker(name="old", token="wrong-token", **shared))
    tickets = Tickets(db, keys, session, None)  # type: ignore[arg-type] # no platform is asked
    wanted = TicketQuery(
        organization_id=organization.id, ticket_id="SHOP-17", full_name="acme/shop"
    )
    with pytest.raises(TicketNotFound, match="old: Jira does not accept"):
        await tickets.find(wanted, RetryBudget(0))
    assert "does not accept" in ((await find_tracker(db, "acme", "old")).error or "")

    new = NewTracker(name="new", token=server.token, link_back=True, **shared)
    await add_tracker(db, keys, "acme", new)
    found = await tickets.find(wanted, RetryBudget(0))
    assert found is not None
    assert (found.tracker, found.ticket.id, found.link_back) == ("new", "SHOP-17", True)
    assert await tickets.link_back(found, LINK, RetryBudget(0))
    assert list(server.issues[0].links) == ["job_1"]
    await db.close()
