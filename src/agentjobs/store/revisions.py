"""Compares the schema revision of the database with the program's, without Alembic.

A migration's file is named after its revision: `0001_foundation.py` is revision `0001`.
"""

from pathlib import Path

from agentjobs.store.database import Database, SchemaTooNew

MIGRATIONS = Path(__file__).parent / "migrations"


def known_revisions() -> list[str]:
    """Oldest first."""
    return sorted(file.name.split("_")[0] for file in (MIGRATIONS / "versions").glob("[0-9]*_*.py"))


async def current_revision(db: Database) -> str | None:
    """None if the database is empty."""
    table = await db.fetch_one(
        "/*sqlite SELECT 1 AS found FROM sqlite_master WHERE name = 'alembic_version' */"
        "/*postgresql SELECT 1 AS found WHERE to_regclass('alembic_version') IS NOT NULL */"
    )
    row = table and await db.fetch_one("SELECT version_num FROM alembic_version")
    return row["version_num"] if row else None


async def schema_is_current(db: Database) -> bool:
    return await current_revision(db) == known_revisions()[-1]


async def is_behind(db: Database) -> bool:
    """Whether migrations are due. Raises SchemaTooNew if the database is newer than the program."""
    revision = await current_revision(db)
    known = known_revisions()
    if revision is not None and revision not in known:
        raise SchemaTooNew(
            f"the database has schema {revision}, but this program supports up to {known[-1]}; "
            "start the version of agentjobs that migrated it, or a later one"
        )
    return revision != known[-1]
