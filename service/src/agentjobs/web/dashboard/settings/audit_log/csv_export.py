"""Exports the audit log as CSV (RFC 4180), without cells that spreadsheets run as formulas."""

import csv
import io
from collections.abc import Iterable

import msgspec

from agentjobs.organizations.audit import AuditFilter, AuditRecord, list_entries
from agentjobs.store.database import Database
from agentjobs_runtime.clock import iso_utc

MAX_ROWS = 10_000

# Small, because formatting a page blocks the event loop.
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
# Spreadsheets read cells with these prefixes as formulas, also after leading spaces.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


async def export_csv(
    db: Database, organization_id: str, audit_filter: AuditFilter, *, before: str | None = None
) -> str:
    """The newest MAX_ROWS entries, read page by page."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    remaining = MAX_ROWS
    while remaining:
        limit = min(_PAGE, remaining)
        records = await list_entries(db, organization_id, audit_filter, limit=limit, before=before)
        writer.writerows(_row(record) for record in records)
        if len(records) < limit:
            break
        remaining, before = remaining - limit, records[-1].id
    return text.getvalue()


def escape_formula(cell: str) -> str:
    """Prefixes formulas with an apostrophe, which makes them text."""
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
    return map(escape_formula, cells)
