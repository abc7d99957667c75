"""The table of fix jobs that `make test SUITE=fixes` prints."""

import json
from pathlib import Path

from tests.support.fix_table import Row, markdown, write_table

ROWS = [
    Row("a workspace", "Go", "go.mod", "ready", proven=True, reason=""),
    Row("an old version", "Go", "go.mod", "failed", proven=False, reason="needs Go 1.25"),
    Row("a lock file", "npm", "package-lock.json", "draft", proven=False, reason="unresolved"),
]


def test_jobs_are_counted_by_ecosystem_and_kind_of_file() -> None:
    lines = markdown(ROWS).splitlines()
    assert "| Go | go.mod | 2 | 1 | 1 | 0 | 1 |" in lines
    assert "| npm | package-lock.json | 1 | 0 | 0 | 1 | 0 |" in lines
    assert "| **all** |  | 3 | 1 | 1 | 1 | 1 |" in lines


def test_drafts_and_failures_have_their_reasons() -> None:
    drafts, failures = markdown(ROWS).partition("Drafts:")[2].split("Failures:")
    assert drafts.strip() == "- a lock file: unresolved"
    assert failures.strip() == "- an old version: needs Go 1.25"


def test_a_json_file_has_a_row_for_each_job(tmp_path: Path) -> None:
    write_table(tmp_path / "table.json", ROWS)
    rows = json.loads((tmp_path / "table.json").read_text())
    assert [Row(**row) for row in rows] == ROWS
