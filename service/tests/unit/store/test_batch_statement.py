"""Batches are sent as the texts of arrays, whatever the types of their columns."""

from typing import Any

from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.statements import render

_STATEMENT = BatchStatement(
    {"id": "text", "size": "bigint", "body": "bytea"},
    one="",
    many="INSERT INTO things SELECT id, size, body FROM {rows}",
)


class Recorder:
    engine = "postgresql"

    async def execute(self, sql: str, /, **parameters: Any) -> int:
        self.sql = render("postgresql", sql).sql
        self.parameters = parameters
        return 0


async def test_asyncpg_needs_to_know_no_array_type() -> None:
    tx: Any = Recorder()
    await _STATEMENT.run(
        tx, [{"id": "a", "size": 1, "body": b"\0\xff"}, {"id": "b", "size": None, "body": None}]
    )
    assert tx.sql == (
        "INSERT INTO things SELECT id, size, body"
        " FROM unnest((SELECT CAST(CAST($1 AS text) AS text[])),"
        " (SELECT CAST(CAST($2 AS text) AS bigint[])),"
        " (SELECT CAST(CAST($3 AS text) AS bytea[]))) AS v(id, size, body)"
    )
    assert tx.parameters == {
        "id": '{"a","b"}',
        "size": "{1,null}",
        "body": '{"\\\\x00ff",NULL}',
    }
