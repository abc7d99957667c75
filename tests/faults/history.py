"""A trigger that stores every change of a job's claim and status, with the role that made it."""

from agentjobs.store.database import Database, Row

_TABLE = """
CREATE TABLE fault_history (
  number {serial} PRIMARY KEY, at BIGINT, writer TEXT, job_id TEXT, old_status TEXT, status TEXT,
  old_fence BIGINT, fence BIGINT, old_owner TEXT, owner TEXT, old_lease BIGINT, old_kept BIGINT,
  kept BIGINT
)
"""
_INSERT = """
INSERT INTO fault_history (at, writer, job_id, old_status, status, old_fence, fence, old_owner,
  owner, old_lease, old_kept, kept)
VALUES ({now}, {writer}, NEW.id, OLD.status, NEW.status, OLD.fence, NEW.fence, OLD.lease_owner,
  NEW.lease_owner, OLD.lease_expires_at, OLD.kept_at, NEW.kept_at);
"""
_POSTGRESQL = f"""
{_TABLE.format(serial="BIGSERIAL")};
CREATE FUNCTION record_fault_history() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (OLD.status, OLD.fence, OLD.lease_owner, OLD.kept_at)
    IS DISTINCT FROM (NEW.status, NEW.fence, NEW.lease_owner, NEW.kept_at) THEN
  {_INSERT.format(now="extract(epoch FROM clock_timestamp()) * 1000", writer="session_user")}
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER fault_history AFTER UPDATE ON jobs
  FOR EACH ROW EXECUTE FUNCTION record_fault_history();
"""
_SQLITE = (
    _TABLE.format(serial="INTEGER"),
    "CREATE TRIGGER fault_history AFTER UPDATE ON jobs WHEN"
    " (OLD.status, OLD.fence, OLD.lease_owner, OLD.kept_at)"
    " IS NOT (NEW.status, NEW.fence, NEW.lease_owner, NEW.kept_at) BEGIN "
    + _INSERT.format(now="0", writer="''")
    + " END",
)


def statements(engine: str) -> tuple[str, ...]:
    """What creates the trigger."""
    return _SQLITE if engine == "sqlite" else (_POSTGRESQL,)


async def load(db: Database) -> dict[str, list[Row]]:
    """The changes of each job, in order."""
    changes: dict[str, list[Row]] = {}
    for row in await db.fetch_all("SELECT * FROM fault_history ORDER BY number"):
        changes.setdefault(row["job_id"], []).append(row)
    return changes
