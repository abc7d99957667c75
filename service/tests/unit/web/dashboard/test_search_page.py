"""/search finds what the organization has, as a page and as a part of one."""

from service.tests.unit.web.dashboard.browser import Page


async def test_a_repository_a_job_and_a_pull_request_are_found(sample_dashboard):
    sample = sample_dashboard.samples["acme"]
    viewer = sample_dashboard.viewer
    assert f"/repos/{sample.repo}" in (await viewer.open(f"/search?q={sample.repo.upper()}")).links
    assert (
        f"/jobs/{sample.finished_job}"
        in (await viewer.open(f"/search?q={sample.finished_job}")).links
    )
    assert f"/acme/{sample.repo}/pulls/1" in (await viewer.open("/search?q=%231")).links


async def test_a_package_and_its_advisory_are_found_once(sample_dashboard):
    advisory = sample_dashboard.samples["acme"].advisory
    page = await sample_dashboard.viewer.open(f"/search?q={advisory.lower()}")
    assert page.links.count(f"/vulnerabilities/{advisory}") == 1


async def test_without_a_query_the_pages_of_the_viewer_are_listed(sample_dashboard):
    page = await sample_dashboard.admin.open("/search")
    assert "/settings/api-keys" in page.links
    page = await sample_dashboard.viewer.open("/search")
    assert "/settings/api-keys" not in page.links
    assert "/jobs/new" not in page.links


async def test_nothing_found_says_what_can_be_searched(sample_dashboard):
    page = await sample_dashboard.viewer.open("/search?q=%25nothing%5F")
    assert "Nothing matches “%nothing_”." in page.text


async def test_a_script_gets_the_results_alone(sample_dashboard):
    response = await sample_dashboard.viewer.http.get(
        "/search?q=webhooks", headers={"X-Part": "1", "Accept": "text/html"}
    )
    assert "<html" not in Page(response).html


async def test_nothing_of_another_organization_is_found(sample_dashboard):
    other = sample_dashboard.samples["other"]
    page = await sample_dashboard.viewer.open(f"/search?q={other.finished_job}")
    assert f"/jobs/{other.finished_job}" not in page.links
