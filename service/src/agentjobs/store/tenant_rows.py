"""Reads and deletes all rows of one organization, table by table, in small pages.

This module knows no table: `cli/orgs/tables.py` lists them.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from agentjobs.store.database import Database, Row, Transaction

ROOT = "organizations"

_PARENTS_PER_PAGE = 100


class TenantTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table with rows of organizations.

    `column` holds the identifier of a row of `parent`, which is such a table, too. `where` replaces
    that condition if rows are found in another way; `:parents` are the identifiers. Exports leave
    out `unexported` columns: secrets, and hashes of tokens and passwords.
    """

    name: str
    key: tuple[str, ...] = ("id",)
    parent: str = ROOT
    column: str = "organization_id"
    where: str = ""
    unexported: tuple[str, ...] = ()
    rows_per_page: int = 200

    @property
    def condition(self) -> str:
        return self.where or f"{self.column} IN (SELECT value FROM each(:parents))"


class TenantTables:
    """All tables with rows of organizations, in the order in which `delete` empties them."""

    def __init__(self, tables: Sequence[TenantTable]) -> None:
        self.all = tables
        self._by_name = {table.name: table for table in tables}

    async def read(
        self, db: Database, table: TenantTable, organization_id: str
    ) -> AsyncIterator[list[Row]]:
        """The rows in pages, in the order of the key within each page of parents."""
        async for parents in self._parents(db, table, organization_id):
            async for rows in _pages(db, table, parents, "*", table.rows_per_page):
                yield rows

    async def delete(self, db: Database, organization_id: str) -> dict[str, int]:
        """Returns the number of deleted rows by table. Can be repeated after an interruption.

        Raises IntegrityError if rows are added meanwhile.
        """
        deleted: dict[str, int] = {}
        for table in self.all:
            deleted[table.name] = 0
            async for parents in self._parents(db, table, organization_id):
                while count := await db.transact(_delete, table, parents):
                    deleted[table.name] += count
        return deleted

    async def _parents(
        self, db: Database, table: TenantTable, organization_id: str
    ) -> AsyncIterator[list[str]]:
        if table.parent == ROOT:
            yield [organization_id]
            return
        parent = self._by_name[table.parent]
        async for grandparents in self._parents(db, parent, organization_id):
            async for rows in _pages(db, parent, grandparents, "id", _PARENTS_PER_PAGE):
                yield [row["id"] for row in rows]


async def _pages(
    db: Database, table: TenantTable, parents: Sequence[str], columns: str, limit: int
) -> AsyncIterator[list[Row]]:
    key = ", ".join(table.key)
    start = f"SELECT {columns} FROM {table.name} WHERE {table.condition}"
    end = f" ORDER BY {key} LIMIT :limit"
    names = [f"after_{number}" for number in range(len(table.key))]
    following = f" AND ({key}) > ({', '.join(f':{name}' for name in names)})"
    rows = await db.fetch_all(start + end, parents=parents, limit=limit)
    while rows:
        yield rows
        after = {name: rows[-1][column] for name, column in zip(names, table.key, strict=True)}
        rows = (
            []
            if len(rows) < limit
            else await db.fetch_all(start + following + end, parents=parents, limit=limit, **after)
        )


async def _delete(tx: Transaction, table: TenantTable, parents: Sequence[str]) -> int:
    key = ", ".join(table.key)
    return await tx.execute(
        f"DELETE FROM {table.name} WHERE ({key}) IN"
        f" (SELECT {key} FROM {table.name} WHERE {table.condition} LIMIT :limit)",
        parents=parents,
        limit=table.rows_per_page,
    )
