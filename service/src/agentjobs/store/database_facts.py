"""What operators see of the database: engine, version, size and schema."""

import msgspec

from agentjobs.store.database import Database, to_struct
from agentjobs.store.revisions import current_revision, known_revisions


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`own_schema` is the newest one that this program knows."""

    engine: str
    version: str
    size_bytes: int
    schema: str
    own_schema: str


async def read_database_facts(db: Database) -> DatabaseFacts:
    row = await db.fetch_one(
        "/*postgresql SELECT 'PostgreSQL' AS engine, current_setting('server_version') AS version,"
        " pg_database_size(current_database()) AS size_bytes */"
        "/*sqlite SELECT 'SQLite' AS engine, sqlite_version() AS version,"
        " p.page_count * s.page_size AS size_bytes"
        " FROM pragma_page_count() p, pragma_page_size() s */"
    )
    assert row is not None
    schema, own_schema = await current_revision(db) or "", known_revisions()[-1]
    return to_struct(row, DatabaseFacts, schema=schema, own_schema=own_schema)
