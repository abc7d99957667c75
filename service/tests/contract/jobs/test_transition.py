"""What transitions store: the events as receivers see them, their deliveries, and how often it
asks the server."""

import msgspec

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.store.database import Transaction
from agentjobs.store.postgresql.database import PostgresqlDatabase
from agentjobs.webhooks.events import JOB_COMPLETED, JOB_STARTED, PR_REVIEW_REQUESTED, Payload
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.identifiers import id_matcher
from agentjobs_runtime.protocol.outcomes import Completed
from tests.support.deliveries import DeliveryHarness
from tests.support.jobs import JobHarness

URL = 'http://x/"grün"\\1\n'
DONE = Completed(URL, 1, "2" * 40, draft=False)


async def test_events_of_a_run_are_stored_as_receivers_see_them(harness: JobHarness) -> None:
    job_id = await harness.job(await harness.organization())
    claimed = await harness.claim()
    await start_job(harness.db, claimed, "1" * 40)
    await finish_job(harness.db, claimed, DONE)

    _, *rows = await harness.db.fetch_all(
        "SELECT * FROM events WHERE job_id = :id ORDER BY sequence", id=job_id
    )

    assert [(row["sequence"], row["event"]) for row in rows] == [
        (2, JOB_STARTED),
        (3, JOB_COMPLETED),
        (4, PR_REVIEW_REQUESTED),
    ]
    for row, url in zip(rows, (None, URL, URL), strict=True):
        payload = Payload(row["event"], job_id, "acme/shop", url, iso_utc(row["created_at"]))
        assert bytes(row["body"]) == msgspec.json.encode(payload)
        assert row["organization_id"] == claimed.organization_id


async def test_each_event_of_a_run_goes_to_the_endpoints_that_subscribe_to_it(
    harness: JobHarness,
) -> None:
    caller, other = await harness.organization(), await harness.organization("other")
    webhooks = DeliveryHarness(harness.db)
    everything = await webhooks.endpoint(caller.organization_id)
    ends = await webhooks.endpoint(caller.organization_id, events='["job.completed"]')
    disabled = await webhooks.endpoint(caller.organization_id)
    await webhooks.change_endpoint(disabled, disabled_at=1)
    await webhooks.endpoint(other.organization_id)
    await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, "1" * 40)
    await finish_job(harness.db, claimed, DONE)

    rows = await harness.db.fetch_all(
        "SELECT d.*, e.id AS stored_id, e.created_at AS at FROM deliveries d"
        " JOIN events e ON e.job_id = d.job_id AND e.sequence = d.sequence ORDER BY d.sequence"
    )

    assert {(row["endpoint_id"], row["event"]) for row in rows if row["sequence"] > 1} == {
        (everything, JOB_STARTED),
        (everything, JOB_COMPLETED),
        (everything, PR_REVIEW_REQUESTED),
        (ends, JOB_COMPLETED),
    }
    assert all(map(id_matcher("dlv"), (row["id"] for row in rows)))
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert (row["status"], row["attempts"]) == ("pending", 0)
        assert row["event_id"] == row["stored_id"]
        assert row["due_at"] == row["created_at"] == row["at"]


async def test_start_and_end_take_one_round_trip_each(harness: JobHarness) -> None:
    caller = await harness.organization()
    await DeliveryHarness(harness.db).endpoint(caller.organization_id)
    await harness.job(caller)
    claimed = await harness.claim()
    if not isinstance(harness.db, PostgresqlDatabase):
        return
    ((connection, _),) = harness.db._pool._idle
    sent: list[str] = []
    connection.add_query_logger(lambda query: sent.append(query.query.split()[0]))

    await start_job(harness.db, claimed, "1" * 40)
    await finish_job(harness.db, claimed, DONE)
    # The log is written by callbacks of the event loop.
    await harness.view(caller, claimed.id)

    assert sent[:2] == ["WITH", "WITH"]
    assert "COMMIT" not in sent


async def test_a_claim_that_a_crash_may_forget_has_a_fence_that_is_not_used_again(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    forgotten = await harness.claim()
    if harness.db.engine == "postgresql":
        await harness.db.transact(_forget_claim)
        assert (await harness.claim()).fence > forgotten.fence


async def _forget_claim(tx: Transaction) -> None:
    await tx.execute("UPDATE job_queue SET lease_owner = NULL, lease_expires_at = NULL, fence = 0")
