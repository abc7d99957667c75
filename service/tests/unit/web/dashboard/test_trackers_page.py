"""Settings, Trackers: the sources of tickets."""

import asyncio

import pytest

from agentjobs.tickets.trackers import list_trackers, open_tracker
from agentjobs.web.dashboard.settings import platform_access
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.page_safety import safety_faults
from service.tests.unit.web.dashboard.platform_data import ACCEPTED, JiraDouble, use_jira_double
from tests.support.users import write

HERE = "/settings/trackers"
JIRA = {"url": "https://acme.atlassian.net", "account": "ada@acme.example", "token": ACCEPTED}


@pytest.fixture(autouse=True)
def _jira(monkeypatch):
    use_jira_double(monkeypatch)


@pytest.fixture
async def jira(dashboard):
    admin = dashboard.admin
    page = await admin.send(await admin.open(HERE), "/jira", **JIRA)
    assert "as Agent Jobs" in page.text
    (tracker,) = await list_trackers(dashboard.db, "acme")
    return tracker


async def test_without_trackers_the_page_explains_them(dashboard):
    page = await dashboard.member.open(HERE)
    assert "No trackers" in page.text
    assert "An admin can add" in page.text
    assert not page.has_form("/jira")


async def test_an_issue_tracker_is_added_once_and_can_link_back(dashboard):
    admin = dashboard.admin
    page = await admin.send(await admin.open(HERE), "/issues", link_back="yes")
    (tracker,) = await list_trackers(dashboard.db, "acme")
    assert (tracker.kind, tracker.link_back) == ("issues", True)
    assert "through each repository's platform connection" in page.text
    assert not page.has_form("/issues")
    assert not page.has_form("/check")
    page = await admin.send(page, "/link-back")
    assert "will no longer be linked on their tickets" in page.text
    page = await admin.send(page, "/link-back")
    assert (await list_trackers(dashboard.db, "acme"))[0].link_back
    csrf = page.form("/link-back").value("csrf")
    repeated = await admin.post(f"{HERE}/issues", [("csrf", csrf)])
    assert repeated.status == 409
    assert "already configured" in repeated.text
    page = await admin.post(f"{HERE}/{tracker.id}/token", [("csrf", csrf), ("token", "x")])
    assert "replace the token of that connection" in page.text
    page = await admin.post(f"{HERE}/{tracker.id}/check", [("csrf", csrf)])
    assert "Issues use the platform connections" in page.text
    page = await admin.send(page, "/remove")
    assert "issues was removed" in page.text
    log = await admin.open("/settings/audit-log")
    for text in ("Tracker added", "Tracker changed", "Tracker removed"):
        assert text in log.text


async def test_a_jira_tracker_is_added_and_its_token_is_never_shown(dashboard, jira):
    assert (jira.url, jira.account, jira.flavour) == (JIRA["url"], JIRA["account"], "cloud")
    for browser in (dashboard.admin, dashboard.member):
        page = await browser.open(HERE)
        assert ACCEPTED not in page.html
        for text in ("Jira Cloud", JIRA["account"], "connected", "ABC-123"):
            assert text in page.text
    opened = await open_tracker(dashboard.db, dashboard.context.keys, jira.id)
    assert opened[1] == ACCEPTED


@pytest.mark.parametrize(
    ("values", "text", "field"),
    [
        ({"url": ""}, "Enter Jira's address", "url"),
        ({"url": "http://jira.example.com"}, "must start with https://", "url"),
        ({"account": ""}, "needs the email address", "account"),
        ({"url": "https://jira.example.com"}, "needs no account", "account"),
        ({"flavour": "server"}, "Choose a Jira edition", None),
        ({"name": "No Name"}, "is not a valid name", "name"),
        ({"token": ""}, "The token is empty", "token"),
        ({"token": "a-secret"}, "does not accept the token", "token"),
    ],
)
async def test_a_rejected_form_keeps_the_entered_values_but_no_token(
    dashboard, values, text, field
):
    admin = dashboard.admin
    typed = {**JIRA, "name": "desk", "link_back": "yes", **values}
    page = await admin.send(await admin.open(HERE), "/jira", **typed)
    assert 400 <= page.status < 500
    assert text in page.text
    form = page.form("/jira")
    assert form.value("token") == ""
    for name in ("url", "account", "name", "link_back"):
        assert form.value(name) == typed[name]
    assert "a-secret" not in page.html
    wrong = [tags.get("name") for _, tags in page.tags if tags.get("aria-invalid")]
    assert wrong == ([] if field is None else [field])
    assert await list_trackers(dashboard.db, "acme") == []


async def test_a_new_token_is_saved_only_if_jira_accepts_it(dashboard, jira):
    admin = dashboard.admin
    page = await admin.send(await admin.open(HERE), "/token", token="a-secret")
    assert page.status == 422
    assert "a-secret" not in page.html
    opened = await open_tracker(dashboard.db, dashboard.context.keys, jira.id)
    assert opened[1] == ACCEPTED
    page = await admin.send(page, "/token", token=ACCEPTED)
    assert "The new token of Agent Jobs is in use" in page.text
    page = await admin.send(page, "/check")
    assert "as Agent Jobs" in page.text


async def test_a_jira_that_does_not_respond_times_out(dashboard, jira, monkeypatch):
    async def hangs(self):
        await asyncio.Event().wait()

    monkeypatch.setattr(JiraDouble, "check", hangs)
    monkeypatch.setattr(platform_access, "MAX_SECONDS", 0.01)
    admin = dashboard.admin
    page = await admin.open(HERE)
    page = await admin.send(page, "/check")
    assert page.status == 503
    assert "jira did not respond within" in page.text
    assert "did not respond" in (await dashboard.member.open(HERE)).text


async def test_untrusted_tracker_text_is_escaped(dashboard, jira):
    texts = dict.fromkeys(("name", "account", "error"), f"x{PAYLOAD}")
    await write(
        dashboard.db,
        "UPDATE trackers SET name = :name, account = :account, error = :error, url = :url",
        **texts,
        url="javascript:alert(1)",
    )
    page = await dashboard.admin.open(HERE)
    assert page.text.count(f"x{PAYLOAD}") >= 3
    assert safety_faults(page) == []


async def test_a_tracker_of_another_organization_is_not_found(dashboard, jira):
    csrf = (await dashboard.outsider.open("/account")).form("/sign-out").value("csrf")
    for end in ("check", "link-back", "token", "remove"):
        page = await dashboard.outsider.post(f"{HERE}/{jira.id}/{end}", [("csrf", csrf)])
        assert page.status == 404
        assert "There is no such tracker" in page.text
    assert jira.url not in (await dashboard.outsider.open(HERE)).text
