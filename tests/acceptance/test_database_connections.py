"""PostgreSQL through a pooler, and at a failover."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresCluster
from tests.support.replication import replicated_postgres
from tests.support.service import Api, Service, connected, wait_until


def test_a_service_works_through_pgbouncer(
    postgres_cluster: PostgresCluster, postgres_url: str, tmp_path: Path
) -> None:
    pooler = PgBouncer(postgres_cluster)
    environment = {
        "AGENTJOBS_DATABASE_URL": pooler.url(postgres_url),
        "AGENTJOBS_DATABASE_DIRECT_URL": postgres_url,
    }
    service = Service(tmp_path / "data", environment).start()
    try:
        api = connected(service, tmp_path)
        job = api.finish("acme/shop", "edit")
        assert job["status"] == "completed"
        assert api.events(job["job_id"])[-2:] == ["job.completed", "pr.review_requested"]
    finally:
        service.stop()
        pooler.remove()


def test_no_job_is_lost_or_run_again_by_the_failover_to_a_standby(
    postgres_files: Path, postgres_template: str, tmp_path: Path
) -> None:
    with replicated_postgres(postgres_files, postgres_template) as servers:
        environment = {
            "AGENTJOBS_DATABASE_URL": servers.url("?target_session_attrs=read-write"),
            "AGENTJOBS_SLOTS": "4",
        }
        service = Service(tmp_path / "data", environment).start()
        try:
            api = connected(service, tmp_path)
            running = api.create("acme/shop", "sleepy")
            api.wait_status(running, "running")
            with _posting(api) as accepted:
                wait_until(lambda: len(accepted) >= 3, "jobs to be accepted")
                servers.fail_over()
                before = len(accepted)
                wait_until(lambda: len(accepted) >= before + 2, "the standby to be found")

            for job_id in accepted:
                assert api.wait_status(job_id, "failed")["error"]["code"] == "no_changes"
            job = api.job(running)
            assert (job["status"], job["attempt"]) == ("running", 1)
            api.http.post(f"/jobs/{running}/cancel")
            api.wait_status(running, "cancelled")
        finally:
            service.stop()


@contextmanager
def _posting(api: Api) -> Iterator[list[str]]:
    """Posts one job after the other; yields the identifiers of those that were accepted."""
    accepted: list[str] = []
    stop = threading.Event()

    def post() -> None:
        while not stop.wait(0.3):
            response = api.http.post("/jobs", json={"repo": "acme/shop", "agent": "idle"})
            if response.status_code == 202:
                accepted.append(response.json()["job_id"])

    thread = threading.Thread(target=post)
    thread.start()
    try:
        yield accepted
    finally:
        stop.set()
        thread.join()
