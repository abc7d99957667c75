"""A nearly full disk: nothing new starts, everything else works, and jobs wait with a reason."""

from pathlib import Path

from tests.support.service import Service, connected, wait_until

# More than any disk has, and none at all.
FULL, EMPTY = {"AGENTJOBS_DISK_FLOOR_MIB": "16777216"}, {"AGENTJOBS_DISK_FLOOR_MIB": "0"}


def test_jobs_wait_until_the_disk_has_space_again(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", environment=EMPTY).start()
    connected(service, tmp_path)
    key = service.key()
    assert service.stop() == 0
    service.environment = FULL
    api = service.start().client(key)
    waiting = api.create("acme/shop", "lint-fixer")
    wait_until(lambda: api.job(waiting)["queue_reason"] == "disk_full", "the reason it waits")
    assert "the disk is nearly full" in service.log()
    assert service.stop() == 0
    service.environment = EMPTY
    api = service.start().client(key)
    assert api.wait_status(waiting, "completed", "failed")["attempt"] == 1
    assert service.stop() == 0
