"""Snapshots as directories: they appear whole, are kept while in use, and are removed."""

from pathlib import Path

import pytest

from agentjobs_worker.environments.snapshots import HOME, WORKSPACE, Snapshot, Snapshots
from agentjobs_worker.workspace.session import Session


def a_snapshot(build_id: str, repo_id: str = "repo_1") -> Snapshot:
    return Snapshot(
        build_id=build_id,
        organization_id="org_1",
        repo_id=repo_id,
        request_key="r",
        key="k",
        images={},
        owner_uid=None,
        size_bytes=5,
        created_at=1,
    )


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session(tmp_path)
    session.open()
    return session


@pytest.fixture
def snapshots(tmp_path: Path, session: Session) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", session)


def add(snapshots: Snapshots, session: Session, build_id: str, repo_id: str = "repo_1") -> None:
    directory = session.new_directory()
    for name in (HOME, WORKSPACE):
        (directory / name).mkdir()
    (directory / HOME / "file").write_text("kept")
    snapshots.add(directory, a_snapshot(build_id, repo_id))


def test_a_snapshot_is_found_with_its_description_and_files(
    snapshots: Snapshots, session: Session
) -> None:
    add(snapshots, session, "env_1")
    with snapshots.borrow("repo_1", "env_1") as stored:
        assert stored is not None
        assert stored.snapshot == a_snapshot("env_1")
        assert (stored.home / "file").read_text() == "kept"
    with snapshots.borrow("repo_2", "env_1") as stored:
        assert stored is None


def test_a_snapshot_in_use_is_not_removed(snapshots: Snapshots, session: Session) -> None:
    add(snapshots, session, "env_1")
    with snapshots.borrow("repo_1", "env_1") as stored, snapshots.borrow("repo_1", "env_1"):
        assert stored is not None
        assert not snapshots.remove(stored)
    assert snapshots.remove(stored)
    assert not snapshots.remove(stored)
    assert snapshots.all() == []
    assert not list(session.directory.iterdir())


def test_snapshots_of_all_repositories_are_listed(snapshots: Snapshots, session: Session) -> None:
    for build_id, repo_id in (("env_1", "repo_1"), ("env_2", "repo_1"), ("env_3", "repo_2")):
        add(snapshots, session, build_id, repo_id)
    assert [stored.snapshot.build_id for stored in snapshots.find("repo_1")] == ["env_1", "env_2"]
    assert len(snapshots.all()) == 3
    assert snapshots.find("repo_3") == []


def test_a_directory_that_is_not_complete_is_no_snapshot(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    (tmp_path / "snapshots" / "repo_1" / "env_1").mkdir(parents=True)
    assert snapshots.all() == []
    with snapshots.borrow("repo_1", "env_1") as stored:
        assert stored is None
