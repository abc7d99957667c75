"""/jobs/{id}?view=steps: what the agent did, with totals that filter, in pages, live."""

import asyncio

import pytest

from agentjobs.web.dashboard.jobs.step_lines import change_blocks, fold, is_short
from agentjobs.web.dashboard.jobs.steps import PAGE_SIZE
from agentjobs_runtime.agents.steps import StoredStep
from service.tests.unit.web.dashboard.event_streams import listen
from tests.support.steps import insert_steps
from tests.support.users import write

READ = {"kind": "read", "title": "src/shop.py"}
MODEL = {
    "kind": "model",
    "title": "large",
    "detail": "10 tokens in, 5 out",
    "duration_ms": 1_500,
    "cost_nanousd": 20_000_000,
}
FAILED = {
    "kind": "command",
    "title": "pytest",
    "detail": "1 failed",
    "state": "failed",
    "exit_code": 2,
    "duration_ms": 850,
}


@pytest.fixture
async def job(dashboard):
    return await dashboard.harness.job(dashboard.caller)


def step(sequence, kind, title="x", state="succeeded", **more):
    return StoredStep(sequence=sequence, started_at=0, kind=kind, title=title, state=state, **more)


def test_reads_and_model_calls_that_follow_each_other_share_a_line():
    steps = [
        step(1, "model", duration_ms=100, cost_nanousd=5),
        step(2, "read", "a.py"),
        step(3, "model", duration_ms=200, cost_nanousd=7),
        step(4, "read", "b.py"),
        step(5, "read", "a.py"),
        step(6, "command"),
        step(7, "read", state="failed"),
        step(8, "read"),
        step(9, "message"),
    ]
    lines = list(fold(steps))
    assert [[each.sequence for each in line.steps] for line in lines] == [
        *([1, 2, 3, 4, 5], [6], [7], [8], [9]),
    ]
    group = lines[0]
    assert (group.files, group.calls, group.duration_ms, group.cost_nanousd) == (
        *(["a.py", "b.py"], 2),
        *(300, 12),
    )
    assert (lines[1].is_group, lines[1].duration_ms, lines[1].cost_nanousd) == (False, None, None)


def test_a_short_message_is_shown_whole():
    assert is_short(step(1, "message", detail="Two\nlines"))
    assert not is_short(step(1, "message", detail="long\n" * 200))
    assert is_short(step(1, "message"))
    assert not is_short(step(1, "command", detail="Two\nlines"))


def test_lines_of_a_change_are_colored():
    assert change_blocks("@@ -1 +1 @@\n-old\n+new\n+line\n same") == [
        *(("hunk", "@@ -1 +1 @@"), ("removed", "-old")),
        *(("added", "+new\n+line"), ("", " same")),
    ]


async def test_steps_are_shown_with_exit_codes_durations_and_costs(dashboard, job):
    tax = {**READ, "title": "src/tax.py"}
    change = {"kind": "change", "title": "src/shop.py", "detail": "-PRICE = 2\n+PRICE = 3"}
    message = {"kind": "message", "title": "Done.", "detail": "Done.\n\nIt is right."}
    unfinished = {"kind": "command", "title": "sleep 9", "state": "unfinished"}
    await insert_steps(
        *(dashboard.db, job, MODEL, READ, MODEL, tax, FAILED, change, message, unfinished)
    )
    page = await dashboard.viewer.open(f"/jobs/{job}?view=steps")
    for text in (
        *("Commands 2 commands 1 failed", "Files changed 1 files changed", "Files read 2"),
        *("Messages 1", "Model calls 2", "Cost $0.04"),
        "Read 2 files src/shop.py, src/tax.py 2 model calls 3.0 s $0.04",
        "Model large · 10 tokens in, 5 out 1.5 s $0.02",
        "0:20 Run pytest exit 2 850 ms 1 failed",
        *("Done. It is right.", "sleep 9 unfinished"),
    ):
        assert text in page.text, text
    assert '<span class="added">+PRICE = 3</span>' in page.html
    assert f"/jobs/{job}" in page.links
    assert "Download the full log" not in page.text


async def test_the_markdown_of_messages_is_rendered(dashboard, job):
    short = {"kind": "message", "title": "Use `round` <b>."}
    long = {"kind": "message", "title": "Done.", "detail": "Done.\n\n- one\n" + "- two\n" * 200}
    await insert_steps(dashboard.db, job, short, long)
    page = await dashboard.viewer.open(f"/jobs/{job}?view=steps")
    assert "<p>Use <code>round</code> &lt;b&gt;.</p>" in page.html
    assert "<li>one</li>" in page.html


async def test_a_total_shows_only_the_steps_of_its_kind(dashboard, job):
    await insert_steps(dashboard.db, job, READ, READ, FAILED)
    address = f"/jobs/{job}?view=steps"
    page = await dashboard.viewer.open(address)
    assert f"{address}&kind=read" in page.links
    # There are no changes to show.
    assert f"{address}&kind=change" not in page.links
    commands = await dashboard.viewer.open(f"{address}&kind=command")
    assert "Commands only. Show all steps" in commands.text
    assert "pytest" in commands.text
    assert "src/shop.py" not in commands.text
    # The same total leads back.
    assert {address, f"{address}&kind=read"} <= set(commands.links)
    assert f"{address}&kind=command" not in commands.links
    # Steps of one kind are listed one by one.
    reads = await dashboard.viewer.open(f"{address}&kind=read")
    assert reads.text.count("src/shop.py") == 2


async def test_many_steps_have_pages_and_the_last_one_is_shown_first(dashboard, job):
    count = 2 * PAGE_SIZE + 5
    steps = ({"kind": "command", "title": f"make part-{number}."} for number in range(count))
    await insert_steps(dashboard.db, job, *steps)
    address = f"/jobs/{job}?view=steps"
    page = await dashboard.viewer.open(address)
    assert "Steps 201 to 205 of 205" in page.text
    assert "part-204." in page.text
    assert "part-199." not in page.text
    assert f"{address}&page=2" in page.links
    assert f"{address}&page=4" not in page.links
    middle = await dashboard.viewer.open(f"{address}&page=2&kind=command")
    assert "Steps 101 to 200 of 205" in middle.text
    assert {f"{address}&kind=command&page={number}" for number in (1, 3)} <= set(middle.links)
    for number in ("0", "-1", "x", "9" * 99, "4"):
        page = await dashboard.viewer.open(f"{address}&page={number}")
        assert "part-204." in page.text, number


async def test_a_job_without_steps_leads_to_the_log(sample_dashboard):
    await write(sample_dashboard.db, "DELETE FROM job_steps")
    samples = sample_dashboard.samples["acme"]
    for job, text in (
        (samples.queued_job, "No steps yet They appear here as soon as the agent works."),
        (samples.running_job, "some agents report none. See the log"),
        (samples.finished_job, "No steps were recorded"),
    ):
        page = await sample_dashboard.viewer.open(f"/jobs/{job}?view=steps")
        assert text in page.text
        assert f"/jobs/{job}" in page.links


async def test_the_page_follows_the_steps_until_the_job_ends(sample_dashboard):
    job, db = sample_dashboard.samples["acme"].running_job, sample_dashboard.db
    page = await sample_dashboard.viewer.open(f"/jobs/{job}?view=steps")
    stream_path = f"/jobs/{job}/steps/stream?page=1"
    assert f'data-live="{stream_path}"' in page.html

    async def add_a_step_and_finish():
        await first_event.wait()
        await insert_steps(db, job, {"kind": "command", "title": "make later"}, after=90)
        await write(db, "UPDATE jobs SET status = 'completed' WHERE id = :id", id=job)
        db.changes.publish(f"steps:{job}")

    first_event = asyncio.Event()
    adding = asyncio.create_task(add_a_step_and_finish())
    stream = await listen(
        *(sample_dashboard.app, sample_dashboard.viewer, stream_path),
        events=99,
        on_event=first_event.set,
    )
    await adding
    assert stream.events[-1][0] == "end"
    # Only what changed is sent again: the totals and the list's last part.
    sent = [value["id"] for name, value in stream.events if name == "part"]
    assert sent.count("job-steps-0") == 2
    assert sent.count("job-steps-1") == 1
    assert "make later" in stream.parts()["job-steps-0"].text
    finished = await sample_dashboard.viewer.open(f"/jobs/{job}?view=steps")
    assert "steps/stream" not in finished.html
