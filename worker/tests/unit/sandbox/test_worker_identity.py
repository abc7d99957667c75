"""What a worker with agents in pods keeps over a restart."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from agentjobs_worker.sandbox.protocol import SandboxUnavailable
from agentjobs_worker.sandbox.worker_identity import WorkerIdentity


def test_a_restart_finds_the_id_the_tokens_and_the_dead_workers(tmp_path: Path) -> None:
    with closing(WorkerIdentity.open(tmp_path)) as first:
        assert first.dead_workers == ()
        first.add("wrk_1")
        kept = (first.id, first.derive_token("gateway job_1 0"))
        assert first.derive_token("gateway job_2 0") != kept[1]
    with closing(WorkerIdentity.open(tmp_path)) as second:
        assert (second.id, second.derive_token("gateway job_1 0")) == kept
        assert second.dead_workers == ("wrk_1",)
        second.add("wrk_2")
    # It died before it had adopted the jobs.
    with closing(WorkerIdentity.open(tmp_path)) as third:
        assert third.dead_workers == ("wrk_1", "wrk_2")
        third.add("wrk_3")
        third.keep_only("wrk_3")
    with closing(WorkerIdentity.open(tmp_path)) as fourth:
        assert fourth.dead_workers == ("wrk_3",)


def test_a_second_worker_in_the_same_data_directory_is_refused(tmp_path: Path) -> None:
    with (
        closing(WorkerIdentity.open(tmp_path)),
        pytest.raises(SandboxUnavailable, match="stop it, or give this one a data directory"),
    ):
        WorkerIdentity.open(tmp_path)
    WorkerIdentity.open(tmp_path).close()


def test_only_the_service_can_read_the_secret(tmp_path: Path) -> None:
    with closing(WorkerIdentity.open(tmp_path)) as identity:
        identity.add("wrk_1")
    assert (tmp_path / "sandbox").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "sandbox" / "worker.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[1"])
def test_an_unreadable_record_makes_it_another_worker(tmp_path: Path, content: bytes) -> None:
    with closing(WorkerIdentity.open(tmp_path)) as before:
        before.add("wrk_1")
    (tmp_path / "sandbox" / "worker.json").write_bytes(content)
    with closing(WorkerIdentity.open(tmp_path)) as identity:
        assert identity.id != before.id
        assert identity.dead_workers == ()


def test_a_copy_of_the_data_directory_makes_another_worker(tmp_path: Path) -> None:
    """Otherwise it would take over the jobs of the first one, which still runs."""
    with closing(WorkerIdentity.open(tmp_path / "data")) as first:
        first.add("wrk_1")
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        with closing(WorkerIdentity.open(tmp_path / "copy")) as copy:
            assert copy.id != first.id
            assert copy.dead_workers == ()
            copy.add("wrk_2")
    with closing(WorkerIdentity.open(tmp_path / "copy")) as restarted:
        assert restarted.id == copy.id
        assert restarted.dead_workers == ("wrk_2",)


def test_the_data_directory_on_another_machine_makes_another_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(WorkerIdentity.open(tmp_path)) as first:
        first.add("wrk_1")
    monkeypatch.setattr("socket.gethostname", lambda: "a clone of the machine")
    with closing(WorkerIdentity.open(tmp_path)) as clone:
        assert clone.id != first.id
        assert clone.dead_workers == ()
