"""The audit log as a CSV file (RFC 4180) that a spreadsheet can open without running anything."""

import csv
import io
from collections.abc import Iterable

import msgspec

from agentjobs.clock import iso_utc
from agentjobs.organizations.audit import AuditFilter, AuditRecord, list_entries
from agentjobs.store.database import Database

MOST_ROWS = 10_000

# Each is put into words between two other requests: small enough that nobody notices.
_PAGE = 250
_COLUMNS = [
    "at",
    "actor_kind",
    "actor",
    "actor_email",
    "actor_id",
    "action",
    "target",
    "details",
    "address",
    "id",
]
# A cell that begins like this is a formula to a spreadsheet; so it is when blanks come first.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


async def csv_of(
    db: Database, organization_id: str, wanted: AuditFilter, *, before: str | None = None
) -> str:
    """The newest MOST_ROWS entries, read page by page."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    left = MOST_ROWS
    while left:
        limit = min(_PAGE, left)
        records = await list_entries(db, organization_id, wanted, limit=limit, before=before)
        writer.writerows(_row(record) for record in records)
        if len(records) < limit:
            break
        left, before = left - limit, records[-1].id
    return text.getvalue()


def harmless(cell: str) -> str:
    """No formula, whatever program opens it: what begins like one gets an apostrophe before it."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA_STARTS) else cell


def _row(record: AuditRecord) -> Iterable[str]:
    cells = (
        iso_utc(record.at),
        record.actor_kind,
        record.actor,
        record.actor_email or "",
        record.actor_id or "",
        record.action,
        record.target,
        msgspec.json.encode(record.details).decode(),
        record.address,
        record.id,
    )
    return map(harmless, cells)
