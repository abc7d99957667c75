"""The dashboard's lists of jobs on both databases: filters, pages and search."""

import asyncio
from typing import Any

import pytest

from agentjobs.jobs.model import JobView
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.retry import retry_job
from agentjobs.jobs.views import listing
from agentjobs.jobs.views.detail_queries import load_details
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import JobPage, list_lines
from agentjobs.jobs.views.queries import list_jobs
from agentjobs.organizations.audit import Actor, AuditFilter, acting_as, list_entries
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks.log import DeliveryFilter, list_deliveries
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import first_id_at, new_id
from agentjobs_runtime.problems import Problem
from tests.support.jobs import JobHarness, insert_repo

PERSON = Actor("user", "Ada", "usr_ada", "192.0.2.1")


class Counting:
    """A database that counts its statements."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.statements = 0

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        self.statements += 1
        return await self._db.fetch_all(sql, **parameters)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was not expected")


async def set_columns(db: Database, job_id: str, **columns: Any) -> None:
    async def update(tx: Transaction) -> None:
        assigned = ", ".join(f"{name} = :{name}" for name in columns)
        await tx.execute(f"UPDATE jobs SET {assigned} WHERE id = :job_id", job_id=job_id, **columns)

    await db.transact(update)


async def page(harness: JobHarness, caller: Caller, limit: int = 10, **filters: Any) -> JobPage:
    before = filters.pop("before", None)
    return await list_lines(
        harness.db, caller.organization_id, JobFilter(**filters), limit=limit, before=before
    )


async def ids(harness: JobHarness, caller: Caller, **filters: Any) -> list[str]:
    return [line.job_id for line in (await page(harness, caller, **filters)).lines]


async def test_a_line_shows_a_job_and_its_result(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(
        caller, ticket_id="ABC-1", config_override={"prompt": "\nMake it quick\nand good"}
    )
    usage = '{"input_tokens": 1, "output_tokens": 2, "cost_usd": 0.25, "requests": 1}'
    await set_columns(
        harness.db,
        job_id,
        status="completed",
        started_at=5,
        completed_at=9,
        pr_number=7,
        pr_url="https://forge.example/7",
        usage=usage,
    )
    (line,) = (await page(harness, caller)).lines
    assert (line.job_id, line.repo, line.agent) == (job_id, "acme/shop", "fixer")
    assert (line.status, line.started_at, line.completed_at) == ("completed", 5, 9)
    assert (line.pr_number, line.pr_url) == (7, "https://forge.example/7")
    assert (line.cost_usd, line.ticket_id, line.title) == (0.25, "ABC-1", "Make it quick")
    assert line.created_by_name == caller.name
    assert (line.error_code, line.follows) == (None, None)
    assert abs(line.created_at - now_ms()) < DAY_MS


async def test_a_job_has_the_title_of_its_ticket_and_is_found_by_it(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller, ticket_id="ABC-1")
    await harness.job(caller)
    ticket = '{"title": "Totals are wrong", "url": "https://tracker.example.com/1"}'
    await set_columns(harness.db, job_id, ticket=ticket)
    (line,) = (await page(harness, caller, text="totals are")).lines
    assert (line.job_id, line.title) == (job_id, "Totals are wrong")
    assert (line.shown_title, line.subtitle) == ("Totals are wrong", "fixer on acme/shop")
    other = (await page(harness, caller)).lines[0]
    assert (other.title, other.shown_title, other.subtitle) == (None, "fixer on acme/shop", "")


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"status": "failed"},
        {"repo": "acme/shop", "agent": "fixer", "status": "queued", "ticket": "ABC-1"},
        {"created_by": "key_x", "text": "shop"},
        {"text": "nothing like it"},
        {"labels": {"team": "pay"}},
        {"labels": {"team": "pay", "run": ""}, "repo": "acme/shop", "since": 1, "text": "shop"},
        {"follows": "job_x", "labels": {"team": "pay"}},
    ],
)
async def test_a_page_is_one_statement(harness: JobHarness, filters: dict[str, Any]) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    counting: Any = Counting(harness.db)
    await list_lines(counting, caller.organization_id, JobFilter(**filters), limit=5)
    assert counting.statements == 1


async def test_pages_are_newest_first_and_reach_the_last(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_ids = [await harness.job(caller) for _ in range(5)]
    listed: list[str] = []
    before = None
    for _ in range(3):
        result = await page(harness, caller, limit=2, before=before)
        listed += [line.job_id for line in result.lines]
        assert result.searched_to is None
        before = result.next_before
    assert listed == job_ids[::-1]
    assert before is None


async def test_single_and_combined_filters_match_all_their_values(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await harness.db.transact(insert_repo, caller.organization_id, "acme/tool", "ready")
    plain = await harness.job(caller)
    ticket = await harness.job(caller, ticket_id="ABC-1")
    tool = await harness.job(caller, repo="acme/tool")
    other = await harness.job(caller, agent="pro-fixer", repo="acme/tool")
    await set_columns(harness.db, other, status="failed", created_by="usr_ada")

    assert await ids(harness, caller, ticket="ABC-1") == [ticket]
    assert await ids(harness, caller, repo="acme/tool") == [other, tool]
    assert await ids(harness, caller, agent="fixer") == [tool, ticket, plain]
    assert await ids(harness, caller, status="failed") == [other]
    assert await ids(harness, caller, created_by="usr_ada") == [other]
    assert await ids(harness, caller, repo="acme/tool", agent="fixer") == [tool]
    assert await ids(harness, caller, repo="acme/shop", status="queued") == [ticket, plain]
    assert await ids(harness, caller, agent="fixer", status="failed") == []
    assert await ids(harness, caller, repo="acme/shop", agent="fixer", ticket="ABC-1") == [ticket]
    # A prefix of a value does not match.
    assert await ids(harness, caller, repo="acme/too") == []
    assert await ids(harness, caller, repo="acme/sho\0p") == []
    both = JobFilter(repo="acme/tool", agent="fixer")
    views = await list_jobs(harness.context, caller.organization_id, both)
    assert [view.job_id for view in views.jobs] == [tool]


async def test_times_bound_the_list(harness: JobHarness) -> None:
    caller = await harness.organization()
    now = now_ms()
    job_ids = []
    for days in (3, 2, 1):
        job_id = await harness.job(caller)
        old = first_id_at("job", now - days * DAY_MS)
        await set_columns(harness.db, job_id, id=old, created_at=now - days * DAY_MS)
        job_ids.append(old)
    day = {"since": now - 2 * DAY_MS, "until": now - DAY_MS}
    assert await ids(harness, caller, **day) == [job_ids[1]]
    assert await ids(harness, caller, **day, status="queued", repo="acme/shop") == [job_ids[1]]
    assert await ids(harness, caller, **day, text="shop") == [job_ids[1]]
    assert await ids(harness, caller, since=now) == []


async def test_another_organizations_jobs_are_never_listed(harness: JobHarness) -> None:
    acme, evil = await harness.organization(), await harness.organization("evil")
    await harness.job(acme)
    for filters in (
        {},
        {"status": "queued"},
        {"agent": "fixer", "status": "queued"},
        {"text": "j"},
    ):
        assert await ids(harness, evil, **filters) == []


async def test_the_search_finds_substrings_and_ignores_ascii_case(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    override = {"prompt": "Bring 100% of the_Ümlaut"}
    job_id = await harness.job(caller, ticket_id="ABC-17", config_override=override)
    await set_columns(
        harness.db, job_id, error_code="timeout", error_message="It took too LONG", pr_number=4321
    )
    await harness.job(caller, agent="pro-fixer")
    texts = ("abc-1", "0% OF", "the_Üm", "TIMEOUT", "too long", "#4321", "432", job_id[8:].upper())
    for text in texts:
        assert await ids(harness, caller, text=f" {text} ") == [job_id], text
    for text in ("%", "_"):
        assert await ids(harness, caller, text=text * 2) == [], text
    for text in ("10_%", "abc%17", "\\", "themlaut", "fixer\nabc"):
        assert await ids(harness, caller, text=text) == [], text
    assert len(await ids(harness, caller, text="")) == 2


async def test_a_search_stops_after_a_number_of_jobs_and_resumes_there(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_SCANNED", 3)
    caller = await harness.organization()
    oldest = await harness.job(caller, ticket_id="NEEDLE-1")
    for _ in range(4):
        await harness.job(caller)
    first = await page(harness, caller, text="needle")
    assert first.lines == []
    assert first.next_before is not None
    assert first.searched_to is not None
    assert abs(first.searched_to - now_ms()) < DAY_MS
    second = await page(harness, caller, text="needle", before=first.next_before)
    assert [line.job_id for line in second.lines] == [oldest]
    assert (second.next_before, second.searched_to) == (None, None)


async def test_of_two_filters_the_rarer_is_scanned_however_many_jobs_match_the_other(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_SCANNED", 3)
    caller = await harness.organization()
    rare = await harness.job(caller, agent="pro-fixer")
    for _ in range(8):
        await harness.job(caller)
    result = await page(harness, caller, repo="acme/shop", agent="pro-fixer")
    assert [line.job_id for line in result.lines] == [rare]
    assert (result.next_before, result.searched_to) == (None, None)
    # Both values are common here: the page says how far the search got.
    both = await page(harness, caller, limit=2, repo="acme/shop", agent="fixer", text="no such")
    assert both.lines == []
    assert both.searched_to is not None


async def test_a_retry_has_the_same_request(harness: JobHarness) -> None:
    caller, evil = await harness.organization(), await harness.organization("evil")
    override = {"prompt": "again and again", "draft": True}
    job_id = await harness.job(
        caller, ticket_id="ABC-1", config_override=override, labels={"team": "pay"}
    )
    with pytest.raises(Problem) as problem:
        await retry_job(harness.context, caller, job_id)
    assert problem.value.code == "job_not_finished"
    await cancel_job(harness.db, caller.organization_id, job_id)
    with acting_as(PERSON):
        created = await retry_job(harness.context, caller, job_id)
    details = await load_details(harness.context, caller.organization_id, created.receipt.job_id)
    view = await harness.view(caller, created.receipt.job_id)
    assert created.receipt.job_id != job_id
    assert (view.repo, view.agent, view.ticket_id) == ("acme/shop", "fixer", "ABC-1")
    assert details.config_override == override
    assert view.labels == {"team": "pay"}
    with pytest.raises(Problem) as problem:
        await retry_job(harness.context, evil, job_id)
    assert problem.value.code == "job_not_found"


async def test_a_retry_finds_a_repository_that_was_renamed_since(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await cancel_job(harness.db, caller.organization_id, job_id)
    await harness.db.transact(_rename_repos, "acme/store")
    again = await retry_job(harness.context, caller, job_id, labels={"run": "2"})
    view = await harness.view(caller, again.receipt.job_id)
    assert (view.repo, view.labels) == ("acme/store", {"run": "2"})


async def _rename_repos(tx: Transaction, full_name: str) -> None:
    await tx.execute("UPDATE repos SET full_name = :full_name", full_name=full_name)


async def test_people_who_create_and_cancel_are_audited_and_keys_are_not(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    by_key = await harness.job(caller)
    await cancel_job(harness.db, caller.organization_id, by_key)
    with acting_as(PERSON):
        by_hand = await harness.job(caller)
        await cancel_job(harness.db, caller.organization_id, by_hand)
    with acting_as(Actor("key", "ci")):
        await harness.job(caller)
    cancelled, created = await list_entries(
        harness.db, caller.organization_id, AuditFilter(action="job"), limit=9
    )
    assert (created.action, created.target, created.actor) == ("job.created", by_hand, "Ada")
    assert created.details == {"repo": "acme/shop", "agent": "fixer"}
    assert (cancelled.action, cancelled.target) == ("job.cancelled", by_hand)


async def test_the_details_of_a_job_name_its_follow_ups(harness: JobHarness) -> None:
    caller, evil = await harness.organization(), await harness.organization("evil")
    job_id = await harness.job(caller, config_override={"base_branch": "next"})
    follow_ups = [await harness.job(caller) for _ in range(2)]
    for each in follow_ups:
        await set_columns(harness.db, each, follows=job_id)
    details = await load_details(harness.context, caller.organization_id, job_id)
    assert (details.follows, details.followed_by) == (None, tuple(follow_ups))
    assert (details.platform, details.base_branch, details.prompt) == ("local", "next", None)
    assert details.created_by_name == caller.name
    later = await load_details(harness.context, caller.organization_id, follow_ups[0])
    assert (later.follows, later.followed_by, later.base_branch) == (job_id, (), "main")
    with pytest.raises(Problem):
        await load_details(harness.context, evil.organization_id, job_id)


async def test_the_events_of_a_job_have_their_deliveries_with_the_last_response(
    harness: JobHarness,
) -> None:
    caller, evil = await harness.organization(), await harness.organization("evil")
    endpoint_id = new_id("whk")
    await harness.db.transact(_insert_endpoint, endpoint_id, caller.organization_id)
    job_id = await harness.job(caller)
    await harness.db.transact(_insert_attempts, job_id)
    of_job = DeliveryFilter(job_id=job_id)
    (delivery,) = (await list_deliveries(harness.db, caller.organization_id, of_job)).deliveries
    assert (delivery.event, delivery.sequence) == ("job.queued", 1)
    assert (delivery.endpoint_id, delivery.url) == (endpoint_id, "https://hooks.example")
    last = delivery.attempts[-1]
    assert (delivery.status, last.status_code, last.error_class) == ("pending", 200, None)
    assert delivery.next_attempt_at is not None
    assert (await list_deliveries(harness.db, evil.organization_id, of_job)).deliveries == []


async def _insert_endpoint(tx: Transaction, endpoint_id: str, organization_id: str) -> None:
    await tx.execute(
        "INSERT INTO webhook_endpoints (id, organization_id, url, sealed, key_id, created_at,"
        " updated_at) VALUES (:id, :organization_id, 'https://hooks.example', :sealed, 'k', 0, 0)",
        id=endpoint_id,
        organization_id=organization_id,
        sealed=b"s",
    )


async def _insert_attempts(tx: Transaction, job_id: str) -> None:
    row = await tx.fetch_one("SELECT id FROM deliveries WHERE job_id = :job_id", job_id=job_id)
    assert row is not None
    for number, (status_code, error_class) in enumerate(((500, "http_status"), (200, None))):
        await tx.execute(
            "INSERT INTO delivery_attempts (delivery_id, id, at, duration_ms, status_code,"
            " error_class, request_headers, response_headers, response_body)"
            " VALUES (:delivery_id, :id, 1, 1, :status_code, :error_class, '[]', '[]', :body)",
            delivery_id=row["id"],
            id=f"{number + 1:012}",
            status_code=status_code,
            error_class=error_class,
            body=b"",
        )


async def test_jobs_read_together_are_shown_to_their_own_organization_only(
    harness: JobHarness,
) -> None:
    acme, evil = await harness.organization(), await harness.organization("evil")
    jobs = {caller: await harness.job(caller) for caller in (acme, evil)}
    lookups = [(caller, jobs[owner]) for caller in (acme, evil) for owner in (acme, evil, acme)]
    results = await asyncio.gather(
        *(harness.view(caller, job_id) for caller, job_id in lookups), return_exceptions=True
    )
    for (caller, job_id), result in zip(lookups, results, strict=True):
        if job_id == jobs[caller]:
            assert isinstance(result, JobView)
            assert result.job_id == job_id
        else:
            assert isinstance(result, Problem)
            assert result.code == "job_not_found"
