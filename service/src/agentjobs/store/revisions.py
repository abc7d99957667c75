"""Compares the schema revision of the database with the program's, without Alembic.

A migration's file is named after its revision: `1000_baseline.py` is revision `1000`. Revisions
with the same first digit only add to the schema, so a program runs on every later one of them.
"""

from pathlib import Path

from agentjobs.store.database import Database, SchemaTooNew, SchemaTooOld

MIGRATIONS = Path(__file__).parent / "migrations"
BASELINE = "1000"
LAST_OF_0_2 = "0039"
"""`agentjobs migrate` converts a database with this revision."""


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


async def schema_is_supported(db: Database) -> bool:
    """Whether the schema is the program's own, or a later one that only adds to it."""
    return _supports(await current_revision(db), known_revisions()[-1])


async def newer_revision(db: Database) -> str | None:
    """The revision of the database if it is newer than the program's."""
    revision = await current_revision(db)
    return revision if revision is not None and revision > known_revisions()[-1] else None


async def is_behind(db: Database) -> bool:
    """Whether migrations are due. Raises SchemaTooNew or SchemaTooOld if the program can neither
    run on the schema nor migrate it."""
    revision = await current_revision(db)
    return revision is None or is_older(revision)


def is_older(revision: str) -> bool:
    """Whether migrations follow it. Raises like `is_behind`."""
    known = known_revisions()
    if revision in {LAST_OF_0_2, *known[:-1]}:
        return True
    if is_of_0_2(revision):
        raise SchemaTooOld(
            f"the database has schema {revision} of an earlier version; install agentjobs 0.2.0 and"
            " run its `agentjobs migrate`, then run that of this version"
        )
    if not _supports(revision, known[-1]):
        raise SchemaTooNew(
            f"the database has schema {revision}, but this program supports up to {known[-1]}; "
            "start the version of agentjobs that migrated it, or a later one"
        )
    return False


def is_of_0_2(revision: str) -> bool:
    """Whether 0.2.0 or an earlier version migrated the database last."""
    return revision < BASELINE


def _supports(revision: str | None, own: str) -> bool:
    return revision is not None and revision >= own and revision[:1] == own[:1]
