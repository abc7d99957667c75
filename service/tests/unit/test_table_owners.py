"""Each table is written by one package, the one that docs/architecture.md names.

Where a row has a second writer, the page lists the columns that this package may update.
"""

import ast
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

from agentjobs.cli.orgs.tables import SHARED_TABLES, tenant_tables
from tests.support.paths import PROJECT
from tests.support.paths import SERVICE as SOURCE

# The cache of published poms, a database outside of the store.
CACHE_TABLES = {"poms"}

_WRITE = re.compile(
    r"\b(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|DELETE\s+FROM|(?<!DO )(?<!FOR )(?<!KEY )UPDATE)\s+(\w+)"
    r"(?:\s+(?:AS\s+)?(?!SET\b)\w+)?(\s+SET\s.*)?",
    re.DOTALL,
)
# Parsing the other modules would take most of the time.
_MAY_WRITE = re.compile(r"\b(?:INSERT|DELETE|UPDATE|DueColumn)\b")


class Write(NamedTuple):
    """`columns` are those of an UPDATE; None if rows are inserted or deleted."""

    place: str
    package: str
    table: str
    columns: frozenset[str] | None


def test_every_table_is_written_by_its_owner_alone() -> None:
    owners, shared = _documented()
    wrong = [
        f"{write.place}: {write.package} writes {write.table}, which belongs to "
        f"{owners.get(write.table, 'nobody')}"
        for write in _writes()
        if owners.get(write.table) != write.package
        and not (
            write.columns is not None
            and write.columns <= shared.get((write.table, write.package), frozenset())
        )
    ]
    assert wrong == []


def test_the_architecture_names_an_owner_for_every_table(sqlite_template: Path) -> None:
    with closing(sqlite3.connect(sqlite_template)) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name for (name,) in rows if not name.startswith(("sqlite_", "alembic_"))}
    owners, _ = _documented()
    assert tables == set(owners)


def test_every_table_is_listed_with_or_without_rows_of_organizations(
    sqlite_template: Path,
) -> None:
    """Otherwise deleting an organization would leave rows of it in a new table."""
    owners, _ = _documented()
    listed = [*(table.name for table in tenant_tables().all), *SHARED_TABLES]
    assert sorted(listed) == sorted(owners)
    with closing(sqlite3.connect(sqlite_template)) as database:
        for table in SHARED_TABLES:
            columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
            assert columns.isdisjoint({"organization_id", "repo_id", "job_id", "user_id"}), table


def test_writes_are_found_in_the_forms_they_have() -> None:
    sql = "UPDATE jobs SET a = CASE WHEN b = 1 THEN 2 END, c = (SELECT d FROM e) WHERE f = 1"
    assert list(_writes_in(sql)) == [("jobs", frozenset({"a", "c"}))]
    upsert = "INSERT INTO jobs (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = excluded.a"
    assert list(_writes_in(upsert)) == [("jobs", None)]
    assert list(_writes_in("DELETE FROM jobs WHERE id = 1")) == [("jobs", None)]
    assert list(_writes_in("SELECT 1 FROM jobs /*postgresql FOR NO KEY UPDATE OF jobs */")) == []


def _documented() -> tuple[dict[str, str], dict[tuple[str, str], frozenset[str]]]:
    text = (PROJECT / "docs" / "architecture.md").read_text()
    section = text.partition("## Tables\n")[2].partition("\n## ")[0]
    owners: dict[str, str] = {}
    shared: dict[tuple[str, str], frozenset[str]] = {}
    for line in section.splitlines():
        cells = [re.findall(r"`(\w+)`", cell) for cell in line.strip("|").split("|")]
        if len(cells) == 2 and len(cells[0]) == 1:
            owners |= dict.fromkeys(cells[1], cells[0][0])
        elif len(cells) == 3 and len(cells[0]) == 1:
            shared[cells[0][0], cells[1][0]] = frozenset(cells[2])
    return owners, shared


@cache
def _writes() -> tuple[Write, ...]:
    return tuple(_find_writes())


def _find_writes() -> Iterator[Write]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        if parts[:2] == ("store", "migrations"):
            continue
        source = path.read_text()
        if not _MAY_WRITE.search(source):
            continue
        tree = ast.parse(source)
        for line, text in _strings(tree):
            for table, columns in _writes_in(text):
                if table not in CACHE_TABLES:
                    yield Write(f"{'/'.join(parts)}:{line}", parts[0], table, columns)
        for line, table, column in _due_columns(tree):
            yield Write(f"{'/'.join(parts)}:{line}", parts[0], table, frozenset({column}))


def _due_columns(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """The columns that `store/leases.py` updates for whoever declares them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "DueColumn":
            table, _, column, _ = node.args
            for name in (column, *(keyword.value for keyword in node.keywords)):
                yield node.lineno, ast.literal_eval(table), ast.literal_eval(name)


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string of a module as one text; what an f-string inserts is a `?`."""
    if isinstance(tree, ast.Constant):
        if isinstance(tree.value, str):
            yield tree.lineno, tree.value
    elif isinstance(tree, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else "?" for part in tree.values)
        yield tree.lineno, "".join(parts)
    else:
        for child in ast.iter_child_nodes(tree):
            yield from _strings(child)


def _writes_in(text: str) -> Iterator[tuple[str, frozenset[str] | None]]:
    for match in _WRITE.finditer(text):
        table, assignments = match.groups()
        if assignments is None:
            is_update = match[0].lstrip().startswith("UPDATE")
            if not is_update:
                yield table, None
        else:
            yield table, frozenset(_assigned(assignments))


def _assigned(clause: str) -> Iterator[str]:
    """The columns of a SET clause, whatever expressions they are set to."""
    depth, start, text = 0, 0, clause.partition("SET")[2] + " WHERE "
    for match in re.finditer(r"[(),]|\s(?:WHERE|FROM|RETURNING)\s|CASE|END", text):
        token = match[0].strip()
        if token in {"(", "CASE"}:
            depth += 1
        elif token in {")", "END"}:
            depth -= 1
        elif depth == 0:
            column, equals, _ = text[start : match.start()].partition("=")
            if equals:
                yield column.strip()
            start = match.end()
            if token != ",":
                return
