"""A restored store knows nothing of what its jobs did after the backup."""

from functools import partial
from pathlib import Path
from typing import Any

from tests.support.connected_service import ConnectedService, open_connected_service
from tests.support.forge_servers import faults
from tests.support.service import wait_until


def test_jobs_that_ran_after_the_backup_are_completed_by_what_they_opened(tmp_path: Path) -> None:
    with open_connected_service(tmp_path, ("gitea",)) as connected:
        service, platform = connected.service, connected.platforms["gitea"]
        # One job has finished work that waits for its platform, the other two have not run.
        platform.order(faults.forbidden("No.", on="git-receive-pack", times=5))
        kept = connected.start(platform)
        wait_until(
            lambda: connected.api.job(kept)["queue_reason"] == "platform_refused", "it to wait"
        )
        service.admin("pause")
        jobs = [kept, *(connected.start(platform) for _ in range(2))]
        service.admin("backup", str(tmp_path / "backup"))
        platform.clear_faults()
        finished = finish(connected, jobs)
        for job in finished[:2]:
            merge(connected, job)
        assert service.stop() == 0

        service.admin("restore", str(tmp_path / "backup"), "--force")
        connected.restart()
        for job_id in jobs:
            assert connected.api.job(job_id)["queue_reason"] == "paused"
        for job, again in zip(finished, finish(connected, jobs), strict=True):
            assert again["pr_url"] == job["pr_url"]
            starts = connected.api.log(job["job_id"]).count("edit starts on")
            assert starts == (1 if job["job_id"] == kept else 0), "it did not run again"
            pulls = platform.pulls_of(job["branch"])
            assert [pull.number for pull in pulls] == [job["pr_number"]]
        for job in finished[:2]:
            assert platform.server.git.head(platform.shop, job["branch"]) is None


def finish(connected: ConnectedService, jobs: list[str]) -> list[dict[str, Any]]:
    connected.service.admin("resume")
    connected.service.admin("forges", "check", "gitea")
    return [connected.wait_completed(job_id) for job_id in jobs]


def merge(connected: ConnectedService, job: dict[str, Any]) -> None:
    """Until its branch is deleted."""
    platform = connected.platforms["gitea"]
    merger = connected.service.client(connected.service.key("--pulls"))
    (pull,) = merger.http.get("/pulls", params={"job_id": job["job_id"]}).json()["pulls"]
    merged = merger.http.post(f"/pulls/{pull['id']}/merge")
    assert merged.status_code == 200, merged.text
    head = partial(platform.server.git.head, platform.shop, job["branch"])
    wait_until(lambda: head() is None, "the branch to be deleted")
