"""/jobs/new: the choices of the form, and its values after an error."""

import msgspec

from tests.support.jobs import insert_repo
from tests.support.users import write


async def new_job(dashboard, **values):
    page = await dashboard.member.open("/jobs/new")
    return await dashboard.member.send(page, "/jobs", **values)


async def created_job(dashboard):
    row = await dashboard.db.fetch_one("SELECT * FROM jobs")
    return None if row is None else dict(row)


async def test_a_job_is_created_and_its_page_is_shown(dashboard):
    page = await new_job(
        dashboard,
        repo="acme/shop",
        agent="fixer",
        prompt="Fix\r\nthe price",
        ticket_id="SHOP-7",
        title="A title",
        base_branch="main",
        reviewers="ada, grace ,",
        timeout_seconds="60",
        max_cost_usd="2.5",
        draft="on",
        priority="high",
        labels=" team = pay\r\n\r\nlink=https://x.example/?a=b \r\nempty=",
        more='{"depth": 2}',
    )
    job = await created_job(dashboard)
    assert page.path == f"/jobs/{job['id']}"
    assert "by Member" in page.text
    assert job["ticket_id"] == "SHOP-7"
    assert msgspec.json.decode(job["labels"]) == {
        "team": "pay",
        "link": "https://x.example/?a=b",
        "empty": "",
    }
    assert "/jobs?label=team%3Dpay" in page.links
    assert msgspec.json.decode(job["config_override"]) == {
        "prompt": "Fix\nthe price",
        "title": "A title",
        "base_branch": "main",
        "reviewers": ["ada", "grace"],
        "timeout_seconds": 60,
        "max_cost_usd": 2.5,
        "draft": True,
        "priority": "high",
        "depth": 2,
    }


async def test_empty_fields_are_not_part_of_the_request(dashboard):
    await new_job(dashboard, repo="acme/shop", agent="fixer", prompt=" \r\n ", priority="normal")
    job = await created_job(dashboard)
    assert job["config_override"] == "{}"
    assert job["ticket_id"] is None
    assert job["labels"] is None


REFUSED_FIELDS = [
    ("timeout_seconds", "soon", "must be a whole number"),
    ("timeout_seconds", "0", "must be at least 1"),
    ("max_cost_usd", "a lot", "must be an amount"),
    ("max_cost_usd", "nan", "must be greater than 0"),
    ("max_cost_usd", "inf", "must be at most 1000000"),
    ("more", "[1]", "must be a JSON object"),
    ("more", "{", "must be a JSON object"),
    ("more", "[" * 5_000, "must be a JSON object"),
    ("more", '{"a": ' * 65 + "1" + "}" * 65, "must be a JSON object"),
    ("more", '{"a": ["\\u0000"]}', "must not contain null characters"),
    ("base_branch", "a..b", "must be the name of a branch"),
    ("title", "x" * 300, "must be at most 200 characters"),
    ("ticket_id", "x" * 5_000, "255 characters"),
    ("reviewers", ",".join("abcdefghijklmnopqrstuvwxyz"), "at most 20 items"),
    ("labels", "team", "must be lines such as team=payments"),
    ("labels", "a=1\nb=2\na=2", "must not have two values for a"),
    ("labels", "a b=1", "must have a key of at most 63"),
    ("labels", "=1", "must have a key of at most 63"),
    ("labels", "\n".join(f"k{number}=1" for number in range(17)), "must have at most 16 entries"),
    ("repo", "acme/nowhere", "is not connected"),
    ("repo", "other/shop", "is not connected"),
    ("agent", "nobody", "agent"),
]


async def test_a_rejected_job_keeps_the_entered_values(dashboard, subtests):
    for field, text, message in REFUSED_FIELDS:
        with subtests.test(f"{field}: {message}"):
            typed = {"repo": "acme/shop", "agent": "fixer", "prompt": "A long text", field: text}
            page = await new_job(dashboard, **typed)
            assert page.status in {400, 422}
            assert message in page.text
            form = page.form("/jobs")
            assert form.value("prompt") == "A long text"
            if field not in {"repo", "agent"}:
                assert form.value(field) == text
            assert await created_job(dashboard) is None


async def test_the_form_is_filled_in_from_the_query_string(dashboard):
    page = await dashboard.member.open("/jobs/new?repo=acme/shop&agent=pro-fixer&prompt=Do+it")
    form = page.form("/jobs")
    assert (form.value("repo"), form.value("agent")) == ("acme/shop", "pro-fixer")
    assert form.value("prompt") == "Do it"


async def test_unavailable_choices_show_the_reason(dashboard):
    await write(dashboard.db, "UPDATE organizations SET plan = 'free'")
    organization = dashboard.caller.organization_id
    await dashboard.db.transact(insert_repo, organization, "acme/big", "indexing")
    page = await dashboard.member.open("/jobs/new")
    assert "pro-fixer" not in page.form("/jobs").choices["agent"]
    assert "(requires the pro plan)" in page.text
    assert "acme/big" not in page.form("/jobs").choices["repo"]
    assert "(still indexing)" in page.text
    assert "No worker can run these agents right now" in page.text
    assert "acme/shop" in page.form("/jobs").choices["repo"]
    assert "other/shop" not in page.html


async def test_without_a_repository_the_page_links_to_connecting_one(dashboard):
    await write(dashboard.db, "UPDATE repos SET disconnected_at = 1")
    page = await dashboard.member.open("/jobs/new")
    assert "No repositories connected" in page.text
    assert "/repos" in page.links
    assert not page.has_form("/jobs")


async def test_an_agent_that_a_worker_can_run_is_selected(sample_dashboard):
    """No worker can run the first agent by name."""
    agents = msgspec.json.encode(["pro-fixer"]).decode()
    await write(sample_dashboard.db, "UPDATE workers SET agents = :agents", agents=agents)
    page = await sample_dashboard.member.open("/jobs/new")
    assert page.form("/jobs").choices["agent"][0] != "pro-fixer"
    assert page.form("/jobs").value("agent") == "pro-fixer"


async def test_all_faults_of_a_form_are_shown_at_once(dashboard):
    member = dashboard.member
    page = await member.open("/jobs/new")
    values = {"timeout_seconds": "soon", "max_cost_usd": "-3", "labels": "team", "more": "["}
    page = await member.send(page, "/jobs", repo="acme/shop", agent="fixer", **values)
    assert page.status == 422
    for text in ("must be a whole number", "must be greater than 0", "team=payments", "JSON"):
        assert text in page.text, text
