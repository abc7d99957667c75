"""/agents: who can be sent to work, and why somebody cannot."""

from tests.support.users import write


async def test_each_agent_tells_plan_readiness_and_record(furnished):
    page = await furnished.member.open("/agents")
    for words in (
        *("Fixer", "ready on 1 worker", "50 % of 2 jobs", "Pro-Fixer", "not ready"),
        "bwrap is missing",
    ):
        assert words in page.text, words
    assert "/jobs/new?agent=fixer" in page.links
    assert "No worker is running" not in page.text


async def test_machines_are_named_to_administrators_alone(furnished):
    assert "build-1: bwrap is missing" in (await furnished.admin.open("/agents")).text
    assert "build-1" not in (await furnished.member.open("/agents")).text


async def test_a_viewer_is_not_led_to_new_jobs(furnished):
    page = await furnished.viewer.open("/agents")
    assert not [link for link in page.links if "/jobs/new" in link]


async def test_an_agent_of_another_plan_says_so(furnished):
    await write(furnished.db, "UPDATE organizations SET plan = 'free'")
    page = await furnished.member.open("/agents")
    assert "not on your plan" in page.text
    assert "/jobs/new?agent=pro-fixer" not in page.links


async def test_a_worker_that_is_silent_is_no_worker(furnished):
    await write(furnished.db, "UPDATE workers SET heartbeat_at = 1")
    page = await furnished.admin.open("/agents")
    assert "No worker is running" in page.text
    assert "build-1" not in page.text


async def test_records_of_others_are_not_counted(furnished):
    await write(
        furnished.db,
        "UPDATE jobs SET status = 'failed' WHERE organization_id = :id AND status = 'completed'",
        id=furnished.other.organization_id,
    )
    assert "50 % of 2 jobs" in (await furnished.viewer.open("/agents")).text
    assert "0 % of 2 jobs" in (await furnished.outsider.open("/agents")).text
