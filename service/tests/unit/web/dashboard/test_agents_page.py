"""/agents: which agents can run jobs, and why others cannot."""

from tests.support.users import write


async def test_each_agent_shows_its_plan_readiness_and_success_rate(sample_dashboard):
    page = await sample_dashboard.member.open("/agents")
    for text in (
        *("Fixer", "ready on 1 worker", "50 % of 2 jobs", "Pro-Fixer", "not ready"),
        "bwrap is missing",
    ):
        assert text in page.text, text
    assert "/jobs/new?agent=fixer" in page.links
    assert "No worker is running" not in page.text


async def test_only_administrators_see_the_names_of_machines(sample_dashboard):
    assert "build-1: bwrap is missing" in (await sample_dashboard.admin.open("/agents")).text
    assert "build-1" not in (await sample_dashboard.member.open("/agents")).text


async def test_a_viewer_sees_no_links_to_new_jobs(sample_dashboard):
    page = await sample_dashboard.viewer.open("/agents")
    assert not [link for link in page.links if "/jobs/new" in link]


async def test_an_agent_that_the_plan_excludes_is_labelled(sample_dashboard):
    await write(sample_dashboard.db, "UPDATE organizations SET plan = 'free'")
    page = await sample_dashboard.member.open("/agents")
    assert "not on your plan" in page.text
    assert "/jobs/new?agent=pro-fixer" not in page.links


async def test_a_worker_without_heartbeats_is_not_shown(sample_dashboard):
    await write(sample_dashboard.db, "UPDATE workers SET heartbeat_at = 1")
    page = await sample_dashboard.admin.open("/agents")
    assert "No worker is running" in page.text
    assert "build-1" not in page.text


async def test_jobs_of_other_organizations_are_not_counted(sample_dashboard):
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET status = 'failed' WHERE organization_id = :id AND status = 'completed'",
        id=sample_dashboard.other.organization_id,
    )
    assert "50 % of 2 jobs" in (await sample_dashboard.viewer.open("/agents")).text
    assert "0 % of 2 jobs" in (await sample_dashboard.outsider.open("/agents")).text
