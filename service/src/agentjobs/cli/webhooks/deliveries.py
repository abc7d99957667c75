"""`agentjobs webhooks deliveries`, `show` and `redeliver`: the delivery log."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Table
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.times import TIME_HELP
from agentjobs.cli.webhooks.commands import webhooks
from agentjobs.cli.webhooks.text import delivery_document, detail_document, format_delivery
from agentjobs_runtime.clock import iso_utc, iso_utc_or_none, now_ms

if TYPE_CHECKING:
    from agentjobs.organizations.organizations import Organization
    from agentjobs.webhooks.log import Delivery, DeliveryFilter

COLUMNS = (
    "id",
    "created",
    "event",
    "job",
    "endpoint",
    "status",
    "attempts",
    "last",
    "next attempt",
)


class Status(StrEnum):
    pending = "pending"
    delivered = "delivered"
    failed = "failed"


DeliveryId = Annotated[str, typer.Argument(metavar="DELIVERY", help="Delivery ID (dlv_…).")]
EndpointOption = Annotated[
    str | None,
    typer.Option("--endpoint", metavar="ENDPOINT", help="Only this endpoint: its ID or exact URL."),
]


@webhooks.command("deliveries")
@store_command
async def list_deliveries(
    admin: Admin,
    *,
    status: Annotated[Status | None, typer.Option("--status", help="Only this status.")] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only this job.")] = None,
    endpoint: EndpointOption = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help=f"Only events since then: {TIME_HELP}"),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, help="Maximum number of deliveries.")
    ] = 100,
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="DELIVERY", help="Next page: only deliveries older than this one."
        ),
    ] = None,
    org: Org = DEFAULT_ORG,
) -> Table:
    """List deliveries with their attempts, newest first."""
    from agentjobs.webhooks import log

    owner = await admin.find_organization(org)
    filters = await _parse_filters(admin, owner, status, job, endpoint, since)
    page = await log.list_deliveries(admin.db, owner.id, filters, limit=limit, before=before)
    documents = [delivery_document(delivery) for delivery in page.deliveries]
    rows = [_row(delivery) for delivery in page.deliveries]
    hint = f"For the next page, add `--before {documents[-1]['id']}`." if page.has_more else None
    return Table(documents, COLUMNS, rows, remarks=[hint] if hint else [])


@webhooks.command("show")
@store_command
async def show_delivery(admin: Admin, delivery: DeliveryId, org: Org = DEFAULT_ORG) -> Answer:
    """Show a delivery with the request and the response of each attempt."""
    from agentjobs.webhooks.log import get_delivery

    detail = await get_delivery(admin.db, await admin.find_organization(org), delivery)
    return Answer(detail_document(detail), format_delivery(detail))


@webhooks.command("redeliver")
@store_command
def redeliver(
    delivery: Annotated[
        str | None, typer.Argument(metavar="[DELIVERY]", help="Delivery ID (dlv_…).")
    ] = None,
    failed_since: Annotated[
        str | None,
        typer.Option(
            "--failed-since",
            metavar="TIME",
            help=f"All deliveries that failed since then: {TIME_HELP}",
        ),
    ] = None,
    endpoint: EndpointOption = None,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Redeliver one delivery, or all that failed since a time. The running service sends them."""
    if (delivery is None) == (failed_since is None):
        raise typer.BadParameter("specify either a delivery or --failed-since TIME")
    if delivery is not None and endpoint is not None:
        raise typer.BadParameter("--endpoint requires --failed-since")

    async def work(admin: Admin) -> Answer:
        if delivery is not None:
            return await _redeliver_one(admin, org, delivery)
        return await _redeliver_failed(admin, org, endpoint, failed_since)

    return work


async def _redeliver_failed(
    admin: Admin, org: str, endpoint: str | None, failed_since: str | None
) -> Answer:
    from agentjobs.webhooks.endpoints import org_flag
    from agentjobs.webhooks.redelivery import redeliver_failed

    owner = await admin.find_organization(org)
    filters = await _parse_filters(admin, owner, None, None, endpoint, failed_since)
    since_ms = filters.since_ms or 0
    done = await redeliver_failed(admin.db, owner.id, since_ms, filters.endpoint_id)
    notes = [f"{done.count} failed deliveries are due again."]
    if done.skipped:
        flag = org_flag(org)
        notes.append(
            f"{done.skipped} were skipped because their endpoints are disabled or removed. "
            f"`agentjobs webhooks list{flag}` shows why; `agentjobs webhooks enable "
            f"ENDPOINT{flag}` enables one."
        )
    return Answer({"redelivered": done.count, "skipped": done.skipped}, [str(done.count)], notes)


async def _redeliver_one(admin: Admin, org: str, delivery: str) -> Answer:
    from agentjobs.webhooks.endpoints import org_flag
    from agentjobs.webhooks.redelivery import redeliver

    await redeliver(admin.db, await admin.find_organization(org), delivery)
    command = f"agentjobs webhooks show {delivery}{org_flag(org)}"
    note = f"{delivery} is due again. `{command}` shows the result."
    return Answer({"id": delivery, "status": "pending"}, [delivery], [note])


async def _parse_filters(
    admin: Admin,
    owner: "Organization",
    status: Status | None,
    job: str | None,
    endpoint: str | None,
    since: str | None,
) -> "DeliveryFilter":
    from agentjobs.cli.times import parse_time_ms
    from agentjobs.webhooks.log import DeliveryFilter, find_logged_endpoint

    # First, because it needs no query.
    since_ms = None if since is None else parse_time_ms(since, now_ms())
    endpoint_id = None
    if endpoint is not None:
        endpoint_id = await find_logged_endpoint(admin.db, owner, endpoint)
    return DeliveryFilter(
        status=None if status is None else status.value,
        job_id=job,
        endpoint_id=endpoint_id,
        since_ms=since_ms,
    )


def _row(delivery: "Delivery") -> list[Any]:
    last = delivery.attempts[-1] if delivery.attempts else None
    return [
        delivery.id,
        iso_utc(delivery.created_at),
        delivery.event,
        delivery.job_id,
        delivery.endpoint_id,
        delivery.status,
        len(delivery.attempts),
        None if last is None else (last.status_code or last.error_class),
        iso_utc_or_none(delivery.next_attempt_at),
    ]
