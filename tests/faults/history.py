"""Triggers that store every change of a job's claim and status, with the role that made it."""

from collections.abc import Iterable
from typing import Any

from agentjobs.store.database import Database, Row

_TABLE = """
CREATE TABLE fault_history (
  number {serial} PRIMARY KEY, at BIGINT, writer TEXT, job_id TEXT, old_status TEXT, status TEXT,
  old_fence BIGINT, fence BIGINT, old_owner TEXT, owner TEXT, old_lease BIGINT, old_kept BIGINT,
  kept BIGINT, is_claim BOOLEAN
)
"""
_COLUMNS = (
    "at, writer, job_id, old_status, status, old_fence, fence, old_owner, owner, old_lease,"
    " old_kept, kept, is_claim"
)
_OF_CLAIM = (
    f"INSERT INTO fault_history ({_COLUMNS}) SELECT {{now}}, {{writer}}, OLD.job_id, j.status,"
    " j.status, OLD.fence, {fence}, OLD.lease_owner, {owner}, OLD.lease_expires_at, j.kept_at,"
    " j.kept_at, TRUE FROM jobs j WHERE j.id = OLD.job_id;"
)
_OF_JOB = (
    f"INSERT INTO fault_history ({_COLUMNS}) SELECT {{now}}, {{writer}}, NEW.id, OLD.status,"
    " NEW.status, q.fence, q.fence, q.lease_owner, q.lease_owner, q.lease_expires_at, OLD.kept_at,"
    " NEW.kept_at, FALSE FROM (SELECT 1) AS always LEFT JOIN job_queue q ON q.job_id = NEW.id;"
)
_CLAIM_CHANGES = "(OLD.fence, OLD.lease_owner) {differs} (NEW.fence, NEW.lease_owner)"
_JOB_CHANGES = "(OLD.status, OLD.kept_at) {differs} (NEW.status, NEW.kept_at)"
# Whose row was deleted cannot write: as if the fence had been raised.
_DELETED = {"fence": "OLD.fence + 1", "owner": "NULL"}
_UPDATED = {"fence": "NEW.fence", "owner": "NEW.lease_owner"}
_POSTGRESQL_WRITER = {
    "now": "extract(epoch FROM clock_timestamp()) * 1000",
    "writer": "session_user",
}
_SQLITE_WRITER = {"now": "0", "writer": "''"}
_POSTGRESQL_TRIGGER = """
CREATE FUNCTION record_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  {insert}
  RETURN NULL;
END $$;
CREATE TRIGGER {name} AFTER {event} FOR EACH ROW {condition} EXECUTE FUNCTION record_{name}();
"""
_SQLITE_TRIGGER = "CREATE TRIGGER {name} AFTER {event} {condition} BEGIN {insert} END"


def _triggers(template: str, differs: str, writer: dict[str, str]) -> list[str]:
    claim = f"WHEN ({_CLAIM_CHANGES.format(differs=differs)})"
    job = f"WHEN ({_JOB_CHANGES.format(differs=differs)})"
    return [
        template.format(name=name, event=event, condition=condition, insert=insert)
        for name, event, condition, insert in (
            ("claim_changed", "UPDATE ON job_queue", claim, _OF_CLAIM.format(**writer, **_UPDATED)),
            ("claim_deleted", "DELETE ON job_queue", "", _OF_CLAIM.format(**writer, **_DELETED)),
            ("job_changed", "UPDATE ON jobs", job, _OF_JOB.format(**writer)),
        )
    ]


_POSTGRESQL = "".join(
    [
        f"{_TABLE.format(serial='BIGSERIAL')};",
        *_triggers(_POSTGRESQL_TRIGGER, "IS DISTINCT FROM", _POSTGRESQL_WRITER),
    ]
)
_SQLITE = (
    _TABLE.format(serial="INTEGER"),
    *_triggers(_SQLITE_TRIGGER, "IS NOT", _SQLITE_WRITER),
)


def statements(engine: str) -> tuple[str, ...]:
    """What creates the trigger."""
    return _SQLITE if engine == "sqlite" else (_POSTGRESQL,)


async def load(db: Database) -> dict[str, list[Row]]:
    """The changes of each job, in order."""
    rows: dict[str, list[Row]] = {}
    for row in await db.fetch_all("SELECT * FROM fault_history ORDER BY number"):
        rows.setdefault(row["job_id"], []).append(row)
    return {job_id: list(_combine(changes)) for job_id, changes in rows.items()}


def _combine(rows: Iterable[Row]) -> Iterable[Any]:
    """The end of a claim and the change of the job that follows it are one change."""
    ended: dict[str, Any] | None = None
    for row in map(dict, rows):
        if ended is not None:
            yield ended if row["is_claim"] else {**ended, **_job_columns(row)}
            if not row["is_claim"]:
                ended = None
                continue
        ended = row if row["is_claim"] and row["owner"] is None else None
        if ended is None:
            yield row
    if ended is not None:
        yield ended


def _job_columns(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("old_status", "status", "old_kept", "kept")}
