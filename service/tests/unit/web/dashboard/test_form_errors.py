"""Form errors use the labels of fields, are linked to them, and mention nothing for operators."""

import pytest

from tests.support.jobs import insert_repo
from tests.support.users import write

JOB = {"repo": "acme/shop", "agent": "fixer"}


def described(page, name):
    """What a screen reader announces: whether the field is invalid, and its description."""
    fields = {
        attributes.get("id"): attributes for _, attributes in page.tags if attributes.get("id")
    }
    field = fields[name]
    pointed = (field.get("aria-describedby") or "").split()
    assert all(field_id in fields for field_id in pointed), f"{name} points to nothing"
    return field.get("aria-invalid"), f"{name}-error" in pointed


REFUSED_FIELDS = [
    ("timeout_seconds", "soon", "Time limit in seconds must be a whole number"),
    ("timeout_seconds", "0", "Time limit in seconds must be at least 1"),
    (
        "timeout_seconds",
        "601",
        "Time limit in seconds must be at most 600, the agent's limit",
    ),
    ("max_cost_usd", "nan", "Cost limit in US dollars must be greater than 0"),
    (
        "max_cost_usd",
        "9",
        "Cost limit in US dollars must be at most 5.00, the organization's limit",
    ),
    ("base_branch", "a..b", "Base branch must be the name of a branch"),
    ("title", "x" * 300, "Pull request title must be at most 200 characters"),
    ("ticket_id", "x" * 300, "Ticket must be at most 255 characters"),
    ("reviewers", "a," * 30, "Reviewers must have at most 20 items"),
    ("labels", "team=" + "x" * 256, "Labels, team, must be at most 255 characters"),
    ("more", "{", "Agent settings must be a JSON object"),
    (
        "more",
        '{"auto_trigger_on_cve_severity": "big"}',
        "Agent settings, auto_trigger_on_cve_severity, must be one of",
    ),
    ("prompt", "x" * 17_000, "All settings combined must be at most"),
    ("repo", "acme/nowhere", "This repository is not connected to your organization"),
    ("repo", "acme/big", "try again when Repositories shows it as ready"),
    ("agent", "nobody", "This agent no longer exists"),
]


async def test_errors_of_a_job_use_the_labels_of_the_form(dashboard, subtests):
    await write(dashboard.db, "UPDATE organizations SET job_budget_nanousd = 5000000000")
    await dashboard.db.transact(
        insert_repo, dashboard.caller.organization_id, "acme/big", "indexing"
    )
    raw_names = ("config_override", "GET /", "see details", "max_cost_usd", "timeout_seconds")
    for field, text, message in REFUSED_FIELDS:
        with subtests.test(message):
            page = await dashboard.member.open("/jobs/new")
            assert described(page, field) == (None, False)
            page = await dashboard.member.send(page, "/jobs", **{**JOB, field: text})
            assert message in page.text
            assert [name for name in raw_names if name in page.text] == []
            marked = "more" if field == "prompt" else field
            assert described(page, marked) == ("true", True)


async def test_errors_of_retries_and_follow_ups_use_the_same_labels(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    await write(sample_dashboard.db, "UPDATE organizations SET job_budget_nanousd = 5000000000")
    await write(
        sample_dashboard.db,
        """UPDATE jobs SET config_override = '{"max_cost_usd": 9}' WHERE id = :id""",
        id=samples.finished_job,
    )
    page = await sample_dashboard.member.open(f"/jobs/{samples.finished_job}")
    repeated = await sample_dashboard.member.send(page, f"/jobs/{samples.finished_job}/again")
    assert (
        "Cost limit in US dollars must be at most 5.00, the organization's limit" in repeated.text
    )
    assert "max_cost_usd may" not in repeated.text
    more = await sample_dashboard.member.send(page, "/follow-up", prompt=" ")
    assert "What should the agent do next? must not be blank" in more.text


async def test_more_settings_are_expanded_when_the_query_string_sets_one(dashboard):
    def is_open(page):
        (details,) = [
            attributes
            for tag, attributes in page.tags
            if tag == "details" and attributes.get("class") != "menu"
        ]
        return "open" in details

    for query in ("", "?repo=acme/shop&agent=fixer&prompt=x&ticket_id=A-1", "?title=+"):
        assert not is_open(await dashboard.member.open(f"/jobs/new{query}")), query
    for name in ("title", "base_branch", "reviewers", "timeout_seconds", "max_cost_usd", "more"):
        page = await dashboard.member.open(f"/jobs/new?{name}=1")
        assert is_open(page), name
        assert page.form("/jobs").value(name) == "1"
    page = await dashboard.member.open("/jobs/new?draft=on")
    assert is_open(page)
    assert page.form("/jobs").value("draft") == "on"


async def test_the_error_for_a_repository_name_mentions_no_command_options(dashboard):
    page = await dashboard.admin.open("/repos")
    typed = {"address": "https://git.example/a/b.git", "name": "no name"}
    page = await dashboard.admin.send(page, "/repos", **typed)
    assert "Enter a name such as owner/name" in page.text
    assert "--name" not in page.text
    assert described(page, "name") == ("true", True)
    assert described(page, "address") == (None, False)


@pytest.mark.parametrize("url", ["https://127.0.0.1/x", "http://198.51.100.7/x"])
async def test_a_blocked_address_names_the_responsible_setting(dashboard, url):
    admin = dashboard.admin
    page = await admin.send(await admin.open("/settings/webhooks"), "/settings/webhooks", url=url)
    assert page.status == 400
    assert "can allow others with AGENTJOBS_WEBHOOKS_ALLOW" in page.text
    for term in ("Add it there", "start the service again", "agentjobs up"):
        assert term not in page.text


@pytest.mark.parametrize("day", ["yesterday", "2026-13-01", "2026-1-1", "2026-02-30"])
@pytest.mark.parametrize("path", ["/jobs", "/settings/audit-log"])
async def test_an_invalid_date_gets_the_same_error_on_every_page(sample_dashboard, path, day):
    for name, label in (("since", "From"), ("until", "To")):
        page = await sample_dashboard.admin.open(f"{path}?{name}={day}")
        assert page.status == 400
        assert f"{label}: enter a date such as 2026-01-31." in page.text
        assert page.form(path).value(name) == day


async def test_a_list_with_an_invalid_date_is_not_live(sample_dashboard):
    page = await sample_dashboard.viewer.open("/jobs?since=yesterday")
    assert not [attributes for _, attributes in page.tags if attributes.get("data-live")]
    assert (await sample_dashboard.viewer.get("/jobs/stream?since=yesterday")).status_code == 400


async def test_errors_about_deliveries_mention_no_command(sample_dashboard):
    admin, log_path = sample_dashboard.admin, "/settings/webhooks/delivery-log"
    for path in (f"{log_path}/dlv_{'0' * 26}", f"{log_path}/nonsense"):
        page = await admin.open(path)
        assert page.status == 404
        assert "There is no such delivery in the log" in page.text
        assert "agentjobs webhooks" not in page.text
    delivery = sample_dashboard.samples["acme"].delivery
    await write(
        sample_dashboard.db, "UPDATE deliveries SET event = 'ping' WHERE id = :id", id=delivery
    )
    csrf = (await admin.open("/account")).form("/sign-out").value("csrf")
    page = await admin.post(f"{log_path}/{delivery}/redeliver", [("csrf", csrf)])
    assert "A test cannot be redelivered" in page.text
    assert "agentjobs webhooks" not in page.text
