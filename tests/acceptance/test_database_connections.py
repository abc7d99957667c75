"""How the processes use PostgreSQL: how many connections, through a pooler, and at a failover."""

from pathlib import Path

from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresCluster
from tests.support.replication import replicated_postgres
from tests.support.service import Service, connected, wait_until

_SLOTS = 4
# The service's pool and its connection for notifications.
_MAX_OF_SERVE = 11


def test_a_worker_has_at_most_four_connections_and_two_when_idle(
    postgres_cluster: PostgresCluster, postgres_url: str, tmp_path: Path
) -> None:
    # The role of the worker tells its connections from those of the API.
    postgres_cluster.sql("DROP ROLE IF EXISTS worker; CREATE ROLE worker SUPERUSER LOGIN")
    database = postgres_url.rpartition("/")[2]

    def connections(role: str) -> int:
        return int(
            postgres_cluster.sql(
                "SELECT count(*) FROM pg_stat_activity"
                f" WHERE datname = '{database}' AND usename = '{role}'"
                " AND application_name = 'agentjobs'"
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
            counts.append(connections(role))
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


def test_a_running_job_survives_the_failover_to_a_standby(tmp_path: Path) -> None:
    with replicated_postgres() as servers:
        environment = {"AGENTJOBS_DATABASE_URL": servers.url("?target_session_attrs=read-write")}
        service = Service(tmp_path / "data", environment).start()
        try:
            api = connected(service, tmp_path)
            job_id = api.create("acme/shop", "sleepy")
            api.wait_status(job_id, "running")

            servers.fail_over()

            wait_until(
                lambda: api.http.get(f"{service.root_url}/readyz").status_code == 200,
                "the promoted standby to be found",
            )
            assert api.finish("acme/shop", "edit")["status"] == "completed"
            job = api.job(job_id)
            assert (job["status"], job["attempt"]) == ("running", 1)
            api.http.post(f"/jobs/{job_id}/cancel")
            api.wait_status(job_id, "cancelled")
        finally:
            service.stop()
