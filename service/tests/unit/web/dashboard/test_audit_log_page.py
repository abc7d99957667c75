"""Settings, audit log: descriptions of entries, filters, pagination and the CSV export."""

import csv
import io
import re
from typing import Any

import pytest

from agentjobs.organizations.audit import Actor, Entry, write
from agentjobs.store.database import Transaction
from agentjobs.web.dashboard.settings.audit_log import csv_export
from agentjobs.web.dashboard.settings.audit_log import page as audit_log
from agentjobs.web.dashboard.settings.audit_log.text import (
    GROUPS,
    describe_action,
    describe_details,
)
from agentjobs_runtime.clock import DAY_MS, iso_utc, now_ms
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.conftest import Dashboard
from tests.support.paths import SERVICE

PATH = "/settings/audit-log"
# What the text of an action begins with, in each form of writing an entry.
SUBJECT = re.compile(
    r"\b(?:audit_entry|entry\w*|Entry|audit\.record)\("
    r"\s*(?:[\w.]+(?:\([^()]*\))?,\s*)*(?:action=)?f?\"([a-z_]+)\."
)
ANNA = Actor("user", "Anna", "usr_1", "192.0.2.7")


async def add_entry(
    dashboard: Dashboard,
    action: str = "secret.set",
    target: str = "KEY",
    actor: Actor = ANNA,
    **details: Any,
) -> None:
    entry = Entry(actor, action, target, details)
    await dashboard.db.transact(write, dashboard.caller.organization_id, entry)


async def forget(tx: Transaction) -> None:
    await tx.execute("DELETE FROM audit_log")


@pytest.fixture
async def quiet_dashboard(dashboard: Dashboard) -> Dashboard:
    """A dashboard with an empty audit log."""
    await dashboard.db.transact(forget)
    return dashboard


async def rows_of(dashboard: Dashboard, query: str = "") -> list[list[str]]:
    response = await dashboard.admin.get(f"{PATH}?format=csv{query}")
    assert response.status_code == 200
    return list(csv.reader(io.StringIO(response.text, newline="")))


async def test_an_entry_shows_actor_action_and_address(dashboard: Dashboard) -> None:
    await add_entry(dashboard, "api_key.created", "CI", scope="jobs", git_write=False, until=None)
    page = await dashboard.admin.open(PATH)
    assert "Anna user API key created: CI 3 details" in page.text
    assert "scope jobs git write no until none" in page.text
    assert "192.0.2.7" in page.text


async def test_an_action_without_a_description_is_shown_by_name(dashboard: Dashboard) -> None:
    await add_entry(dashboard, "moon.landed", "Eagle")
    assert "moon.landed: Eagle" in (await dashboard.admin.open(PATH)).text


async def test_an_empty_audit_log_explains_what_is_recorded(quiet_dashboard: Dashboard) -> None:
    page = await quiet_dashboard.admin.open(PATH)
    assert "No entries yet" in page.text
    assert not any("format=csv" in link for link in page.links)


async def test_entries_are_filtered_by_actor_and_kind(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    await add_entry(dashboard, "secret.set", "ONE")
    await add_entry(dashboard, "secret.removed", "TWO", Actor("operator", "root"))
    await add_entry(dashboard, "webhook.added", "THREE")
    page = await dashboard.admin.open(PATH)
    assert "secret" in page.form(PATH).choices["action"]
    secrets = await dashboard.admin.open(f"{PATH}?action=secret")
    assert ("ONE" in secrets.text, "TWO" in secrets.text, "THREE" in secrets.text) == (1, 1, 0)
    assert secrets.form(PATH).value("action") == "secret"
    anna = await dashboard.admin.send(secrets, PATH, actor="Anna")
    assert ("ONE" in anna.text, "TWO" in anna.text) == (True, False)
    anonymous = await dashboard.admin.send(page, PATH, actor="An")
    assert "No entries match these filters" in anonymous.text
    one_action = await dashboard.admin.open(f"{PATH}?action=secret.removed")
    assert ("ONE" in one_action.text, "TWO" in one_action.text) == (False, True)
    assert one_action.form(PATH).value("action") == "secret.removed"


async def test_actors_with_the_same_name_are_distinguished(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    mallory, browser = await dashboard.add_user(
        "mallory@acme.example", dashboard.caller.organization_id, "member"
    )
    page = await browser.send(await browser.open("/account"), "/account/name", name="Admin")
    await browser.send(page, "/sign-out")
    await browser.close()
    await add_entry(dashboard, "secret.set", "BY-THE-REAL-ONE", Actor("user", "Admin", "usr_2"))
    page = await dashboard.admin.open(PATH)
    assert "Mallory mallory@acme.example user User renamed: mallory@acme.example" in page.text
    assert "from Mallory to Admin" in page.text
    assert "Admin mallory@acme.example user User signed out: mallory@acme.example" in page.text
    # The name matches both actors; the email and the link on the name match one.
    assert "BY-THE-REAL-ONE" in (await dashboard.admin.send(page, PATH, actor="Admin")).text
    link = f"{PATH}?actor_id={mallory.id}"
    assert link in page.links
    for filtered_page in (
        await dashboard.admin.open(link),
        await dashboard.admin.send(page, PATH, actor="Mallory@acme.example"),
    ):
        assert "signed out: mallory@acme.example" in filtered_page.text
        assert "BY-THE-REAL-ONE" not in filtered_page.text
    filtered_page = await dashboard.admin.open(link)
    narrowed = await dashboard.admin.send(filtered_page, PATH, since="2999-01-01")
    assert "No entries match these filters" in narrowed.text
    assert mallory.id in narrowed.text
    assert f"{PATH}?since=2999-01-01" in narrowed.links
    head, *rows = await rows_of(dashboard, f"&actor_id={mallory.id}")
    assert {row[head.index("actor_email")] for row in rows} == {"mallory@acme.example"}
    assert len(rows) >= 2


async def test_date_filters_cover_whole_days_in_utc(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    await add_entry(dashboard, target="TODAY")
    days = [iso_utc(now_ms() + step * DAY_MS)[:10] for step in (-1, 0, 1)]
    for since, until, is_there in [
        (days[1], days[1], True),
        (days[0], days[2], True),
        (days[2], "", False),
        ("", days[0], False),
        ("0001-01-01", "9999-12-30", True),
    ]:
        page = await dashboard.admin.open(f"{PATH}?since={since}&until={until}")
        assert ("TODAY" in page.text) == is_there, (since, until)


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30", "1", PAYLOAD])
async def test_an_invalid_date_is_rejected_and_kept_in_the_form(
    dashboard: Dashboard, day: str
) -> None:
    page = await dashboard.admin.open(PATH, params={"since": day})
    assert page.status == 400
    assert "enter a date such as" in page.text
    assert page.form(PATH).value("since") == day
    assert page.is_safe()


async def test_invalid_query_parameters_do_not_fail(dashboard: Dashboard) -> None:
    odd = {"before": "\0", "action": "%';--", "actor": "\0", "actor_id": "' OR 1=1"}
    assert (await dashboard.admin.open(PATH, params=odd)).status == 200


async def test_pagination_shows_every_entry_once_and_keeps_the_filter(
    quiet_dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "_PAGE", 2)
    dashboard = quiet_dashboard
    for number in range(5):
        await add_entry(dashboard, target=f"<{number}>")
        await add_entry(dashboard, "webhook.added", target="noise")
    page = await dashboard.admin.open(f"{PATH}?action=secret")
    numbers = re.findall("<([0-9])>", page.text)
    while older := [link for link in page.links if "before=" in link]:
        page = await dashboard.admin.open(older[0])
        numbers += re.findall("<([0-9])>", page.text)
        assert "noise" not in page.text
        assert f"{PATH}?action=secret" in page.links
    assert numbers == ["4", "3", "2", "1", "0"]


async def test_the_csv_export_contains_the_filtered_entries(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    await add_entry(dashboard, target='a "quoted", name\nin two lines', count=2)
    await add_entry(dashboard, "webhook.added", "noise")
    page = await dashboard.admin.open(f"{PATH}?action=secret")
    [link] = [link for link in page.links if "format=csv" in link]
    response = await dashboard.admin.get(link)
    assert response.headers["content-type"].startswith("text/csv")
    name = f"audit-log-acme-{iso_utc(now_ms())[:10]}.csv"
    assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert response.text.count("\r\n") == 2
    head, row = csv.reader(io.StringIO(response.text, newline=""))
    entry = dict(zip(head, row, strict=True))
    assert entry["target"] == 'a "quoted", name\nin two lines'
    assert entry["details"] == '{"count":2}'
    assert (entry["actor"], entry["actor_id"], entry["address"]) == ("Anna", "usr_1", "192.0.2.7")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "  ="])
async def test_no_cell_of_the_csv_export_is_a_formula(
    quiet_dashboard: Dashboard, start: str
) -> None:
    formula = f"{start}cmd|' /C calc'!A0"
    await add_entry(quiet_dashboard, target=formula, actor=Actor("user", formula, formula, formula))
    _, row = await rows_of(quiet_dashboard)
    assert row.count(f"'{formula}") == 4
    assert formula not in row


async def test_the_csv_export_is_paginated_and_bounded(
    quiet_dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_export, "_PAGE", 2)
    for number in range(6):
        await add_entry(quiet_dashboard, target=str(number))
    targets = [row[6] for row in await rows_of(quiet_dashboard)]
    assert targets == ["target", "5", "4", "3", "2", "1", "0"]
    monkeypatch.setattr(csv_export, "MAX_ROWS", 3)
    assert [row[6] for row in await rows_of(quiet_dashboard)] == ["target", "5", "4", "3"]


async def test_admins_read_only_the_log_of_their_organization(dashboard: Dashboard) -> None:
    await add_entry(dashboard, target="of-acme-alone")
    for browser in (dashboard.member, dashboard.viewer):
        assert (await browser.get(PATH)).status_code == 403
        assert (await browser.get(f"{PATH}?format=csv")).status_code == 403
    assert "of-acme-alone" not in (await dashboard.outsider.open(PATH)).html
    assert "of-acme-alone" not in (await dashboard.outsider.get(f"{PATH}?format=csv")).text
    assert "of-acme-alone" in (await dashboard.admin.open(PATH)).text


async def test_hostile_texts_are_escaped(quiet_dashboard: Dashboard) -> None:
    hostile = Actor("user", PAYLOAD, PAYLOAD, PAYLOAD)
    await add_entry(
        quiet_dashboard, PAYLOAD, PAYLOAD, hostile, **{PAYLOAD: [PAYLOAD, "\u202eback"]}
    )
    page = await quiet_dashboard.admin.open(PATH)
    assert page.is_safe()
    assert page.text.count("alert(1)") >= 6
    assert "\u202e" not in page.html
    page = await quiet_dashboard.admin.open(PATH, params={"actor": PAYLOAD})
    assert page.is_safe()
    assert page.form(PATH).value("actor") == PAYLOAD


def test_every_action_that_the_service_writes_says_what_it_is_about() -> None:
    subjects = {
        subject for file in SERVICE.rglob("*.py") for subject in SUBJECT.findall(file.read_text())
    }
    assert {"api_key", "job", "organization", "user", "webhook"} <= subjects <= set(GROUPS)


def test_an_action_is_described_by_what_it_is_about() -> None:
    assert describe_action("pull.comment_resolved") == "Pull request comment resolved"


def test_details_are_described_in_text() -> None:
    details = {"git_write": True, "events": ["a", "b"], "none_of": [], "n": 3, "map": {"a": 1}}
    assert describe_details(details) == [
        ("git write", "yes"),
        ("events", "a, b"),
        ("none of", "none"),
        ("n", "3"),
        ("map", '{"a":1}'),
    ]
