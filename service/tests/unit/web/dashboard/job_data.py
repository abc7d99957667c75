"""Sample jobs: one queued, one running and two finished."""

import msgspec

from agentjobs.organizations.authentication import Caller
from agentjobs_runtime.clock import now_ms
from service.tests.unit.web.dashboard.repository import Repository, TextMaker
from tests.support.jobs import JobHarness
from tests.support.steps import insert_steps
from tests.support.users import write

PUBLIC_URL = "http://127.0.0.1:8080"
ARTIFACT = "screenshot.png"
_SMALL_STEPS = (("model", "large"), ("read", "prices.py"), ("model", "small"), ("read", "tax.py"))
_STEPS = (
    ("command", "pytest", "1 passed"),
    ("change", "src/shop.py", "-PRICE = 2\n+PRICE = 3"),
    ("message", "Done.", "Done.\n\nThe price is right."),
    ("other", "Grep PRICE", "2 files"),
)


async def insert_jobs(
    harness: JobHarness, caller: Caller, repository: Repository, make_text: TextMaker
) -> dict[str, str]:
    override = {
        "title": make_text("Fix the price"),
        "prompt": make_text("Please do"),
        make_text("depth"): make_text("2"),
    }
    finished = await harness.job(caller, ticket_id="SHOP-1", config_override={})
    failed = await harness.job(caller)
    running = await harness.job(caller)
    queued = await harness.job(caller)
    now = now_ms()
    check = {
        "command": make_text("make check"),
        "passed": False,
        "exit_code": 1,
        "duration_ms": 1_500,
        "output": make_text("1 failed"),
    }
    ended = {
        "now": now,
        "override": msgspec.json.encode(override).decode(),
        "prompt": make_text("You are an agent."),
        "verification": msgspec.json.encode(check).decode(),
        "who": make_text("Ada"),
    }
    sql = (
        "UPDATE jobs SET status = :status, started_at = :now, completed_at = :now,"
        " config_override = :override, prompt = :prompt, verification = :verification,"
        " created_by_name = :who, branch = :branch, ticket_id = :ticket"
    )
    await write(
        harness.db,
        f"{sql}, base_commit = :base, head_commit = :head, pr_url = :url, pr_number = 1"
        " WHERE id = :id",
        id=finished,
        status="completed",
        branch=repository.branches["open"],
        ticket=make_text("SHOP-1"),
        base=repository.commits["first"],
        head=repository.commits["open"],
        url=f"{PUBLIC_URL}/{caller.organization}/{caller.organization}/shop/pulls/1",
        **ended,
    )
    await write(
        harness.db,
        f"{sql}, error_code = 'agent_failed', error_message = :message WHERE id = :id",
        id=failed,
        status="failed",
        branch=make_text("agentjobs/failed"),
        ticket=make_text("SHOP-2"),
        message=make_text("It gave up."),
        **ended,
    )
    await write(
        harness.db,
        "UPDATE jobs SET status = 'running', started_at = :now, config_override = :override"
        " WHERE id = :id",
        id=running,
        now=now,
        override=ended["override"],
    )
    await write(
        harness.db,
        "UPDATE job_queue SET lease_owner = 'wrk_a', lease_expires_at = :until WHERE job_id = :id",
        id=running,
        until=now + 3_600_000,
    )
    await write(harness.db, "DELETE FROM job_queue WHERE job_id IN (:a, :b)", a=finished, b=failed)
    for job in (finished, failed, running):
        await write(
            harness.db,
            "INSERT INTO job_logs (job_id, sequence, created_at, text) VALUES (:id, 1, :at, :text)",
            id=job,
            at=now,
            text=(
                f"{make_text('compiling')}\n\x1b[31m{make_text('in red')}\x1b[0m\n"
                f"{make_text('the end')}"
            ),
        )
        await insert_steps(
            harness.db,
            job,
            *({"kind": kind, "title": make_text(title)} for kind, title in _SMALL_STEPS),
            *(
                {"kind": kind, "title": make_text(title), "detail": make_text(detail)}
                for kind, title, detail in _STEPS
            ),
            {"kind": "command", "title": make_text("sleep"), "state": "running"},
        )
    for name, media_type, content in (
        (ARTIFACT, "image/png", b"\x89PNG\r\n\x1a\n"),
        ("page.png", "text/plain", make_text("<b>").encode()),
    ):
        await write(
            harness.db,
            "INSERT INTO job_artifacts (job_id, name, media_type, size_bytes, content, created_at)"
            " VALUES (:id, :name, :media_type, :size, :content, :now)",
            id=finished,
            name=name,
            media_type=media_type,
            size=len(content),
            content=content,
            now=now,
        )
    return {
        "finished_job": finished,
        "failed_job": failed,
        "running_job": running,
        "queued_job": queued,
    }
