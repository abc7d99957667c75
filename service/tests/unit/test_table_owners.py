"""Each table is written by one package, the one that docs/architecture.md names."""

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
    r"\b(?:INSERT\s+(?:OR\s+\w+\s+)?INTO\s+|DELETE\s+FROM\s+"
    r"|(?<!DO )(?<!FOR )(?<!KEY )UPDATE\s+(?=\w+\s+(?:(?:AS\s+)?\w+\s+)?SET\b))(\w+)"
)
# Parsing the other modules would take most of the time.
_MAY_WRITE = re.compile(r"\b(?:INSERT|DELETE|UPDATE|DueColumn)\b")


class Write(NamedTuple):
    place: str
    package: str
    table: str


def test_every_table_is_written_by_its_owner_alone() -> None:
    owners = _documented()
    wrong = [
        f"{write.place}: {write.package} writes {write.table}, which belongs to "
        f"{owners.get(write.table, 'nobody')}"
        for write in _writes()
        if owners.get(write.table) != write.package
    ]
    assert wrong == []


def test_the_architecture_names_an_owner_for_every_table(sqlite_template: Path) -> None:
    with closing(sqlite3.connect(sqlite_template)) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name for (name,) in rows if not name.startswith(("sqlite_", "alembic_"))}
    owners = _documented()
    assert tables == set(owners)


def test_every_table_is_listed_with_or_without_rows_of_organizations(
    sqlite_template: Path,
) -> None:
    """Otherwise deleting an organization would leave rows of it in a new table."""
    owners = _documented()
    listed = [*(table.name for table in tenant_tables().all), *SHARED_TABLES]
    assert sorted(listed) == sorted(owners)
    with closing(sqlite3.connect(sqlite_template)) as database:
        for table in SHARED_TABLES:
            columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
            assert columns.isdisjoint({"organization_id", "repo_id", "job_id", "user_id"}), table


def test_writes_are_found_in_the_forms_they_have() -> None:
    for sql in (
        "UPDATE jobs SET a = CASE WHEN b = 1 THEN 2 END WHERE f = 1",
        "INSERT INTO jobs (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = excluded.a",
        "DELETE FROM jobs WHERE id = 1",
    ):
        assert _WRITE.findall(sql) == ["jobs"]
    assert not _WRITE.search("SELECT 1 FROM jobs /*postgresql FOR NO KEY UPDATE OF jobs */")


def _documented() -> dict[str, str]:
    text = (PROJECT / "docs" / "architecture.md").read_text()
    section = text.partition("## Tables\n")[2].partition("\n## ")[0]
    owners: dict[str, str] = {}
    for line in section.splitlines():
        cells = [re.findall(r"`(\w+)`", cell) for cell in line.strip("|").split("|")]
        if len(cells) == 2 and len(cells[0]) == 1:
            owners |= dict.fromkeys(cells[1], cells[0][0])
    return owners


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
            for table in _WRITE.findall(text):
                if table not in CACHE_TABLES:
                    yield Write(f"{'/'.join(parts)}:{line}", parts[0], table)
        for line, table in _due_columns(tree):
            yield Write(f"{'/'.join(parts)}:{line}", parts[0], table)


def _due_columns(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The tables that `store/leases.py` updates for whoever declares them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "DueColumn":
            yield node.lineno, ast.literal_eval(node.args[0])


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
