"""Values survive a round trip, and the same SQL works on both engines."""

import operator
from collections.abc import Iterable
from typing import Any

import pytest

from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.database import Database, Transaction

CREATE = """
    CREATE TABLE probe (
        id TEXT PRIMARY KEY,
        flag BOOLEAN,
        number BIGINT,
        body /*sqlite BLOB */ /*postgresql BYTEA */
    )
"""
INSERT = "INSERT INTO probe (id, flag, number, body) VALUES (:id, :flag, :number, :body)"


@pytest.fixture
async def probe(database: Database) -> Database:
    async def create(tx: Transaction) -> None:
        await tx.execute(CREATE)

    await database.transact(create)
    return database


async def _store(db: Database, **values: Any) -> dict[str, Any]:
    row = {"id": "x", "flag": None, "number": None, "body": None, **values}

    async def insert(tx: Transaction) -> None:
        await tx.execute(INSERT, **row)

    await db.transact(insert)
    stored = await db.fetch_one("SELECT * FROM probe WHERE id = :id", id=row["id"])
    assert stored is not None
    return dict(stored)


async def test_numbers_keep_all_their_64_bits(probe: Database) -> None:
    numbers = [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
    stored = [await _store(probe, id=str(number), number=number) for number in numbers]
    assert [row["number"] for row in stored] == numbers


async def test_bytes_are_stored_unchanged(probe: Database) -> None:
    for body in (b"", b"\x00\xff" * 3, b"x" * 1_000_000):
        stored = (await _store(probe, id=str(len(body)), body=body))["body"]
        assert isinstance(stored, bytes)
        assert stored == body


async def test_any_text_is_safe_as_a_parameter(probe: Database) -> None:
    texts = ["", "naïve — 🙂", "it's; -- /* :name */ $1 ? \\ \"", "a\nb\tc"]
    assert [(await _store(probe, id=text))["id"] for text in texts] == texts


async def test_absent_values_are_none(probe: Database) -> None:
    assert await _store(probe) == {"id": "x", "flag": None, "number": None, "body": None}


@pytest.mark.parametrize("flag", [True, False])
async def test_booleans_work_in_conditions_and_results(probe: Database, flag: bool) -> None:
    assert bool((await _store(probe, flag=flag))["flag"]) is flag
    rows = await probe.fetch_all("SELECT id FROM probe WHERE flag")
    assert [row["id"] for row in rows] == (["x"] if flag else [])


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (["a", "c", "nobody"], ["a", "c"]),
        (("b",), ["b"]),
        ({"d'\"": 1}.keys(), ["d'\""]),
        ([], []),
    ],
)
async def test_a_list_can_be_a_parameter(
    probe: Database, requested: Iterable[str], expected: list[str]
) -> None:
    for name in ("a", "b", "c", "d'\""):
        await _store(probe, id=name)
    sql = "SELECT id FROM probe WHERE id IN (SELECT value FROM each(:ids)) ORDER BY id"

    async def inside(tx: Transaction) -> list[str]:
        return [row["id"] for row in await tx.fetch_all(sql, ids=requested)]

    assert [row["id"] for row in await probe.fetch_all(sql, ids=requested)] == expected
    assert await probe.transact(inside) == expected


async def test_texts_of_a_list_and_of_a_batch_arrive_unchanged(probe: Database) -> None:
    texts = ["", "NULL", "null", "{}", "a,b", '"', "\\", '\\"', "\n\t\x01", "\\n", "é\U0001f600"]
    batch = BatchStatement(
        {"id": "text", "number": "bigint", "body": "bytea"},
        one="INSERT INTO probe (id, number, body) VALUES (:id, :number, :body)",
        many="INSERT INTO probe (id, number, body) SELECT id, number, body FROM {rows}",
    )
    rows: list[dict[str, Any]] = [
        {"id": text, "number": None, "body": text.encode() + b"\0\xff"} for text in texts
    ]
    rows[0]["number"] = -(2**40)
    await probe.transact(batch.run, rows)
    stored = await probe.fetch_all(
        "SELECT id, number, body FROM probe WHERE id IN (SELECT value FROM each(:ids))", ids=texts
    )
    key = operator.itemgetter("id")
    assert sorted(map(dict, stored), key=key) == sorted(rows, key=key)


async def test_a_parameter_may_occur_several_times_and_beside_a_cast(probe: Database) -> None:
    await _store(probe, number=7)
    sql = (
        "SELECT CAST(:n AS BIGINT) AS n, ':n' AS literal FROM probe "
        "WHERE number = :n OR CAST(:n AS BIGINT) IS NULL /* :ignored */ -- :ignored too"
    )
    row = await probe.fetch_one(sql, n=7)
    assert row is not None
    assert dict(row) == {"n": 7, "literal": ":n"}


async def test_a_fragment_is_rendered_only_for_its_engine(database: Database) -> None:
    row = await database.fetch_one(
        "SELECT /*sqlite 'sqlite' */ /*postgresql 'postgresql' */ AS engine"
    )
    assert row is not None
    assert row["engine"] == database.engine


async def test_parameters_of_the_other_engine_are_ignored(database: Database) -> None:
    row = await database.fetch_one(
        "SELECT /*sqlite :a */ /*postgresql CAST(:b AS TEXT) */ AS value", a="one", b="two"
    )
    assert row is not None
    assert row["value"] == {"sqlite": "one", "postgresql": "two"}[database.engine]
