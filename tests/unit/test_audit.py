"""The dependency audit fails for what is vulnerable, and in CI for what could not be read."""

from pathlib import Path

import pytest

from scripts.audit import Audit, audit_with_feed, judge, read_lock, split_by_name
from tests.support.paths import PROJECT

RECORDS = str(PROJECT / "tests" / "data" / "advisory_records" / "PyPI")
OLD = ("requests", "2.25.0")
HARMLESS = ("an-unknown-package", "1.0")


def unread(*packages: tuple[str, str]) -> Audit:
    return Audit({}, dict.fromkeys(packages, "not reachable"))


def test_the_packages_of_a_lock_file_are_read_with_their_versions() -> None:
    lock = "# pinned\nRequests[socks]==2.25.0 ; python_version > '3' \\\n    --hash=sha256:00\n"
    assert list(read_lock(lock)) == [OLD]


def test_two_versions_of_a_package_are_audited_apart() -> None:
    assert split_by_name({OLD, ("requests", "2.31.0"), HARMLESS}) == [
        {"an-unknown-package": "1.0", "requests": "2.25.0"},
        {"requests": "2.31.0"},
    ]


def test_the_feed_finds_what_the_index_could_not_audit() -> None:
    feed = audit_with_feed(RECORDS, {OLD, HARMLESS})
    lines, error = judge({OLD, HARMLESS}, unread(OLD, HARMLESS), feed, {})
    assert lines[0].startswith("requests 2.25.0: ")
    assert "2 of 2 packages were read" in lines[-1]
    assert "run `make lock`" in error


@pytest.mark.parametrize(
    ("environment", "fails"),
    [({}, False), ({"CI": "true"}, True), ({"CI": "true", "AUDIT_EXCEPTION": "offline"}, False)],
)
def test_an_audit_that_read_nothing_fails_in_ci_unless_an_exception_is_stated(
    environment: dict[str, str], fails: bool
) -> None:
    nothing = unread(OLD, HARMLESS)
    lines, error = judge({OLD, HARMLESS}, nothing, nothing, environment)
    assert bool(error) is fails
    assert "0 of 2 packages were read" in lines[0]
    assert "2 packages were skipped" in lines[1]
    assert ("offline" in lines[-1]) is ("AUDIT_EXCEPTION" in environment)


@pytest.mark.parametrize("source", ["", "nowhere", "empty"])
def test_a_feed_without_records_reads_nothing(source: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    path = str(tmp_path / source) if source else ""
    assert audit_with_feed(path, {OLD}).unread.keys() == {OLD}
