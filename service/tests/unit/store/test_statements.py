import pytest

from agentjobs.store.database import Engine, StoreError
from agentjobs.store.statements import render


@pytest.mark.parametrize(
    ("engine", "rendered"), [("sqlite", "SELECT ?1, ?2, ?1"), ("postgresql", "SELECT $1, $2, $1")]
)
def test_each_name_is_counted_once(engine: Engine, rendered: str) -> None:
    statement = render(engine, "SELECT :a, :b, :a")
    assert statement.sql == rendered
    assert statement.names == ("a", "b")
    assert tuple(statement.by_position({"b": 2, "a": 1, "unused": 3})) == (1, 2)


def test_a_statement_may_have_one_parameter_or_none() -> None:
    assert tuple(render("sqlite", "SELECT :a").by_position({"a": 1})) == (1,)
    assert tuple(render("sqlite", "SELECT 1").by_position({"a": 1})) == ()


@pytest.mark.parametrize(
    "untouched",
    [
        "SELECT ':a'",
        "SELECT 'it''s :a'",
        'SELECT ":a"',
        "SELECT 1::bigint",
        "SELECT 1 -- :a",
        "SELECT 1 /* :a */",
        "SELECT 1 /* a\n:a */",
    ],
)
def test_text_that_only_looks_like_a_parameter_is_not_changed(untouched: str) -> None:
    for engine in ("sqlite", "postgresql"):
        statement = render(engine, untouched)
        assert statement.sql == untouched
        assert statement.names == ()


def test_a_literal_ends_at_its_quote() -> None:
    statement = render("postgresql", "SELECT ':a', :b, 'c', :d::text")
    assert statement.sql == "SELECT ':a', $1, 'c', $2::text"


def test_a_fragment_belongs_to_its_engine() -> None:
    sql = "SELECT 1 /*postgresql FOR UPDATE OF :t SKIP LOCKED */ /*sqlite WHERE :s */"
    assert render("sqlite", sql).sql.split() == ["SELECT", "1", "WHERE", "?1"]
    assert render("postgresql", sql).sql.split() == [
        "SELECT",
        "1",
        "FOR",
        "UPDATE",
        "OF",
        "$1",
        "SKIP",
        "LOCKED",
    ]
    assert render("postgresql", sql).names == ("t",)


def test_a_list_is_json_for_sqlite_and_an_array_for_postgresql() -> None:
    sql = "SELECT 1 WHERE x = :x AND id IN (SELECT value FROM each(:ids))"
    on_sqlite, on_postgresql = render("sqlite", sql), render("postgresql", sql)
    assert "FROM json_each(?2) AS each)" in on_sqlite.sql
    assert on_sqlite.by_position({"x": 1, "ids": ("a", "b")}) == [1, '["a", "b"]']
    assert "FROM unnest((SELECT $2::text::text[])) AS each(value))" in on_postgresql.sql
    assert on_postgresql.by_position({"x": 1, "ids": ("a", "b")}) == [1, '{"a","b"}']


def test_a_missing_value_is_named() -> None:
    with pytest.raises(StoreError, match=":b"):
        render("postgresql", "SELECT :a, :b").by_position({"a": 1})
    with pytest.raises(StoreError, match=":ids"):
        render("sqlite", "SELECT value FROM each(:ids)").by_position({})


def test_a_statement_is_rendered_once() -> None:
    sql = "SELECT :rendered_once"
    assert render("sqlite", sql) is render("sqlite", sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM jobs /*postgresql FOR NO KEY UPDATE SKIP LOCKED */",
        "SELECT id FROM jobs FOR KEY SHARE",
        "SELECT pg_try_advisory_xact_lock(1)",
        "SELECT pg_advisory_xact_lock_shared(1)",
        "SELECT pg_notify('a', 'b')",
        "SELECT id INTO copies FROM jobs",
        "WITH added AS (INSERT INTO jobs VALUES (1) RETURNING id) SELECT id FROM added",
        "UPDATE jobs SET id = 1 RETURNING id",
        "MERGE INTO jobs USING added ON true WHEN MATCHED THEN DO NOTHING",
    ],
)
def test_a_statement_that_writes_or_locks_is_no_plain_read(sql: str) -> None:
    assert not render("postgresql", sql).only_reads


@pytest.mark.parametrize(
    "sql",
    [
        " SELECT updated_at, deleted FROM shares",
        "\nWITH few AS (SELECT 1) SELECT * FROM few",
        "VALUES (1)",
        "SELECT id FROM jobs /*sqlite FOR UPDATE */",
    ],
)
def test_other_statements_are_plain_reads(sql: str) -> None:
    assert render("postgresql", sql).only_reads
