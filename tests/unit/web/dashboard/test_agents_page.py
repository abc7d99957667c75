"""/agents: who can be sent to work, and why somebody cannot."""

from tests.support.users import write


async def test_each_agent_tells_plan_readiness_and_record(sample_dashboard):
    page = await sample_dashboard.member.open("/agents")
    for words in (
        *("Fixer", "ready on 1 worker", "50 % of 2 jobs", "Pro-Fixer", "not ready"),
        "bwrap is missing",
    ):
        assert words in page.text, words
    assert "/jobs/new?agent=fixer" in page.links
    assert "No worker is running" not in page.text


async def test_machines_are_named_to_administrators_alone(sample_dashboard):
    assert "build-1: bwrap is missing" in (await sample_dashboard.admin.open("/agents")).text
    assert "build-1" not in (await sample_dashboard.member.open("/agents")).text


async def test_a_viewer_is_not_led_to_new_jobs(sample_dashboard):
    page = await sample_dashboard.viewer.open("/agents")
    assert not [link for link in page.links if "/jobs/new" in link]


async def test_an_agent_of_another_plan_says_so(sample_dashboard):
    await write(sample_dashboard.db, "UPDATE organizations SET plan = 'free'")
    page = await sample_dashboard.member.open("/agents")
    assert "not on your plan" in page.text
    assert "/jobs/new?agent=pro-fixer" not in page.links


async def test_a_worker_that_is_silent_is_no_worker(sample_dashboard):
    await write(sample_dashboard.db, "UPDATE workers SET heartbeat_at = 1")
    page = await sample_dashboard.admin.open("/agents")
    assert "No worker is running" in page.text
    assert "build-1" not in page.text


async def test_records_of_others_are_not_counted(sample_dashboard):
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET status = 'failed' WHERE organization_id = :id AND status = 'completed'",
        id=sample_dashboard.other.organization_id,
    )
    assert "50 % of 2 jobs" in (await sample_dashboard.viewer.open("/agents")).text
    assert "0 % of 2 jobs" in (await sample_dashboard.outsider.open("/agents")).text
