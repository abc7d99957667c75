"""Counts the statements that a page sends to the store."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentjobs.store.database import Database


class Statements:
    """`scans` and `points` are the SQL of `fetch_all` and of `fetch_one`."""

    def __init__(self) -> None:
        self.scans: list[str] = []
        self.points: list[str] = []

    @property
    def count(self) -> int:
        return len(self.scans) + len(self.points)

    def about(self, table: str) -> list[str]:
        """The statements that name the table."""
        return [sql for sql in (*self.scans, *self.points) if re.search(rf"\b{table}\b", sql)]


@contextmanager
def count_statements(db: Database) -> Iterator[Statements]:
    statements = Statements()
    fetch_all, fetch_one = db.fetch_all, db.fetch_one

    async def record_scan(sql: str, /, **parameters: Any) -> Any:
        statements.scans.append(sql)
        return await fetch_all(sql, **parameters)

    async def record_point(sql: str, /, **parameters: Any) -> Any:
        statements.points.append(sql)
        return await fetch_one(sql, **parameters)

    db.fetch_all, db.fetch_one = record_scan, record_point  # type: ignore[method-assign]
    try:
        yield statements
    finally:
        db.fetch_all, db.fetch_one = fetch_all, fetch_one  # type: ignore[method-assign]
