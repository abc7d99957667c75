"""How the processes use PostgreSQL: how many connections, through a pooler, and at a failover."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import Connection, PostgresCluster
from tests.support.replication import replicated_postgres
from tests.support.service import Api, Service, connected, wait_until

_SLOTS = 4
# The service's pool and its connection for notifications.
_MAX_OF_SERVE = 11


def test_a_worker_has_at_most_four_connections_and_two_when_idle(
    postgres_cluster: PostgresCluster, postgres_url: str, tmp_path: Path
) -> None:
    # The role of the worker tells its connections from those of the API.
    postgres_cluster.sql("DROP ROLE IF EXISTS worker; CREATE ROLE worker SUPERUSER LOGIN")
    database = postgres_url.rpartition("/")[2]

    monitor = Connection(postgres_cluster.url("postgres"))

    def connections(role: str) -> int:
        return int(
            monitor.run(
                "SELECT count(*) FROM pg_stat_activity"
                f" WHERE datname = '{database}' AND usename = '{role}'"
                " AND application_name = 'agentjobs';"
            )
        )

    serve = Service(tmp_path / "serve", {"AGENTJOBS_DATABASE_URL": postgres_url}, ("serve",))
    api = connected(serve.start(), tmp_path)
    environment = {
        "AGENTJOBS_DATABASE_URL": postgres_url.replace("agentjobs@", "worker@"),
        "AGENTJOBS_PUBLIC_URL": serve.root_url,
        "AGENTJOBS_SLOTS": str(_SLOTS),
    }
    worker = Service(tmp_path / "worker", environment, ("worker",)).start()
    samples: dict[str, list[int]] = {"worker": [], "agentjobs": []}

    def all_in(status: str, job_ids: list[str]) -> bool:
        for role, counts in samples.items():
            # PostgreSQL needs a moment to notice that a connection was replaced by another.
            counts.append(min(connections(role), connections(role)))
        return all(api.job(job_id)["status"] == status for job_id in job_ids)

    try:
        sleepy = [api.create("acme/shop", "sleepy") for _ in range(_SLOTS)]
        wait_until(lambda: all_in("running", sleepy), "all slots to be busy")
        for job_id in sleepy:
            api.http.post(f"/jobs/{job_id}/cancel")
        edits = [api.create("acme/shop", "edit") for _ in range(_SLOTS)]
        wait_until(lambda: all_in("completed", edits), "the jobs to complete")
        assert max(samples["worker"]) <= 4
        assert max(samples["agentjobs"]) <= _MAX_OF_SERVE
        wait_until(lambda: connections("worker") <= 2, "the idle worker to close connections")
    finally:
        worker.stop()
        serve.stop()
        monitor.close()


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
