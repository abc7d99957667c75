"""A process uses the directory of the repositories only if its marker names this deployment."""

from pathlib import Path

import pytest

from agentjobs.fleet.repositories_directory import MARKER, RepositoriesDirectory
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import load
from tests.support.jobs import JobHarness


def _directory(
    db: Database, data_dir: Path, repositories: Path | None = None
) -> RepositoriesDirectory:
    environment = {"AGENTJOBS_DATA_DIR": str(data_dir)}
    if repositories is not None:
        environment["AGENTJOBS_REPOSITORIES_DIR"] = str(repositories)
    return RepositoriesDirectory(db, load(environment))


async def _problem(directory: RepositoriesDirectory) -> str | None:
    await directory.check()
    return directory.problem


async def test_the_first_process_marks_its_directory_and_others_must_share_it(
    database: Database, tmp_path: Path
) -> None:
    assert await _problem(_directory(database, tmp_path / "first")) is None
    assert await _problem(_directory(database, tmp_path / "first")) is None
    assert (tmp_path / "first" / "git" / MARKER).read_text().strip()

    elsewhere = _directory(database, tmp_path / "second")
    problem = await _problem(elsewhere)
    assert problem is not None
    assert "AGENTJOBS_REPOSITORIES_DIR" in problem
    assert not (tmp_path / "second").exists()
    with pytest.raises(Problem) as refused:
        elsewhere.require()
    assert str(tmp_path) not in refused.value.message

    sharing = _directory(database, tmp_path / "second", tmp_path / "first" / "git")
    assert await _problem(sharing) is None
    sharing.require()


async def test_a_directory_that_is_named_must_exist(database: Database, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    directory = _directory(database, tmp_path, volume)
    assert await _problem(directory) is not None
    assert not volume.exists()
    # The volume is mounted.
    volume.mkdir()
    assert await _problem(directory) is None


async def test_a_command_says_once_that_the_directory_is_missing(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a command logs is printed beside its error."""
    directory = _directory(database, tmp_path, tmp_path / "volume")
    with pytest.raises(Problem, match="AGENTJOBS_REPOSITORIES_DIR"):
        await directory.check_for_operator()
    assert caplog.records == []


async def test_the_directory_of_another_deployment_is_refused(
    database: Database, tmp_path: Path
) -> None:
    assert await _problem(_directory(database, tmp_path / "ours")) is None
    other = tmp_path / "other"
    other.mkdir()
    (other / MARKER).write_text("another\n")
    problem = await _problem(_directory(database, tmp_path, other))
    assert problem is not None
    assert "belongs to another deployment (another)" in problem
    assert (other / MARKER).read_text() == "another\n"


async def test_a_marker_is_adopted_by_a_store_that_knows_none(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / MARKER).write_text("restored\n")
    assert await _problem(_directory(database, tmp_path)) is None
    assert await _problem(_directory(database, tmp_path / "empty")) is not None


async def test_the_directory_of_an_earlier_version_is_recognized_by_its_repositories(
    harness: JobHarness, tmp_path: Path
) -> None:
    await harness.organization()
    (row,) = await harness.db.fetch_all("SELECT id FROM repos")
    # A machine without the repositories may start first.
    assert await _problem(_directory(harness.db, tmp_path / "without")) is not None
    repository = tmp_path / "old" / "git" / f"{row['id']}.git"
    repository.mkdir(parents=True)
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    assert await _problem(_directory(harness.db, tmp_path / "old")) is None
    assert await _problem(_directory(harness.db, tmp_path / "without")) is not None
