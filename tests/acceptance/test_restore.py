"""A restored store knows nothing of what its jobs did after the backup."""

from functools import partial
from pathlib import Path

from tests.support.connected_service import open_connected_service
from tests.support.service import wait_until


def test_jobs_that_ran_after_the_backup_are_completed_by_what_they_opened(tmp_path: Path) -> None:
    with open_connected_service(tmp_path, ("gitea",)) as connected:
        service, platform = connected.service, connected.platforms["gitea"]
        service.admin("pause")
        jobs = [connected.start(platform) for _ in range(2)]
        service.admin("backup", str(tmp_path / "backup"))
        service.admin("resume")
        still_open, merged = [connected.wait_completed(job) for job in jobs]
        merger = service.client(service.key("--pulls"))
        (pull,) = merger.http.get("/pulls", params={"job_id": merged["job_id"]}).json()["pulls"]
        assert merger.http.post(f"/pulls/{pull['id']}/merge").status_code == 200
        head = partial(platform.server.git.head, platform.shop, merged["branch"])
        wait_until(lambda: head() is None, "the branch to be deleted")
        assert service.stop() == 0

        service.admin("restore", str(tmp_path / "backup"), "--force")
        connected.restart()
        for job in jobs:
            assert connected.api.job(job)["queue_reason"] == "paused"
        service.admin("resume")
        for job in (still_open, merged):
            again = connected.wait_completed(job["job_id"])
            assert again["pr_url"] == job["pr_url"]
            assert "edit starts on" not in connected.api.log(job["job_id"])
            pulls = platform.pulls_of(job["branch"])
            assert [pull.number for pull in pulls] == [job["pr_number"]]
