"""How many connections to PostgreSQL the processes have."""

from pathlib import Path

from tests.support.postgres import Connection, PostgresCluster
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
