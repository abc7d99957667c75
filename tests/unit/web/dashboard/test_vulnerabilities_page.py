"""/vulnerabilities and /vulnerabilities/{id}: what is known, where, and what is done about it."""

import pytest

from agentjobs.identifiers import new_id
from tests.support.users import write
from tests.unit.web.dashboard.conftest import open_sample_dashboard
from tests.unit.web.dashboard.index_data import ADVISORY, RELATIVE

HERE = "/vulnerabilities"


async def test_the_list_shows_the_worst_first_with_its_fix_and_the_job(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    assert page.text.index(ADVISORY) < page.text.index("GHSA-odd")
    for words in (
        *("Leaks a header", "requests 2.30.0 PyPI · direct", "2.31.0", "Nobody fixed it"),
        *("Critical 1 critical", "High 0 high"),
    ):
        assert words in page.text, words
    assert f"/jobs/{sample_dashboard.samples['acme'].failed_job}" in page.links
    assert f"{HERE}/{ADVISORY}" in page.links
    assert "other/shop" not in page.html
    assert any(given.get("aria-current") for _, given in page.tags if given.get("href") == HERE)


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
async def test_the_list_is_narrowed(sample_dashboard, query, expected):
    page = await sample_dashboard.viewer.open(f"{HERE}?{query}")
    shown = [one for one in (ADVISORY, "GHSA-odd") if f"{HERE}/{one}" in page.links]
    assert shown == expected
    if not expected:
        assert "No vulnerabilities match these filters" in page.text


async def test_many_are_shown_page_by_page(sample_dashboard):
    for number in range(60):
        await write(
            sample_dashboard.db,
            "INSERT INTO findings SELECT :id, organization_id, repo_id, manifest, ecosystem,"
            " name || :number, version, direct, advisory_id, advisory_ids, severity, score,"
            " severity_source, summary, fix_version, fix_reason, first_seen_at FROM findings"
            " WHERE severity = 'unknown' AND name = 'urllib3' AND organization_id = :org",
            id=new_id("fnd"),
            number=number,
            org=sample_dashboard.caller.organization_id,
        )
    page = await sample_dashboard.viewer.open(f"{HERE}?severity=unknown")
    (more,) = {link for link in page.links if "after=" in link}
    rest = await sample_dashboard.viewer.open(more)
    rows = [page.html.count("<tr>"), rest.html.count("<tr>")]
    # The heads of two tables on each.
    assert sum(rows) - 2 * 2 - 2 * 2 == 61
    assert f"{HERE}?severity=unknown" in rest.links


async def test_a_repository_without_any_is_told_apart_from_a_filter_that_fits_nothing(
    sample_dashboard,
):
    await write(sample_dashboard.db, "DELETE FROM findings")
    page = await sample_dashboard.viewer.open(f"{HERE}?repo=acme/shop")
    assert "No known vulnerabilities in acme/shop" in page.text
    page = await sample_dashboard.viewer.open(f"{HERE}?repo=acme/shop&severity=low")
    assert "No vulnerabilities match these filters" in page.text


async def test_members_are_led_to_a_job_for_what_nobody_fixes_yet(sample_dashboard):
    here, fix = f"{HERE}?repo=acme/shop", "/jobs/new?repo=acme/shop&agent=cve-fixer"
    assert fix not in (await sample_dashboard.member.open(here)).links
    await write(sample_dashboard.db, "DELETE FROM auto_triggers")
    assert fix in (await sample_dashboard.member.open(here)).links
    assert fix not in (await sample_dashboard.viewer.open(here)).links
    assert fix not in (await sample_dashboard.member.open(HERE)).links


@pytest.mark.parametrize("name", [ADVISORY, "CVE-2026-1", "cve-2026-1"])
async def test_a_search_for_an_advisory_that_is_not_here_leads_to_what_is_known(
    sample_dashboard, name
):
    await write(sample_dashboard.db, "DELETE FROM findings")
    page = await sample_dashboard.viewer.open(f"{HERE}?q={name}")
    assert "No affected repositories" in page.text
    (link,) = {link for link in page.links if link.startswith(f"{HERE}/")}
    assert (await sample_dashboard.viewer.open(link)).status == 200


async def test_without_a_source_the_page_says_how_to_set_one_up(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM advisory_feeds")
    page = await sample_dashboard.viewer.open(HERE)
    assert "The operator sets AGENTJOBS_ADVISORIES_SOURCE" in page.text
    await write(sample_dashboard.db, "DELETE FROM findings")
    assert "Scanning is not configured" in (await sample_dashboard.viewer.open(HERE)).text


async def test_a_source_that_was_just_set_up_says_that_it_is_fetched(sample_template, tmp_path):
    async with open_sample_dashboard(
        sample_template, tmp_path, advisories_source="/srv/osv"
    ) as dashboard:
        await write(dashboard.db, "DELETE FROM advisory_feeds")
        await write(dashboard.db, "DELETE FROM findings")
        page = await dashboard.viewer.open(HERE)
        assert "being fetched for the first time" in page.text
        assert "No advisories yet" in page.text
        assert "/srv/osv" not in page.html


async def test_how_fresh_advisories_are_is_told_and_errors_to_administrators(sample_dashboard):
    page = await sample_dashboard.member.open(HERE)
    assert "4 advisories, last refreshed" in page.text
    assert "1 ecosystem could not be refreshed. The previous advisories stay in use" in page.text
    assert "the disk is away" not in page.text
    assert "the disk is away" in (await sample_dashboard.admin.open(HERE)).text
    assert "/srv/osv" not in page.html


@pytest.mark.parametrize("name", [ADVISORY, RELATIVE, "CVE-2026-1"])
async def test_an_advisory_is_shown_by_each_of_its_names(sample_dashboard, name):
    page = await sample_dashboard.viewer.open(f"{HERE}/{name}")
    for words in (
        *("Leaks a header", "critical 9.8 CVSS 3.1 of GHSA-aaaa-bbbb-cccc", "Published 2026-01-01"),
        *(f"Also known as CVE-2026-1 , {RELATIVE}", "< 2.31.0 or 1.0-odd"),
    ):
        assert words in page.text, words
    assert f"https://osv.dev/vulnerability/{ADVISORY}" in page.links


async def test_an_advisory_shows_who_here_is_affected_and_nobody_else(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}/{ADVISORY}")
    assert "requests 2.30.0 requirements.txt 2.31.0" in page.text
    assert "other/shop" not in page.html
    await write(sample_dashboard.db, "DELETE FROM findings")
    page = await sample_dashboard.viewer.open(f"{HERE}/{ADVISORY}")
    assert "No affected repositories" in page.text


async def test_a_finding_whose_record_is_gone_is_still_explained(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{HERE}/GHSA-odd")
    assert page.status == 200
    assert "< 2.31" in page.text
    assert not [link for link in page.links if link.startswith("javascript")]


@pytest.mark.parametrize("name", ["GHSA-od", "CVE-2026", "GHSA-nowhere", "%00", "a%2Fb"])
async def test_what_nobody_knows_is_not_found(sample_dashboard, name):
    page = await sample_dashboard.viewer.open(f"{HERE}/{name}")
    assert page.status == 404


async def test_a_job_says_which_advisories_caused_it(sample_dashboard):
    page = await sample_dashboard.viewer.open(
        f"/jobs/{sample_dashboard.samples['acme'].failed_job}"
    )
    assert "requests 2.30.0 in requirements.txt is vulnerable; 2.31.0 fixes it:" in page.text
    assert f"{HERE}/{ADVISORY}" in page.links
    other = await sample_dashboard.viewer.open(
        f"/jobs/{sample_dashboard.samples['acme'].finished_job}"
    )
    assert "is vulnerable" not in other.text


async def test_a_job_that_nobody_asked_for_is_called_after_what_it_fixes(sample_dashboard):
    job = sample_dashboard.samples["acme"].failed_job
    await write(
        sample_dashboard.db, "UPDATE jobs SET config_override = '{}' WHERE id = :id", id=job
    )
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    assert page.text.startswith("requests to 2.31.0 in acme/shop · agentjobs")
