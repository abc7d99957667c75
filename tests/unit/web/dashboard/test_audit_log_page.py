"""Settings, audit log: entries in plain words, filters, pages and the file."""

import ast
import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

import agentjobs
from agentjobs.clock import DAY_MS, iso_utc, now_ms
from agentjobs.organizations.audit import Actor, Entry, write
from agentjobs.store.database import Transaction
from agentjobs.web.dashboard.settings.audit_log import csv_export
from agentjobs.web.dashboard.settings.audit_log import page as audit_log
from agentjobs.web.dashboard.settings.audit_log.text import ACTIONS, GROUPS, describe_details
from tests.unit.web.dashboard.audit_actions import actions_in
from tests.unit.web.dashboard.browser import PAYLOAD
from tests.unit.web.dashboard.conftest import Dashboard

PATH = "/settings/audit-log"
ANNA = Actor("user", "Anna", "usr_1", "192.0.2.7")


async def told(
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
    """Nothing of what made it is in the log."""
    await dashboard.db.transact(forget)
    return dashboard


async def rows_of(dashboard: Dashboard, query: str = "") -> list[list[str]]:
    answer = await dashboard.admin.get(f"{PATH}?format=csv{query}")
    assert answer.status_code == 200
    return list(csv.reader(io.StringIO(answer.text, newline="")))


async def test_an_entry_says_who_did_what_from_where(dashboard: Dashboard) -> None:
    await told(dashboard, "api_key.created", "CI", scope="jobs", git_write=False, until=None)
    page = await dashboard.admin.open(PATH)
    assert "Anna user created an API key: CI 3 details" in page.text
    assert "scope jobs git write no until none" in page.text
    assert "192.0.2.7" in page.text


async def test_an_action_nobody_gave_words_is_shown_as_it_is(dashboard: Dashboard) -> None:
    await told(dashboard, "moon.landed", "Eagle")
    assert "moon.landed: Eagle" in (await dashboard.admin.open(PATH)).text


async def test_without_an_entry_the_page_says_what_will_come(quiet_dashboard: Dashboard) -> None:
    page = await quiet_dashboard.admin.open(PATH)
    assert "No entries yet" in page.text
    assert not any("format=csv" in link for link in page.links)


async def test_filters_narrow_by_actor_and_kind(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    await told(dashboard, "secret.set", "ONE")
    await told(dashboard, "secret.removed", "TWO", Actor("operator", "root"))
    await told(dashboard, "webhook.added", "THREE")
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


async def test_a_borrowed_name_does_not_hide_who_it_was(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    mallory, browser = await dashboard.add_user(
        "mallory@acme.example", dashboard.caller.organization_id, "member"
    )
    page = await browser.send(await browser.open("/account"), "/account/name", name="Admin")
    await browser.send(page, "/sign-out")
    await browser.close()
    await told(dashboard, "secret.set", "BY-THE-REAL-ONE", Actor("user", "Admin", "usr_2"))
    page = await dashboard.admin.open(PATH)
    assert "Mallory mallory@acme.example user changed a name: mallory@acme.example" in page.text
    assert "from Mallory to Admin" in page.text
    assert "Admin mallory@acme.example user signed out: mallory@acme.example" in page.text
    # By the name both are found; by the address, and the link on the name, one is.
    assert "BY-THE-REAL-ONE" in (await dashboard.admin.send(page, PATH, actor="Admin")).text
    link = f"{PATH}?actor_id={mallory.id}"
    assert link in page.links
    for alone in (
        await dashboard.admin.open(link),
        await dashboard.admin.send(page, PATH, actor="Mallory@acme.example"),
    ):
        assert "signed out: mallory@acme.example" in alone.text
        assert "BY-THE-REAL-ONE" not in alone.text
    alone = await dashboard.admin.open(link)
    narrowed = await dashboard.admin.send(alone, PATH, since="2999-01-01")
    assert "No entries match these filters" in narrowed.text
    assert mallory.id in narrowed.text
    assert f"{PATH}?since=2999-01-01" in narrowed.links
    head, *rows = await rows_of(dashboard, f"&actor_id={mallory.id}")
    assert {row[head.index("actor_email")] for row in rows} == {"mallory@acme.example"}
    assert len(rows) >= 2


async def test_days_are_whole_and_in_utc(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    await told(dashboard, target="TODAY")
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
async def test_a_day_that_is_none_is_refused_and_kept(dashboard: Dashboard, day: str) -> None:
    page = await dashboard.admin.open(PATH, params={"since": day})
    assert page.status == 400
    assert "write a date like" in page.text
    assert page.form(PATH).value("since") == day
    assert page.is_safe()


async def test_odd_addresses_do_no_harm(dashboard: Dashboard) -> None:
    odd = {"before": "\0", "action": "%';--", "actor": "\0", "actor_id": "' OR 1=1"}
    assert (await dashboard.admin.open(PATH, params=odd)).status == 200


async def test_pages_hold_every_entry_once_and_keep_the_filter(
    quiet_dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "_PAGE", 2)
    dashboard = quiet_dashboard
    for number in range(5):
        await told(dashboard, target=f"<{number}>")
        await told(dashboard, "webhook.added", target="noise")
    page = await dashboard.admin.open(f"{PATH}?action=secret")
    seen = re.findall("<([0-9])>", page.text)
    while older := [link for link in page.links if "before=" in link]:
        page = await dashboard.admin.open(older[0])
        seen += re.findall("<([0-9])>", page.text)
        assert "noise" not in page.text
        assert f"{PATH}?action=secret" in page.links
    assert seen == ["4", "3", "2", "1", "0"]


async def test_the_file_holds_what_the_filter_lets_through(quiet_dashboard: Dashboard) -> None:
    dashboard = quiet_dashboard
    await told(dashboard, target='a "quoted", name\nin two lines', count=2)
    await told(dashboard, "webhook.added", "noise")
    page = await dashboard.admin.open(f"{PATH}?action=secret")
    [link] = [link for link in page.links if "format=csv" in link]
    answer = await dashboard.admin.get(link)
    assert answer.headers["content-type"].startswith("text/csv")
    name = f"audit-log-acme-{iso_utc(now_ms())[:10]}.csv"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.text.count("\r\n") == 2
    head, row = csv.reader(io.StringIO(answer.text, newline=""))
    entry = dict(zip(head, row, strict=True))
    assert entry["target"] == 'a "quoted", name\nin two lines'
    assert entry["details"] == '{"count":2}'
    assert (entry["actor"], entry["actor_id"], entry["address"]) == ("Anna", "usr_1", "192.0.2.7")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "  ="])
async def test_no_cell_of_the_file_is_a_formula(quiet_dashboard: Dashboard, start: str) -> None:
    formula = f"{start}cmd|' /C calc'!A0"
    await told(quiet_dashboard, target=formula, actor=Actor("user", formula, formula, formula))
    _, row = await rows_of(quiet_dashboard)
    assert row.count(f"'{formula}") == 4
    assert formula not in row


async def test_the_file_is_read_in_pages_and_has_an_end(
    quiet_dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_export, "_PAGE", 2)
    for number in range(6):
        await told(quiet_dashboard, target=str(number))
    targets = [row[6] for row in await rows_of(quiet_dashboard)]
    assert targets == ["target", "5", "4", "3", "2", "1", "0"]
    monkeypatch.setattr(csv_export, "MAX_ROWS", 3)
    assert [row[6] for row in await rows_of(quiet_dashboard)] == ["target", "5", "4", "3"]


async def test_only_admins_read_and_only_their_own(dashboard: Dashboard) -> None:
    await told(dashboard, target="of-acme-alone")
    for browser in (dashboard.member, dashboard.viewer):
        assert (await browser.get(PATH)).status_code == 403
        assert (await browser.get(f"{PATH}?format=csv")).status_code == 403
    assert "of-acme-alone" not in (await dashboard.outsider.open(PATH)).html
    assert "of-acme-alone" not in (await dashboard.outsider.get(f"{PATH}?format=csv")).text
    assert "of-acme-alone" in (await dashboard.admin.open(PATH)).text


async def test_hostile_texts_stay_text(quiet_dashboard: Dashboard) -> None:
    hostile = Actor("user", PAYLOAD, PAYLOAD, PAYLOAD)
    await told(quiet_dashboard, PAYLOAD, PAYLOAD, hostile, **{PAYLOAD: [PAYLOAD, "\u202eback"]})
    page = await quiet_dashboard.admin.open(PATH)
    assert page.is_safe()
    assert page.text.count("alert(1)") >= 6
    assert "\u202e" not in page.html
    page = await quiet_dashboard.admin.open(PATH, params={"actor": PAYLOAD})
    assert page.is_safe()
    assert page.form(PATH).value("actor") == PAYLOAD


def test_every_action_the_service_writes_has_words() -> None:
    source = Path(agentjobs.__file__).parent
    written = {
        action
        for file in source.rglob("*.py")
        for action in actions_in(ast.parse(file.read_text()))
    }
    # One of each way to say it.
    known = {"api_key.created", "webhook.disabled", "job.created", "webhook.redelivered"}
    assert known <= written
    assert written == set(ACTIONS)
    assert {action.partition(".")[0] for action in ACTIONS} == set(GROUPS)


@pytest.mark.parametrize(
    "line",
    [
        "entry('a.b', x)",
        "audit.entry(\n  'a.b', x)",
        "Entry(who(), 'a.b', x, {})",
        "audit.Entry(actor=who, action='a.b', target=x, details={})",
        "entry_for_person('a.b')",
        "entry(A, x)",
        "entry('a.b' if x else A, x)",
    ],
)
def test_an_action_is_found_however_it_is_written(line: str) -> None:
    head = "from agentjobs.organizations import audit\nA = 'a.b'\n"
    assert actions_in(ast.parse(head + line)) == {"a.b"}


def test_an_action_that_cannot_be_read_is_noticed() -> None:
    head = "from agentjobs.organizations import audit\n"
    with pytest.raises(AssertionError, match="line 2"):
        actions_in(ast.parse(f"{head}entry('a.' + x, y)"))


def test_details_are_told_in_words() -> None:
    details = {"git_write": True, "events": ["a", "b"], "none_of": [], "n": 3, "map": {"a": 1}}
    assert describe_details(details) == [
        ("git write", "yes"),
        ("events", "a, b"),
        ("none of", "none"),
        ("n", "3"),
        ("map", '{"a":1}'),
    ]
