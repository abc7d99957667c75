"""A restored store starts paused and remembers when it was restored: jobs from before that may
have run after the backup was made. Links that work once may have been used since then."""

from agentjobs.organizations.effective_settings import setting_changed_at
from agentjobs.organizations.pauses import pause_statement
from agentjobs.store.database import Database

_SETTING = "restored_at"


def restore_statements(now: int) -> tuple[str, ...]:
    remember = (
        "INSERT INTO effective_settings (name, value, updated_at)"
        f" VALUES ('{_SETTING}', 'true', {now})"
        " ON CONFLICT (name) DO UPDATE SET updated_at = excluded.updated_at"
    )
    return remember, pause_statement(now), "DELETE FROM sign_in_links"


async def restored_at(db: Database) -> int | None:
    """None if the store was never restored."""
    return await setting_changed_at(db, _SETTING)
