"""/repos/{owner}/{name}/dependencies, and the packages on the repository's page."""

import pytest

from service.tests.unit.web.dashboard.event_streams import listen
from service.tests.unit.web.dashboard.index_data import ADVISORY, FIRST
from tests.support.repo_rows import write_repos
from tests.support.users import write

REPO = "/repos/acme/shop"
HERE = f"{REPO}/dependencies"


async def test_a_package_shows_its_dependents_vulnerabilities_and_fix(sample_dashboard):
    page = await sample_dashboard.viewer.open(HERE)
    for text in (
        "requests PyPI 2.30.0 the project >=2 requirements.txt critical 9.8",
        "urllib3 PyPI 1.26.16 requests → , which requires this package",
        "unpinned PyPI not pinned the project >=2 requirements.txt version unknown",
        "Nobody fixed it",
    ):
        assert text in page.text, text
    assert f"/vulnerabilities/{ADVISORY}" in page.links
    assert f"{REPO}/graph?q=requests" in page.links


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=LIB", ["urllib3"]),
        ("kind=direct", ["requests", "unpinned"]),
        ("kind=transitive", ["urllib3"]),
        ("vulnerable=yes", ["requests", "urllib3"]),
        ("ecosystem=npm", []),
        ("manifest=requirements.txt&q=un", ["unpinned"]),
        ("manifest=elsewhere", []),
        (f"after={FIRST + 1}", ["unpinned"]),
        # Invalid filters are ignored.
        ("kind=odd&after=-1&after=x", ["requests", "urllib3", "unpinned"]),
    ],
)
async def test_the_list_can_be_filtered(sample_dashboard, query, expected):
    page = await sample_dashboard.viewer.open(f"{HERE}?{query}")
    names = ("requests", "urllib3", "unpinned")
    graph = f"{REPO}/graph?q="
    assert [name for name in names if f"{graph}{name}" in page.links] == expected
    if not expected:
        assert "No dependencies match these filters" in page.text
        assert HERE in page.links


async def test_dependencies_show_whether_they_are_imported(sample_dashboard):
    await write(
        sample_dashboard.db,
        "UPDATE dependencies SET imported = CASE name WHEN 'requests' THEN 'yes' ELSE 'no' END,"
        " managed_by = 'org.boot:bom:1'",
    )
    page = await sample_dashboard.viewer.open(HERE)
    assert "the project >=2 version set by org.boot:bom:1" in page.text
    assert "requests PyPI · imported 2.30.0" in page.text
    assert "urllib3 PyPI · not imported 1.26.16" in page.text
    graph = f"{REPO}/graph?q="
    for state, listed in (("yes", {"requests"}), ("no", {"urllib3", "unpinned"}), ("unknown", {})):
        page = await sample_dashboard.viewer.open(f"{HERE}?imported={state}")
        names = ("requests", "urllib3", "unpinned")
        assert {name for name in names if f"{graph}{name}" in page.links} == set(listed)


async def test_fixtures_are_listed_apart(sample_dashboard):
    await write(
        sample_dashboard.db,
        "UPDATE dependencies SET fixture = TRUE, manifest = 'examples/requirements.txt'"
        " WHERE name = 'requests'",
    )
    repo_page = await sample_dashboard.viewer.open(REPO)
    assert "2 dependencies · 1 direct" in repo_page.text
    assert "1 of fixtures" in repo_page.text
    graph = f"{REPO}/graph?q=requests"
    page = await sample_dashboard.viewer.open(HERE)
    assert "1 dependency of fixtures" in page.text
    assert graph not in page.links
    assert f"{HERE}?files=fixtures" in page.links
    for query, is_listed in (
        ("files=fixtures", True),
        ("files=all", True),
        ("files=odd", False),
        ("manifest=examples/requirements.txt", True),
    ):
        page = await sample_dashboard.viewer.open(f"{HERE}?{query}")
        assert (graph in page.links) == is_listed, query
    assert "examples/requirements.txt fixture" in page.text


async def test_long_lists_are_paginated(sample_dashboard):
    await write(
        sample_dashboard.db,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 140)"
        " INSERT INTO dependencies (repo_id, position, ecosystem, name, version, requirement,"
        " direct, scope, manifest, parents, purl) SELECT d.repo_id, 2000 + i, d.ecosystem,"
        " d.name || i, d.version, d.requirement, d.direct, d.scope, d.manifest,"
        " d.parents, d.purl FROM dependencies d, n"
        " WHERE d.position = :first AND d.repo_id = :repo_id",
        first=FIRST,
        repo_id=sample_dashboard.samples["acme"].repo_id,
    )
    page, links = await sample_dashboard.viewer.open(f"{HERE}?q=requests"), []
    while True:
        links += [link for link in page.links if "/graph?q=" in link]
        (*_, after) = [None, *(link for link in page.links if "after=" in link)]
        if after is None or not after.startswith(HERE):
            break
        page = await sample_dashboard.viewer.open(after)
    assert len(links) == len(set(links)) == 141
    assert f"{HERE}?q=requests" in page.links


async def test_without_an_index_the_page_explains_why_it_is_empty(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM dependencies")
    assert "No dependencies found" in (await sample_dashboard.viewer.open(HERE)).text
    await write_repos(sample_dashboard.db, "index_status = 'indexing'")
    page = await sample_dashboard.viewer.open(HERE)
    assert "The index is not ready yet" in page.text
    assert REPO in page.links


async def test_the_repository_page_shows_languages_warnings_and_counts(sample_dashboard):
    page = await sample_dashboard.viewer.open(REPO)
    for text in (
        *("Python 90 90 %", "1 index warning", "poetry.lock : is no TOML"),
        *("3 dependencies · 2 direct · PyPI 3", "critical 1", "unrated 1"),
    ):
        assert text in page.text, text
    assert "/vulnerabilities?repo=acme/shop&severity=critical" in page.links
    assert {HERE, f"{REPO}/graph", "/vulnerabilities?repo=acme/shop"} <= set(page.links)
    stream = await listen(sample_dashboard.app, sample_dashboard.viewer, f"{REPO}/stream", events=5)
    parts = stream.parts()
    assert "90 %" in parts["repos/index"].text
    assert "critical 1" in parts["repos/findings"].text


async def test_a_repository_without_findings_shows_whether_scans_are_enabled(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM findings")
    assert "vulnerabilities None known." in (await sample_dashboard.viewer.open(REPO)).text
    await write_repos(sample_dashboard.db, "indexed_commit = NULL")
    page = await sample_dashboard.viewer.open(REPO)
    assert "vulnerabilities Available when the index is ready." in page.text
    await write(sample_dashboard.db, "DELETE FROM advisory_feeds")
    page = await sample_dashboard.viewer.open(REPO)
    assert "Not scanned: no advisory source is configured" in page.text
    page = await sample_dashboard.viewer.open(HERE)
    assert "Dependencies are not scanned for vulnerabilities" in page.text
    assert "none known" not in page.text


async def test_members_see_a_link_to_a_job_that_fixes_vulnerabilities(sample_dashboard):
    fix = "/jobs/new?repo=acme/shop&agent=cve-fixer"
    assert fix in (await sample_dashboard.member.open(REPO)).links
    assert fix not in (await sample_dashboard.viewer.open(REPO)).links
    await write(sample_dashboard.db, "DELETE FROM findings")
    assert fix not in (await sample_dashboard.member.open(REPO)).links


async def test_unclassified_lines_and_small_shares_are_shown(sample_dashboard):
    languages = '[["Go",1,3],["C",1,997]]'
    await write_repos(sample_dashboard.db, "line_count = 5000, languages = :v", v=languages)
    page = await sample_dashboard.viewer.open(REPO)
    assert "Lines 5,000 1,000 in these languages" in page.text
    assert "Go 3 < 1 %" in page.text


@pytest.mark.parametrize(
    ("organization", "repository", "file", "text"),
    [
        (None, None, None, "Vulnerabilities do not start jobs. Not configured."),
        ("high", None, None, "high or higher starts a cve-fixer job"),
        ("high", None, None, "Organization default."),
        ("high", "none", None, "Vulnerabilities do not start jobs. Set for this repository."),
        (
            "low",
            "medium",
            "critical",
            "A vulnerability of severity critical starts a cve-fixer job",
        ),
        ("low", "medium", "critical", "agentjobs.toml , which overrides the setting here."),
    ],
)
async def test_the_threshold_is_shown_with_its_source(
    sample_dashboard, organization, repository, file, text
):
    await write(sample_dashboard.db, "UPDATE organizations SET auto_trigger = :v", v=organization)
    await write_repos(
        sample_dashboard.db,
        "auto_trigger = :v, configured_trigger = :file",
        v=repository,
        file=file,
    )
    page = await sample_dashboard.member.open(f"{REPO}/settings")
    assert text in " ".join(page.text.replace(" .", ".").split())
    assert not page.has_form("/auto-trigger")


async def test_an_administrator_sets_and_resets_the_threshold(sample_dashboard):
    admin = sample_dashboard.admin
    page = await admin.send(
        await admin.open(f"{REPO}/settings"), f"{REPO}/auto-trigger", level="high"
    )
    assert "Saved." in page.text
    assert page.form(f"{REPO}/auto-trigger").value("level") == "high"
    page = await admin.send(page, f"{REPO}/auto-trigger", level="default")
    assert "Not configured." in page.text
    error_page = await admin.send(page, f"{REPO}/auto-trigger", level="grave")
    assert error_page.status == 400
    assert "is not a severity" in error_page.text
