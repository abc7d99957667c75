"""Actions on jobs that were selected in the list."""


async def send(browser, change, *jobs):
    page = await browser.open("/jobs")
    return await browser.send(page, "/jobs/selected", change=change, job=list(jobs))


async def test_selected_jobs_are_cancelled_and_the_rest_is_explained(sample_dashboard):
    sample = sample_dashboard.samples["acme"]
    page = await send(
        sample_dashboard.member, "cancel", sample.queued_job, sample.queued_job, sample.finished_job
    )
    assert "1 job cancelled. 1 job unchanged: The job is already completed" in page.text
    shown = await sample_dashboard.member.open(f"/jobs/{sample.queued_job}")
    assert "cancelled" in shown.text


async def test_selected_jobs_run_again(sample_dashboard):
    sample = sample_dashboard.samples["acme"]
    page = await send(sample_dashboard.member, "again", sample.failed_job)
    assert "1 job started again." in page.text


async def test_jobs_of_another_organization_are_unknown(sample_dashboard):
    other = sample_dashboard.samples["other"]
    page = await send(sample_dashboard.member, "cancel", other.queued_job)
    assert "0 jobs cancelled. 1 job unchanged: There is no job" in page.text


async def test_without_a_selection_nothing_happens(sample_dashboard):
    assert "Select jobs first." in (await send(sample_dashboard.member, "cancel")).text


async def test_a_viewer_selects_nothing(sample_dashboard):
    page = await sample_dashboard.viewer.open("/jobs")
    assert not page.has_form("/jobs/selected")
    assert 'type="checkbox"' not in page.html
