"""/jobs/{id}: details, log and actions of a job."""

import asyncio
import json
import re
import zlib

import pytest

from service.tests.unit.web.dashboard.event_streams import listen, part_of
from service.tests.unit.web.dashboard.page_safety import safety_faults
from tests.support.users import write


def job_path(samples, job="finished_job"):
    return f"/jobs/{getattr(samples, job)}"


async def test_a_finished_job_shows_its_details(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    page = await sample_dashboard.viewer.open(job_path(samples))
    for text in (
        *(
            "Fix the price",
            "completed",
            "#1",
            "View pull request",
            "SHOP-1",
            "agentjobs/open",
            "Queued",
        ),
        *("You are an agent.", '"depth": "2"', "make check", "exit code 1", "1 failed", "by Ada"),
        *("No model calls", "compiling", "in red", "the end"),
    ):
        assert text in page.text, text
    assert samples.finished_job in page.text
    assert f"/jobs/{samples.finished_job}/changes" in page.links
    # The page of a finished job is not live.
    assert "data-live" not in page.html
    assert "data-log=" not in page.html


async def test_the_warnings_of_a_job_are_shown(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET warnings = :warnings WHERE id = :id",
        id=samples.finished_job,
        warnings='["The work of attempt 1 is <lost>."]',
    )
    page = await sample_dashboard.viewer.open(job_path(samples))
    assert "The work of attempt 1 is <lost>." in page.text


async def test_artifacts_are_downloads_and_only_images_are_shown(sample_dashboard):
    path = job_path(sample_dashboard.samples["acme"])
    page = await sample_dashboard.viewer.open(path)
    assert f"{path}/artifacts/page.png" in page.links
    assert re.findall(r'<img src="(/jobs[^"]*)"', page.html) == [f"{path}/artifacts/screenshot.png"]
    image = await sample_dashboard.viewer.http.get(f"{path}/artifacts/screenshot.png")
    assert image.headers["content-type"] == "image/png"
    text = await sample_dashboard.viewer.http.get(f"{path}/artifacts/page.png")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    for response in (image, text):
        assert response.headers["content-disposition"].startswith("attachment")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]


async def test_a_report_is_rendered_as_markdown_and_escaped(sample_dashboard):
    job = sample_dashboard.samples["acme"].failed_job
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET status = 'completed', error_code = NULL, error_message = NULL"
        " WHERE id = :id",
        id=job,
    )
    await write(
        sample_dashboard.db,
        "INSERT INTO job_reports (job_id, markdown, result, created_at)"
        " VALUES (:id, :markdown, :result, 0)",
        id=job,
        markdown="# Review\n\nAll is **well** <script>alert(1)</script>\n![x](http://evil/x.png)",
        result='{"risk":"<script>alert(2)</script>"}',
    )
    page = await sample_dashboard.member.open(f"/jobs/{job}")
    assert "<strong>well</strong>" in page.html
    assert '"risk": "<script>alert(2)</script>"' in page.text
    assert safety_faults(page) == []
    assert not page.has_form("/follow-up")
    assert "agentjobs/failed" not in page.text
    listing = await sample_dashboard.member.open("/jobs")
    assert f"/jobs/{job}#report" in listing.links


async def test_a_job_that_failed_its_check_shows_the_diff_that_its_worker_stored(sample_dashboard):
    job = sample_dashboard.samples["acme"].failed_job
    diff = (
        b"diff --git a/<b>.py b/<b>.py\nnew file mode 100644\n--- /dev/null\n+++ b/<b>.py\n"
        b"@@ -0,0 +1,2 @@\n+first\n+<script>alert(1)</script>\n"
        b"diff --git a/logo.png b/logo.png\nBinary files a/logo.png and b/logo.png differ\n"
        b"diff --git a/long b/long\n--- a/long\n+++ b/long\n@@ -0,0 +1,900 @@\n"
    ) + b"+line\n" * 900
    await write(
        sample_dashboard.db,
        "INSERT INTO job_diffs (job_id, content, is_truncated, created_at)"
        " VALUES (:id, :content, TRUE, 0)",
        id=job,
        content=zlib.compress(diff),
    )
    assert f"/jobs/{job}/changes" in (await sample_dashboard.viewer.open(f"/jobs/{job}")).links
    page = await sample_dashboard.viewer.open(f"/jobs/{job}/changes")
    assert safety_faults(page) == []
    for text in (
        "<b>.py",
        "first",
        "Binary or large file not shown",
        "Only the first part of this diff",
    ):
        assert text in page.text, text
    assert f"/jobs/{job}/changes/file?path=long" in page.links
    file = await sample_dashboard.viewer.open(f"/jobs/{job}/changes/file?path=long")
    assert file.text.count("line") >= 900
    missing = await sample_dashboard.viewer.get(f"/jobs/{job}/changes/file?path=none%00")
    assert missing.status_code == 404


async def test_a_viewer_sees_no_forms_that_change_anything(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    for job in ("finished_job", "queued_job"):
        page = await sample_dashboard.viewer.open(job_path(samples, job))
        assert [form.action for form in page.forms if form.method == "post"] == ["/sign-out"]
    # Viewers do not see webhook URLs.
    assert "192.0.2.10" not in (await sample_dashboard.viewer.open(job_path(samples))).text
    assert "https://192.0.2.10/acme" in (await sample_dashboard.member.open(job_path(samples))).text


async def test_a_failed_job_shows_the_reason(sample_dashboard):
    page = await sample_dashboard.member.open(
        job_path(sample_dashboard.samples["acme"], "failed_job")
    )
    assert "Agent failed : It gave up." in page.text
    assert not page.has_form("/follow-up")
    assert page.has_form("/again")


async def test_a_waiting_job_shows_the_reason(dashboard):
    job = await dashboard.harness.job(dashboard.caller)
    page = await dashboard.viewer.open(f"/jobs/{job}")
    # Its agent may be ready, while no worker has the tags.
    assert (
        "No running worker is ready for this agent and has the tags that the repository requires."
    ) in page.text
    assert "Nothing has been logged yet." in page.text
    assert "No prompt yet." in page.text


async def test_a_queued_job_is_cancelled_once(sample_dashboard):
    path = job_path(sample_dashboard.samples["acme"], "queued_job")
    page = await sample_dashboard.member.open(path)
    done = await sample_dashboard.member.send(page, f"{path}/cancel")
    assert done.path == path
    assert "The job is being cancelled." in done.text
    assert "cancelled" in done.text
    repeated = await sample_dashboard.member.send(page, f"{path}/cancel")
    assert repeated.path == path
    assert "The job is being cancelled." not in repeated.text


async def test_cancelling_a_running_job_requests_its_stop(sample_dashboard):
    path = job_path(sample_dashboard.samples["acme"], "running_job")
    page = await sample_dashboard.member.send(
        await sample_dashboard.member.open(path), f"{path}/cancel"
    )
    assert "running cancelling" in page.text


async def test_run_again_creates_a_job_with_the_same_request(sample_dashboard):
    path = job_path(sample_dashboard.samples["acme"], "failed_job")
    page = await sample_dashboard.member.send(
        await sample_dashboard.member.open(path), f"{path}/again"
    )
    assert page.path != path
    for text in (
        "Started a new job with the same settings.",
        "Fix the price",
        "SHOP-2",
        "queued",
        "by Grace",
    ):
        assert text in page.text


async def test_run_again_reports_a_disconnected_repository_on_the_page(sample_dashboard):
    path = job_path(sample_dashboard.samples["acme"], "failed_job")
    page = await sample_dashboard.member.open(path)
    await write(sample_dashboard.db, "UPDATE repos SET disconnected_at = 1")
    page = await sample_dashboard.member.send(page, f"{path}/again")
    assert page.status == 422
    assert "is not connected" in page.text
    assert page.has_form("/again")


async def test_a_follow_up_continues_the_pull_request(sample_dashboard):
    path = job_path(sample_dashboard.samples["acme"])
    page = await sample_dashboard.member.open(path)
    later = await sample_dashboard.member.send(page, f"{path}/follow-up", prompt="And the\r\ntax.")
    assert "Started a follow-up on the same pull request." in later.text
    assert path in later.links
    assert "And the" in later.text
    assert later.path in (await sample_dashboard.member.open(path)).links


@pytest.mark.parametrize(("prompt", "status"), [("  ", 422), ("Once more", 409)])
async def test_a_rejected_follow_up_keeps_the_entered_prompt(sample_dashboard, prompt, status):
    path = job_path(sample_dashboard.samples["acme"])
    page, other = await sample_dashboard.member.open_twice(path)
    if status == 409:
        await sample_dashboard.member.send(other, f"{path}/follow-up", prompt="The first")
    page = await sample_dashboard.member.send(page, f"{path}/follow-up", prompt=prompt)
    assert page.status == status
    assert page.form("/follow-up").value("prompt") == prompt
    assert page.path == f"{path}/follow-up"


async def test_the_whole_log_is_plain_text(sample_dashboard):
    response = await sample_dashboard.viewer.get(
        f"{job_path(sample_dashboard.samples['acme'])}/log"
    )
    assert response.headers["content-type"].startswith("text/plain")
    assert response.text.startswith("compiling\n")


async def test_a_long_log_shows_its_end_and_links_to_the_full_log(sample_dashboard):
    job = sample_dashboard.samples["acme"].finished_job
    for number in range(2, 6):
        await write(
            sample_dashboard.db,
            "INSERT INTO job_logs (job_id, sequence, created_at, text)"
            " VALUES (:id, :number, 1, :text)",
            id=job,
            number=number,
            text=f"chunk {number}\n" + ("a" * 900 + "\n") * 100,
        )
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    assert "Only the end of this log is shown." in page.text
    assert "chunk 5" in page.text
    assert "compiling" not in page.text


async def test_changes_are_served_as_a_page_and_as_a_fragment(sample_dashboard):
    path = f"{job_path(sample_dashboard.samples['acme'])}/changes"
    page = await sample_dashboard.viewer.open(path)
    for text in ("src/shop.py", "PRICE = 3", "notes.py", "+1"):
        assert text in page.text
    part = await sample_dashboard.viewer.get(path, headers={"X-Part": "1"})
    assert "PRICE = 3" in part_of(part.text).text
    assert "<html" not in part.text
    failed = await sample_dashboard.viewer.open(
        f"{job_path(sample_dashboard.samples['acme'], 'failed_job')}/changes"
    )
    assert failed.status == 404


@pytest.mark.parametrize("path", ["src/nowhere.py", "../../etc/passwd", ""])
async def test_a_file_that_did_not_change_is_not_found(sample_dashboard, path):
    samples = sample_dashboard.samples["acme"]
    query = {"path": path, "base": samples.base, "head": samples.head}
    response = await sample_dashboard.viewer.get(f"{job_path(samples)}/changes/file", params=query)
    assert response.status_code == 404
    query = {"path": "src/shop.py", "base": "HEAD", "head": "--output=/tmp/x"}
    response = await sample_dashboard.viewer.get(f"{job_path(samples)}/changes/file", params=query)
    assert response.status_code == 404


async def test_the_page_follows_a_job_until_it_finishes(sample_dashboard):
    path = job_path(sample_dashboard.samples["acme"], "queued_job")
    page = await sample_dashboard.member.open(path)
    assert f'data-live="{path}/stream"' in page.html

    async def cancel_once_it_listens():
        await first_event.wait()
        await sample_dashboard.member.send(page, f"{path}/cancel")

    # The page also waits for deliveries, but no sender runs in this test.
    await write(sample_dashboard.db, "UPDATE deliveries SET status = 'delivered'")
    await write(sample_dashboard.db, "UPDATE webhook_endpoints SET removed_at = 1")
    first_event = asyncio.Event()
    cancelling = asyncio.create_task(cancel_once_it_listens())
    stream = await listen(
        sample_dashboard.app,
        sample_dashboard.viewer,
        f"{path}/stream",
        events=99,
        on_event=first_event.set,
    )
    await cancelling
    assert stream.events[-1][0] == "end"
    parts = stream.parts()
    assert {"jobs/head", "jobs/details", "jobs/events"} <= set(parts)
    assert "cancelled" in parts["jobs/head"].text
    assert not parts["jobs/head"].forms


async def test_the_log_stream_continues_where_the_page_ends(sample_dashboard):
    job = sample_dashboard.samples["acme"].running_job
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    assert 'data-after="1"' in page.html
    stream_path = f"/jobs/{job}/log/stream"
    stream = await listen(sample_dashboard.app, sample_dashboard.viewer, stream_path)
    assert stream.events[0][1]["after"] == 1
    await write(
        sample_dashboard.db,
        "INSERT INTO job_logs (job_id, sequence, created_at, text) VALUES (:id, 2, 1, ' of it\n')",
        id=job,
    )
    # This chunk completes the unfinished line of the first chunk.
    stream = await listen(sample_dashboard.app, sample_dashboard.viewer, f"{stream_path}?after=1")
    assert stream.lines().text == "the end of it"
    await write(sample_dashboard.db, "UPDATE jobs SET status = 'completed' WHERE id = :id", id=job)
    stream = await listen(
        sample_dashboard.app, sample_dashboard.viewer, f"{stream_path}?after=nonsense", events=2
    )
    assert [name for name, _ in stream.events] == ["lines", "end"]


@pytest.mark.parametrize("job", ["job_0", "nothing", "job_" + "0" * 26])
async def test_an_unknown_job_is_not_found(dashboard, job):
    for rest in ("", "/log", "/changes", "/stream", "/log/stream", "/steps/stream", "/artifacts/a"):
        page = await dashboard.viewer.open(f"/jobs/{job}{rest}")
        assert page.status == 404
        assert "There is no such job in your organization" in page.text


async def test_the_last_lines_of_a_failure_are_separate_from_the_advice(sample_dashboard):
    message = "The agent ended with exit code 3. Its last lines:\nTraceback:\n  File <x>\nBoom"
    await write(sample_dashboard.db, "UPDATE jobs SET error_message = :text", text=message)
    page = await sample_dashboard.viewer.open(
        job_path(sample_dashboard.samples["acme"], "failed_job")
    )
    assert (
        '<pre class="text-block" tabindex="0" aria-label="Last lines of the output">'
        "Traceback:\n  File &lt;x&gt;\nBoom</pre>"
        "<p>The log says more. Running the job again may help.</p>"
    ) in page.html
    assert "</strong>: The agent ended with exit code 3. Its last lines:</p>" in page.html


async def test_the_full_log_is_a_download_without_ansi_codes(sample_dashboard):
    job = sample_dashboard.samples["acme"].finished_job
    await write(
        sample_dashboard.db,
        "INSERT INTO job_logs (job_id, sequence, created_at, text) VALUES (:id, 2, 1, :text)",
        id=job,
        text="\n 1 %\r 99 %\rdone\n\x1b]0;title\x07\x1b[1;32mgreen\x1b[0",
    )
    response = await sample_dashboard.viewer.get(f"/jobs/{job}/log")
    assert response.headers["content-disposition"] == f'attachment; filename="{job}.log"'
    assert response.text == "compiling\nin red\nthe end\ndone\ngreen"


@pytest.mark.parametrize(("job", "label"), [("running_job", "Running"), ("queued_job", "Queued")])
async def test_the_elapsed_time_of_an_unfinished_job_is_updated(sample_dashboard, job, label):
    page = await sample_dashboard.viewer.open(job_path(sample_dashboard.samples["acme"], job))
    assert f"{label} for" in page.text
    assert any("data-elapsed" in attributes for _, attributes in page.tags)
    finished = await sample_dashboard.viewer.open(job_path(sample_dashboard.samples["acme"]))
    assert not any("data-elapsed" in attributes for _, attributes in finished.tags)


async def test_lines_of_a_long_log_keep_their_numbers(sample_dashboard):
    job = sample_dashboard.samples["acme"].finished_job
    chunk = "".join(f"line {number:05}\n" for number in range(1_000))
    rows = [{"job": job, "sequence": 1_000 + at, "text": chunk} for at in range(14)]
    for row in rows:
        await write(
            sample_dashboard.db,
            "INSERT INTO job_logs (job_id, sequence, created_at, text)"
            " VALUES (:job, :sequence, 0, :text)",
            **row,
        )
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    stored = await sample_dashboard.db.fetch_all(
        "SELECT text FROM job_logs WHERE job_id = :job", job=job
    )
    total = sum(row["text"].count("\n") for row in stored)
    shown = page.html.count('<span class="line"')
    assert 0 < shown < total
    assert f'data-first-line="{total - shown + 1}"' in page.html
    assert "Only the end of this log is shown." in page.text


async def test_the_phases_of_a_job_are_a_bar_and_a_list(sample_dashboard):
    job = sample_dashboard.samples["acme"].failed_job
    runs = [
        {"attempt": 1, "phases": [["queued", 0], ["agent", 900]], "ended_at": 60_900},
        {"attempt": 2, "phases": [["queued", 61_000], ["checks", 62_000]], "ended_at": 65_000},
    ]
    runs[0]["interruption"] = "worker_lost"
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET phases = :phases WHERE id = :id",
        id=job,
        phases=json.dumps(runs),
    )
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    for text in ("Queued 1.0 s", "Checks 3.0 s failed", "1 earlier attempt", "Agent 1 min worker"):
        assert text in page.text, text
    assert page.html.count('<svg class="share"') == 2


async def test_a_job_without_a_title_names_its_agent_and_repository_once(dashboard):
    job = await dashboard.harness.job(dashboard.caller)
    page = await dashboard.viewer.open(f"/jobs/{job}")
    main = page.text[page.text.index("Jobs fixer") : page.text.index("Details")]
    assert main.count("fixer on acme/shop") == 1
    assert "/repos/acme/shop" in page.links


async def test_a_waiting_job_shows_its_position(dashboard):
    await dashboard.harness.job(dashboard.caller)
    job = await dashboard.harness.job(dashboard.caller)
    page = await dashboard.viewer.open(f"/jobs/{job}")
    assert "Position 2 in the queue" in page.text
    assert "/agents" in page.links


async def test_prompts_and_the_text_of_the_pull_request_are_rendered_as_markdown(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET prompt = '# You are **an agent**<script>', config_override = :override",
        override=json.dumps({"prompt": "## Add a discount\n\nFor *members* <script>x</script>"}),
    )
    await write(sample_dashboard.db, "UPDATE pulls SET body = 'It was **wrong**<script>'")
    page = await sample_dashboard.viewer.open(job_path(samples))
    for html in ("<em>members</em>", "<strong>an agent</strong>", "<strong>wrong</strong>"):
        assert html in page.html, html
    assert "<h1>Add a discount</h1>" in page.html
    assert safety_faults(page) == []


async def test_the_first_line_of_each_second_has_its_time(sample_dashboard):
    job = sample_dashboard.samples["acme"].running_job
    await write(sample_dashboard.db, "DELETE FROM job_logs WHERE job_id = :id", id=job)
    chunks = [(0, "one\ntwo\nthr"), (1_000, "ee\nfour\n"), (1_900, "five\n"), (2_000, "si")]
    for number, (at, text) in enumerate(chunks, 1):
        await write(
            sample_dashboard.db,
            "INSERT INTO job_logs (job_id, sequence, created_at, text)"
            " VALUES (:id, :number, :at, :text)",
            id=job,
            number=number,
            at=at,
            text=text,
        )
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    assert re.findall(r'<span class="line[ a-z]*"(?: data-at="([\d:]*)")?>(\w+)', page.html) == [
        *(("00:00:00", "one"), ("", "two"), ("", "three")),
        *(("00:00:01", "four"), ("", "five"), ("00:00:02", "si")),
    ]
    stream = await listen(
        sample_dashboard.app, sample_dashboard.viewer, f"/jobs/{job}/log/stream?after=2"
    )
    # The time of "four" is shown already.
    assert stream.events[0][1]["html"] == '<span class="line">five</span>\n'


async def test_the_log_of_a_job_can_be_downloaded_from_a_page_opened_before_it_began(dashboard):
    job = await dashboard.harness.job(dashboard.caller)
    page = await dashboard.viewer.open(f"/jobs/{job}")
    assert "Nothing has been logged yet." in page.text
    assert f"/jobs/{job}/log" in page.links
