"""/jobs: the list, its filters and its live updates."""

import asyncio

from service.tests.unit.web.dashboard.event_streams import listen
from service.tests.unit.web.dashboard.statements import count_statements


async def jobs_on(browser, query=""):
    """The IDs of the jobs on a page, in order."""
    page = await browser.open(f"/jobs{query}")
    assert page.status == 200
    links = [link.removeprefix("/jobs/") for link in page.links]
    return [link for link in links if link.startswith("job_")]


async def test_the_empty_list_links_to_a_new_job_for_members(dashboard):
    page = await dashboard.member.open("/jobs")
    assert "No jobs yet" in page.text
    assert "/jobs/new" in page.links
    page = await dashboard.viewer.open("/jobs")
    assert "No jobs yet" in page.text
    assert "/jobs/new" not in page.links


async def test_a_row_shows_the_request_and_the_outcome(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    page = await sample_dashboard.viewer.open("/jobs")
    assert await jobs_on(sample_dashboard.viewer) == [
        samples.queued_job,
        samples.running_job,
        samples.failed_job,
        samples.finished_job,
    ]
    for text in ("Fix the price", "SHOP-1 · ", "completed", "Agent failed", "acme/shop", "fixer"):
        assert text in page.text
    assert "http://127.0.0.1:8080/acme/acme/shop/pulls/1" in page.links
    assert sample_dashboard.samples["other"].finished_job not in page.html


FILTERS = [
    ("?status=failed", ["failed_job"]),
    ("?status=nonsense&ticket=SHOP-1", ["finished_job"]),
    ("?ticket=SHOP-2", ["failed_job"]),
    ("?repo=acme/shop&status=queued", ["queued_job"]),
    ("?repo=acme/other", []),
    ("?agent=pro-fixer", []),
    ("?q=gave+UP", ["failed_job"]),
    ("?q=shop-1", ["finished_job"]),
    ("?q=100%25", []),
    ("?since=2100-01-01", []),
    ("?until=2000-01-01", []),
    ("?before=job_nonsense&status=running", ["running_job"]),
]


async def test_a_filter_lists_the_matching_jobs(sample_dashboard, subtests):
    samples = sample_dashboard.samples["acme"]
    for query, expected in FILTERS:
        with subtests.test(query):
            assert await jobs_on(sample_dashboard.viewer, query) == [
                getattr(samples, name) for name in expected
            ]
            page = await sample_dashboard.viewer.open(f"/jobs{query}")
            assert ("No jobs match these filters" in page.text) is (not expected)


async def test_an_invalid_date_is_rejected_and_kept_in_the_form(sample_dashboard):
    page = await sample_dashboard.viewer.open("/jobs?since=yesterday&status=running")
    assert page.status == 400
    assert "enter a date such as 2026-01-31" in page.text
    assert page.form("/jobs").value("since") == "yesterday"
    assert page.form("/jobs").value("status") == "running"


async def test_the_labels_of_a_job_link_to_the_jobs_that_have_them(dashboard):
    labels = {"team": "pay & <co>", "run": "1"}
    job = await dashboard.harness.job(dashboard.caller, labels=labels)
    other = await dashboard.harness.job(dashboard.caller, labels={"run": "2"})
    page = await dashboard.viewer.open("/jobs")
    assert "team=pay & <co>" in page.text
    (link,) = [link for link in page.links if "label=team" in link]
    assert await jobs_on(dashboard.viewer, link.removeprefix("/jobs")) == [job]
    assert await jobs_on(dashboard.viewer, "?label=run%3D2&status=queued") == [other]
    assert await jobs_on(dashboard.viewer, "?label=run%3D") == []
    assert await jobs_on(dashboard.viewer, "?label=%00%3D%00") == []
    assert await jobs_on(dashboard.viewer, "?q=CO%3E") == [job]
    assert link in (await dashboard.viewer.open(f"/jobs/{job}")).links


async def test_a_row_shows_the_beginning_of_a_few_labels(dashboard):
    labels = {"team": "x" * 100, **{f"k{number}": "" for number in range(4)}}
    job = await dashboard.harness.job(dashboard.caller, labels=labels)
    page = await dashboard.viewer.open("/jobs")
    assert f"team={'x' * 24}…" in page.text
    assert "2 more labels" in page.text
    assert f"team={'x' * 100}" in (await dashboard.viewer.open(f"/jobs/{job}")).text


async def test_a_label_without_a_value_is_rejected_and_kept_in_the_form(dashboard):
    page = await dashboard.viewer.open("/jobs?label=team")
    assert page.status == 400
    assert "enter a key and a value, such as team=payments" in page.text
    assert page.form("/jobs").value("label") == "team"


async def test_part_of_an_id_finds_the_job(sample_dashboard):
    job = sample_dashboard.samples["acme"].running_job
    assert await jobs_on(sample_dashboard.viewer, f"?q={job[-8:]}") == [job]
    other_job = sample_dashboard.samples["other"].running_job
    assert await jobs_on(sample_dashboard.viewer, f"?q={other_job}") == []


async def test_the_filter_form_keeps_its_values_and_uses_the_query_string(sample_dashboard):
    page = await sample_dashboard.viewer.open("/jobs")
    page = await sample_dashboard.viewer.send(
        page, "/jobs", q="price", status="failed", ticket="SHOP-2"
    )
    form = page.form("/jobs")
    assert (form.value("q"), form.value("status")) == ("price", "failed")
    assert form.value("ticket") == "SHOP-2"
    assert "Clear" in page.text


async def test_pagination_keeps_the_filter(dashboard):
    job_ids = [await dashboard.harness.job(dashboard.caller, ticket_id="A-1") for _ in range(53)]
    await dashboard.harness.job(dashboard.caller, ticket_id="B-1")
    first = await jobs_on(dashboard.viewer, "?ticket=A-1")
    assert first == job_ids[:2:-1]
    page = await dashboard.viewer.open("/jobs?ticket=A-1")
    older = next(link for link in page.links if "before=" in link)
    assert "ticket=A-1" in older
    page = await dashboard.viewer.open(older)
    assert "/jobs?ticket=A-1" in page.links
    assert not [link for link in page.links if "before=" in link]
    # Older pages do not change, so they are not live.
    assert "data-live" not in page.html
    assert await jobs_on(dashboard.viewer, older.removeprefix("/jobs")) == job_ids[2::-1]


async def test_the_list_takes_as_many_statements_for_any_number_of_jobs(dashboard):
    counts = []
    for number in (1, 40):
        for _ in range(number):
            await dashboard.harness.job(dashboard.caller)
        with count_statements(dashboard.db) as statements:
            assert (await dashboard.viewer.open("/jobs?q=fixer")).status == 200
        # The other one suggests repositories.
        assert len(statements.about("jobs")) == 2
        assert len(statements.scans) <= 4
        counts.append(statements.count)
    assert counts[0] == counts[1]


async def test_a_new_job_appears_on_an_open_page(dashboard):
    async def create_once_it_listens():
        await first_event.wait()
        await dashboard.harness.job(dashboard.other)
        return await dashboard.harness.job(dashboard.caller)

    first = await dashboard.harness.job(dashboard.caller)
    first_event = asyncio.Event()
    creating = asyncio.create_task(create_once_it_listens())
    stream = await listen(
        dashboard.app,
        dashboard.viewer,
        "/jobs/stream?status=queued",
        events=2,
        on_event=first_event.set,
    )
    rows = stream.parts()["jobs/rows"]
    assert [link for link in rows.links if "/job_" in link] == [
        f"/jobs/{await creating}",
        f"/jobs/{first}",
    ]


async def test_a_stream_ends_when_its_session_ends(dashboard):
    browser = dashboard.member
    cookies = dict(browser.http.cookies)

    async def sign_out_once_it_listens():
        await first_event.wait()
        await browser.send(await browser.open("/account"), "/sign-out")

    first_event = asyncio.Event()
    leaving = asyncio.create_task(sign_out_once_it_listens())
    stream = await listen(
        dashboard.app, browser, "/jobs/stream", events=99, on_event=first_event.set
    )
    await leaving
    assert stream.status == 200
    browser.http.cookies.update(cookies)
    assert (await listen(dashboard.app, browser, "/jobs/stream")).status == 401


async def test_the_duration_of_a_running_job_is_updated(sample_dashboard):
    page = await sample_dashboard.viewer.open("/jobs?status=running")
    (attributes,) = (attributes for _, attributes in page.tags if "data-elapsed" in attributes)
    assert int(attributes["data-elapsed"]) >= 0
