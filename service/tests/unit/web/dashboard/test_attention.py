"""The overview begins with what needs a person, and leads new organizations to a first job."""

from tests.support.users import write


async def attention_of(browser):
    page = await browser.open("/")
    return page.html.partition('id="overview/attention"')[2].partition('id="overview/running"')[0]


async def give_failed_job_a_prompt(dashboard):
    """That no other job has."""
    job = dashboard.samples["acme"].failed_job
    statement = "UPDATE jobs SET config_override = :override WHERE id = :id"
    await write(dashboard.db, statement, override='{"prompt":"Fix the till"}', id=job)
    return job


async def test_failed_jobs_pull_requests_and_vulnerabilities_need_attention(sample_dashboard):
    sample = sample_dashboard.samples["acme"]
    await give_failed_job_a_prompt(sample_dashboard)
    attention = await attention_of(sample_dashboard.viewer)
    assert f'href="/jobs/{sample.failed_job}">Fix the till<' in attention
    assert f'href="/acme/{sample.repo}/pulls/1"' in attention
    assert 'href="/vulnerabilities?severity=' in attention


async def test_a_failed_job_that_ran_again_needs_none(sample_dashboard):
    member = sample_dashboard.member
    job = await give_failed_job_a_prompt(sample_dashboard)
    await member.send(await member.open(f"/jobs/{job}"), "/again")
    assert f"/jobs/{job}" not in await attention_of(member)


async def test_an_endpoint_that_fails_now_is_shown_to_members(sample_dashboard):
    sample = sample_dashboard.samples["acme"]
    await write(
        sample_dashboard.db,
        "UPDATE webhook_endpoints SET failing_since = created_at WHERE id = :id",
        id=sample.endpoint,
    )
    path = f"/settings/webhooks/{sample.endpoint}"
    assert path in (await sample_dashboard.member.open("/")).links
    assert path not in (await sample_dashboard.viewer.open("/")).links


async def test_a_new_organization_is_led_to_its_first_job(sample_dashboard):
    assert "Get started" not in (await sample_dashboard.admin.open("/")).text
    await write(sample_dashboard.db, "UPDATE jobs SET status = 'failed' WHERE status = 'completed'")
    page = await sample_dashboard.admin.open("/")
    assert "Get started" in page.text
    assert "Done: Connect a repository" in page.text
    assert "Done: Run a first job" in page.text


async def test_a_draft_looks_as_in_the_list_of_pull_requests(sample_dashboard):
    await write(sample_dashboard.db, "UPDATE pulls SET draft = true WHERE state = 'open'")
    badge = '<span class="badge draft">draft</span>'
    assert badge in await attention_of(sample_dashboard.viewer)
    assert badge in (await sample_dashboard.viewer.open("/pulls")).html
