"""/vulnerabilities and /vulnerabilities/{id}: advisories, affected repositories and fixing jobs."""

from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_worker.agents.catalog import Catalog
from service.tests.unit.web.dashboard.conftest import open_sample_dashboard
from service.tests.unit.web.dashboard.event_streams import listen
from service.tests.unit.web.dashboard.index_data import ADVISORY, RELATIVE
from tests.support.jobs import an_agent
from tests.support.users import write

HERE = "/vulnerabilities"


async def test_the_list_shows_the_most_severe_first_with_fix_and_job(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    assert page.text.index(ADVISORY) < page.text.index("GHSA-odd")
    for text in (
        *("Leaks a header", "requests 2.30.0 PyPI · direct", "2.31.0 fixes 1", "Nobody fixed it"),
        "critical 1 unrated 1",
    ):
        assert text in page.text, text
    assert f"/jobs/{sample_dashboard.samples['acme'].failed_job}" in page.links
    assert f"{HERE}/{ADVISORY}" in page.links
    assert "other/shop" not in page.html
    assert any(
        attributes.get("aria-current")
        for _, attributes in page.tags
        if attributes.get("href") == HERE
    )


async def test_a_fix_of_an_open_pull_request_is_linked(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM auto_triggers")
    await write(
        sample_dashboard.db,
        "INSERT INTO proposed_fixes SELECT repo_id, manifest, ecosystem, name, fix_version, 7,"
        " 'https://github.test/acme/shop/pull/7' FROM findings WHERE fix_version IS NOT NULL"
        " GROUP BY repo_id, manifest, ecosystem, name, fix_version",
    )
    for path in (HERE, f"{HERE}/{ADVISORY}"):
        page = await sample_dashboard.viewer.open(path)
        assert "proposed in #7" in page.text
        assert "https://github.test/acme/shop/pull/7" in page.links
    page = await sample_dashboard.member.open(f"{HERE}?repo=acme/shop")
    assert "Start a fix job" not in page.text
    assert not fix_forms(page)


@pytest.mark.parametrize("state", ["open", "merged", "closed"])
async def test_the_state_of_the_pull_request_that_fixes_a_package_is_shown(sample_dashboard, state):
    samples = sample_dashboard.samples["acme"]
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET status = 'completed', pr_number = 1, pr_url = 'https://github.test/p/1'"
        " WHERE id = :id",
        id=samples.failed_job,
    )
    await write(
        sample_dashboard.db,
        "UPDATE pulls SET state = :state WHERE repo_id = :repo_id AND number = 1",
        state=state,
        repo_id=samples.repo_id,
    )
    for path in (HERE, f"{HERE}?group=advisory", f"{HERE}/{ADVISORY}"):
        page = await sample_dashboard.member.open(path)
        assert f"{state} #1 · job" in page.text, path
        assert f"/jobs/{samples.failed_job}" in page.links
        if "group" not in path:
            assert bool(fix_forms(page)) == (state != "open")


async def test_advisories_of_a_package_are_one_row(sample_dashboard):
    await add_copies(sample_dashboard, "requests", 3, {"advisory_id": "advisory_id || :number"})
    page = await sample_dashboard.viewer.open(HERE)
    assert f"Leaks a header {ADVISORY} and 3 more" in page.text
    assert "2.31.0 fixes 4" in page.text
    assert page.text.count("requests 2.30.0") == 1
    assert {f"{HERE}/{ADVISORY}{number}" for number in range(3)} <= set(page.links)
    page = await sample_dashboard.viewer.open(f"{HERE}?group=advisory")
    assert page.text.count("requests 2.30.0") == 4


async def test_members_start_a_job_that_fixes_one_package(sample_dashboard):
    sample_dashboard.harness.context.catalog = Catalog([an_agent("cve-fixer")])
    assert not fix_forms(await sample_dashboard.viewer.open(HERE))
    here = f"{HERE}?severity=critical&repo=acme%2Fshop"
    page = await sample_dashboard.member.open(here)
    twin = await sample_dashboard.member.open(f"{HERE}/{ADVISORY}")
    page = await sample_dashboard.member.send(page, "/fix")
    assert "Started a job that fixes the package" in page.text
    assert page.path == here
    assert "queued job" in page.text
    assert not fix_forms(page)
    row = await sample_dashboard.db.fetch_one(
        "SELECT j.cause, j.created_by_name FROM auto_triggers t JOIN jobs j ON j.id = t.job_id"
        " WHERE t.repo_id = :repo_id",
        repo_id=sample_dashboard.samples["acme"].repo_id,
    )
    assert '"package":"requests"' in row["cause"]
    page = await sample_dashboard.member.send(twin, "/fix")
    assert "already fixes requests" in page.text
    assert page.path == f"{HERE}/{ADVISORY}"


async def dismiss_page(dashboard, **query):
    finding = dashboard.samples["acme"].finding
    return await dashboard.member.open(f"{HERE}/packages/{finding}/dismiss?{urlencode(query)}")


async def test_members_dismiss_a_package_and_reopen_it(sample_dashboard):
    here = f"{HERE}?repo=acme%2Fshop"
    page = await sample_dashboard.member.open(here)
    (link,) = {link for link in page.links if sample_dashboard.samples["acme"].finding in link}
    assert f"{HERE}/packages/" not in (await sample_dashboard.viewer.open(here)).html
    page = await sample_dashboard.member.open(link)
    assert page.text.startswith("Dismiss requests")
    page = await sample_dashboard.member.send(
        page, "/dismiss", chosen=ADVISORY, reason="false_positive", note="Not <ours>"
    )
    assert "Dismissed requests in acme/shop." in page.text
    assert page.path == here
    assert "1 dismissed or snoozed" in page.text
    assert "critical 1" not in page.text
    assert f"{HERE}/{ADVISORY}" not in page.links
    overview = await sample_dashboard.member.open("/")
    assert "critical vulnerability" not in overview.text
    (decided,) = {link for link in page.links if "state=dismissed" in link}
    page = await sample_dashboard.member.open(decided)
    assert "dismissed false positive · " in page.text
    assert "Not <ours>" in page.text
    assert not fix_forms(page)
    advisory = await sample_dashboard.member.open(f"{HERE}/{ADVISORY}")
    assert "dismissed false positive · " in advisory.text
    page = await sample_dashboard.member.send(page, "/reopen")
    assert "Reopened requests in acme/shop." in page.text
    page = await sample_dashboard.member.send(advisory, "/reopen")
    assert "It is already open." in page.text
    assert page.path == f"{HERE}/{ADVISORY}"
    audit = await sample_dashboard.admin.open("/settings/audit-log?action=vulnerability")
    assert "Vulnerability dismissed" in audit.text
    assert "Vulnerability reopened" in audit.text


@pytest.mark.parametrize(
    ("period", "date", "days"), [("7", "", 7), ("90", "", 90), ("date", "2999-01-31", None)]
)
async def test_a_vulnerability_is_snoozed_until_a_time(sample_dashboard, period, date, days):
    page = await dismiss_page(sample_dashboard, advisory=ADVISORY)
    before = now_ms()
    page = await sample_dashboard.member.send(
        page, "/dismiss", chosen=ADVISORY, reason="fix_later", period=period, date=date
    )
    assert "Snoozed requests in acme/shop." in page.text
    assert page.path == f"{HERE}/{ADVISORY}"
    assert "snoozed until" in page.text
    row = await sample_dashboard.db.fetch_one("SELECT until FROM finding_decisions")
    if days:
        assert before <= row["until"] - days * DAY_MS <= now_ms()
    else:
        assert row["until"] == int(datetime(2999, 2, 1, tzinfo=UTC).timestamp()) * 1_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chosen": []}, "Select the advisories"),
        ({"reason": "lazy"}, "Reason must be one of"),
        ({"period": "date"}, "Enter the date"),
        ({"period": "date", "date": "tomorrow"}, "enter a date such as"),
        ({"period": "date", "date": "2020-01-01"}, "Until must be in the future"),
        ({"period": "1000"}, "Choose how long"),
        ({"note": "x" * 1_001}, "at most 1,000 characters"),
    ],
)
async def test_an_incomplete_dismissal_is_explained(sample_dashboard, fields, message):
    page = await dismiss_page(sample_dashboard)
    page = await sample_dashboard.member.send(page, "/dismiss", **fields)
    assert page.status in {400, 422}
    assert message in page.text
    assert not await sample_dashboard.db.fetch_all("SELECT * FROM finding_decisions")


async def test_only_chosen_advisories_are_dismissed(sample_dashboard):
    await add_copies(sample_dashboard, "requests", 2, {"advisory_id": "advisory_id || :number"})
    page = await dismiss_page(sample_dashboard, advisory=f"{ADVISORY}1")
    assert page.form("/dismiss").value("chosen") == f"{ADVISORY}1"
    page = await sample_dashboard.member.send(page, "/dismiss", reason="fix_later")
    page = await sample_dashboard.member.open(HERE)
    assert "2.31.0 fixes 2" in page.text
    page = await sample_dashboard.member.open(f"{HERE}?state=all")
    assert "2.31.0 fixes 3" in page.text
    assert page.has_form("/reopen")


async def test_a_package_with_very_many_advisories_is_dismissed_as_a_whole(sample_dashboard):
    await add_copies(sample_dashboard, "requests", 101, {"advisory_id": "advisory_id || :number"})
    page = await dismiss_page(sample_dashboard)
    assert "All 102 advisories of the package." in page.text
    await sample_dashboard.member.send(page, "/dismiss", reason="risk_accepted")
    page = await sample_dashboard.member.open(HERE)
    assert "102 dismissed or snoozed" in page.text


async def test_the_list_follows_jobs(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}?severity=critical")
    (live,) = {attributes["data-live"] for _, attributes in page.tags if "data-live" in attributes}
    assert live == f"{HERE}/stream?severity=critical"
    stream = await listen(sample_dashboard.app, sample_dashboard.viewer, live)
    assert b"Leaks a header" in stream.body
    assert b"GHSA-odd" not in stream.body
    page = await sample_dashboard.viewer.open(f"{HERE}?after=0000{new_id('fnd')}")
    assert not any("data-live" in attributes for _, attributes in page.tags)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("severity=critical", [ADVISORY]),
        ("severity=unknown", ["GHSA-odd"]),
        ("severity=low", []),
        ("severity=grave", [ADVISORY, "GHSA-odd"]),
        ("q=URLLIB", ["GHSA-odd"]),
        ("q=%25", []),
        ("repo=acme/shop", [ADVISORY, "GHSA-odd"]),
        ("repo=other/shop", []),
        ("after=nonsense", [ADVISORY, "GHSA-odd"]),
    ],
)
async def test_the_list_can_be_filtered(sample_dashboard, query, expected):
    page = await sample_dashboard.viewer.open(f"{HERE}?{query}")
    listed = [advisory for advisory in (ADVISORY, "GHSA-odd") if f"{HERE}/{advisory}" in page.links]
    assert listed == expected
    if not expected:
        assert "No vulnerabilities match these filters" in page.text


async def test_a_vulnerability_shows_whether_its_package_is_imported(sample_dashboard):
    await write(
        sample_dashboard.db,
        "UPDATE findings SET imported = 'no', managed_by = 'org.boot:bom:1'"
        " WHERE name = 'requests'",
    )
    advisory = f"{HERE}/{ADVISORY}"
    for path in (HERE, advisory):
        page = await sample_dashboard.viewer.open(path)
        assert "direct · not imported" in page.text
        assert "set by org.boot:bom:1" in page.text
    for state, is_listed in (("no", True), ("yes", False), ("odd", True)):
        page = await sample_dashboard.viewer.open(f"{HERE}?imported={state}")
        assert (advisory in page.links) == is_listed, state


async def test_vulnerabilities_in_fixtures_are_listed_apart(sample_dashboard):
    await write(
        sample_dashboard.db,
        "UPDATE findings SET fixture = TRUE, manifest = 'examples/requirements.txt'"
        " WHERE name = 'requests'",
    )
    advisory = f"{HERE}/{ADVISORY}"
    page = await sample_dashboard.viewer.open(HERE)
    assert "1 in fixtures" in page.text
    assert "critical 1" not in page.text
    assert advisory not in page.links
    for query, is_listed in (("files=fixtures", True), ("files=all", True), ("files=odd", False)):
        page = await sample_dashboard.viewer.open(f"{HERE}?{query}")
        assert (advisory in page.links) == is_listed, query
    repo_page = await sample_dashboard.viewer.open("/repos/acme/shop")
    assert "1 in fixtures" in repo_page.text
    page = await sample_dashboard.viewer.open(advisory)
    assert "examples/requirements.txt · fixture" in page.text
    assert "/repos/acme/shop/dependencies?q=requests&files=fixtures" in page.links


def fix_forms(page):
    return [form for form in page.forms if form.action.endswith("/fix")]


async def add_copies(dashboard, name, count, changes):
    """Findings like those of a package of acme; `changes` are SQL expressions with :number."""
    columns = [
        *("repo_id", "organization_id", "manifest", "ecosystem", "name", "version", "direct"),
        *("advisory_id", "advisory_ids", "severity", "score", "severity_source", "summary"),
        *("fix_version", "fix_reason", "first_seen_at"),
    ]
    values = ", ".join(changes.get(column, column) for column in columns)
    for number in range(count):
        await write(
            dashboard.db,
            f"INSERT INTO findings (id, {', '.join(columns)}) SELECT :id, {values} FROM findings"
            " WHERE name = :name AND organization_id = :org ORDER BY id LIMIT 1",
            id=new_id("fnd"),
            number=number,
            name=name,
            org=dashboard.caller.organization_id,
        )


@pytest.mark.parametrize("group", ["", "&group=advisory"])
async def test_long_lists_are_paginated(sample_dashboard, group):
    await add_copies(sample_dashboard, "urllib3", 60, {"name": "name || :number"})
    page = await sample_dashboard.viewer.open(f"{HERE}?severity=unknown{group}")
    (more,) = {link for link in page.links if "after=" in link}
    rest = await sample_dashboard.viewer.open(more)
    rows = [page.html.count("<tr>"), rest.html.count("<tr>")]
    # Each page has the headers of two tables.
    assert sum(rows) - 2 * 2 - 2 * 2 == 61
    assert f"{HERE}?severity=unknown{group}" in rest.links


async def test_no_vulnerabilities_and_no_matches_have_different_messages(
    sample_dashboard,
):
    await write(sample_dashboard.db, "DELETE FROM findings")
    page = await sample_dashboard.viewer.open(f"{HERE}?repo=acme/shop")
    assert "No known vulnerabilities in acme/shop" in page.text
    page = await sample_dashboard.viewer.open(f"{HERE}?repo=acme/shop&severity=low")
    assert "No vulnerabilities match these filters" in page.text


async def test_members_see_a_link_to_a_job_for_unfixed_vulnerabilities(sample_dashboard):
    path, fix = f"{HERE}?repo=acme/shop", "/jobs/new?repo=acme/shop&agent=cve-fixer"
    assert fix not in (await sample_dashboard.member.open(path)).links
    await write(sample_dashboard.db, "DELETE FROM auto_triggers")
    assert fix in (await sample_dashboard.member.open(path)).links
    assert fix not in (await sample_dashboard.viewer.open(path)).links
    assert fix not in (await sample_dashboard.member.open(HERE)).links


@pytest.mark.parametrize("name", [ADVISORY, "CVE-2026-1", "cve-2026-1"])
async def test_a_search_for_an_unrelated_advisory_links_to_its_page(sample_dashboard, name):
    await write(sample_dashboard.db, "DELETE FROM findings")
    page = await sample_dashboard.viewer.open(f"{HERE}?q={name}")
    assert "No affected repositories" in page.text
    (link,) = {link for link in page.links if link.startswith(f"{HERE}/")}
    assert (await sample_dashboard.viewer.open(link)).status == 200


async def test_without_an_advisory_source_the_page_explains_the_setup(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM advisory_feeds")
    page = await sample_dashboard.viewer.open(HERE)
    assert "The operator sets AGENTJOBS_ADVISORIES_SOURCE" in page.text
    await write(sample_dashboard.db, "DELETE FROM findings")
    assert "Scanning is not configured" in (await sample_dashboard.viewer.open(HERE)).text


async def test_a_new_advisory_source_is_shown_as_being_fetched(sample_template, tmp_path):
    async with open_sample_dashboard(
        sample_template, tmp_path, advisories_source="/srv/osv"
    ) as dashboard:
        await write(dashboard.db, "DELETE FROM advisory_feeds")
        await write(dashboard.db, "DELETE FROM findings")
        page = await dashboard.viewer.open(HERE)
        assert "being fetched for the first time" in page.text
        assert "No advisories yet" in page.text
        assert "/srv/osv" not in page.html


async def test_the_age_of_advisories_is_shown_and_errors_only_to_administrators(sample_dashboard):
    page = await sample_dashboard.member.open(HERE)
    assert "4 advisories, last refreshed" in page.text
    assert "1 ecosystem could not be refreshed. The previous advisories stay in use" in page.text
    assert "the disk is away" not in page.text
    assert "the disk is away" in (await sample_dashboard.admin.open(HERE)).text
    assert "/srv/osv" not in page.html


@pytest.mark.parametrize("name", [ADVISORY, RELATIVE, "CVE-2026-1"])
async def test_an_advisory_opens_under_each_of_its_names(sample_dashboard, name):
    page = await sample_dashboard.viewer.open(f"{HERE}/{name}")
    for text in (
        *("Leaks a header", "critical 9.8", "Rated by CVSS 3.1 of GHSA-aaaa-bbbb-cccc"),
        "Published 2026-01-01",
        *(f"also known as CVE-2026-1 , {RELATIVE}", "< 2.31.0 or 1.0-odd"),
        *("Attack vector network", "User interaction none", "Availability high"),
        *("Sends headers to others", "Weakness CWE-200", "Fix github.test/fix?a=1&b=2"),
    ):
        assert text in page.text, text
    assert page.text.startswith("Leaks a header · agentjobs")
    for link in (
        f"https://osv.dev/vulnerability/{ADVISORY}",
        "https://github.test/fix?a=1&b=2",
        "https://cwe.mitre.org/data/definitions/200.html",
    ):
        assert link in page.links
    assert not [link for link in page.links if link.startswith("javascript")]


async def test_an_advisory_says_when_it_has_no_description(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM advisory_texts")
    page = await sample_dashboard.viewer.open(f"{HERE}/{ADVISORY}")
    assert "The advisory has no description." in page.text


async def test_the_page_of_an_advisory_follows_jobs(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}/{ADVISORY}")
    (live,) = {attributes["data-live"] for _, attributes in page.tags if "data-live" in attributes}
    stream = await listen(sample_dashboard.app, sample_dashboard.viewer, live)
    assert "requests 2.30.0" in stream.parts()["vulnerabilities/affected"].text


async def test_an_advisory_shows_only_repositories_of_the_organization(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}/{ADVISORY}")
    assert "acme/shop requirements.txt requests 2.30.0 direct 2.31.0" in page.text
    assert "other/shop" not in page.html
    await write(sample_dashboard.db, "DELETE FROM findings")
    page = await sample_dashboard.viewer.open(f"{HERE}/{ADVISORY}")
    assert "No affected repositories" in page.text


async def test_a_finding_without_its_advisory_record_is_still_explained(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}/GHSA-odd")
    assert page.status == 200
    assert "< 2.31" in page.text
    assert not [link for link in page.links if link.startswith("javascript")]


@pytest.mark.parametrize(
    "name", ["GHSA-od", "CVE-2026", "GHSA-nowhere", "%00", "a%2Fb", "A" * 60_000]
)
async def test_an_unknown_advisory_is_not_found(sample_dashboard, name):
    page = await sample_dashboard.viewer.open(f"{HERE}/{name}")
    assert page.status == 404


async def test_a_job_shows_the_advisories_that_started_it(sample_dashboard):
    page = await sample_dashboard.viewer.open(
        f"/jobs/{sample_dashboard.samples['acme'].failed_job}"
    )
    assert "requests 2.30.0 in requirements.txt is vulnerable; 2.31.0 fixes it:" in page.text
    assert f"{HERE}/{ADVISORY}" in page.links
    other = await sample_dashboard.viewer.open(
        f"/jobs/{sample_dashboard.samples['acme'].finished_job}"
    )
    assert "is vulnerable" not in other.text


async def test_an_automatic_job_is_titled_after_its_fix(sample_dashboard):
    job = sample_dashboard.samples["acme"].failed_job
    await write(
        sample_dashboard.db, "UPDATE jobs SET config_override = '{}' WHERE id = :id", id=job
    )
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    assert page.text.startswith("Failed: Upgrade requests to 2.31.0 · agentjobs")
