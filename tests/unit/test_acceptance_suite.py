"""The acceptance tests know the product only from outside, and do not change with it."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import PROJECT

ACCEPTANCE = PROJECT / "tests" / "acceptance"
# Changes with every rename of a command or a setting.
RENAMES = PROJECT / "tests" / "support" / "renames.py"
CHECKSUMS = PROJECT / "tests" / "data" / "acceptance.sha256"
INTERNALS = ("agentjobs", "agentjobs_dependencies", "sqlite3", "asyncpg")
# Knows no table.
OUTSIDE = PROJECT / "tests" / "support" / "sqlite_file.py"


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def files_of_suite() -> set[Path]:
    """The tests, and everything of this project that they import."""
    files: set[Path] = set()
    waiting = [*ACCEPTANCE.glob("*.py"), PROJECT / "conftest.py"]
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for name in imports(path):
            module = PROJECT.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("tests.") and module.exists():
                waiting.append(module)
    return files


def test_nothing_of_the_acceptance_tests_imports_the_product() -> None:
    internals = {
        str(path.relative_to(PROJECT)): sorted(
            {name for name in imports(path) if name.partition(".")[0] in INTERNALS}
        )
        for path in files_of_suite() - {OUTSIDE}
    }
    assert {path: names for path, names in internals.items() if names} == {}


def test_the_acceptance_tests_are_those_that_judged_the_last_version() -> None:
    """A test is added with its checksum; a rename goes into tests/support/renames.py."""
    expected = dict(reversed(line.split("  ")) for line in CHECKSUMS.read_text().splitlines())
    actual = {
        str(path.relative_to(PROJECT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in ACCEPTANCE.glob("*.py")
    }
    assert actual == expected
