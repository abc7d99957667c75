"""Liveness, readiness and metrics."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from agentjobs.environments.builds import begin_build, finish_build
from agentjobs.jobs.model import Usage
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.workers import STATUSES, drain_worker
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.platform_outages import record_outage
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.organizations import ensure_default
from agentjobs.organizations.pauses import pause
from agentjobs.repos.queries import find_repo
from agentjobs.store.changes import Changes
from agentjobs.store.database import StoreFull, StoreUnavailable, Transaction
from agentjobs.web.application import build_metrics_application
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.environments.records import Finished, NewBuild
from agentjobs_runtime.protocol.outcomes import Failed, Kept, KeptWork, Outage
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.service import JOB, Service, refusal
from tests.support.promql import samples

TOKEN = {"Authorization": "Bearer look-here"}


class UnreachableDatabase:
    """A store that is unreachable."""

    engine = "sqlite"

    def __init__(self) -> None:
        self.changes = Changes()

    async def ping(self) -> None:
        raise StoreUnavailable("the database is unreachable")

    async def fetch_one(self, _sql: str, **_parameters: Any) -> None:
        raise StoreUnavailable("the database is unreachable")

    fetch_all = fetch_one
    transact = fetch_one
    clock_ms = ping


async def test_health_and_readiness_need_no_token(service: Service) -> None:
    del service.http.headers["Authorization"]
    assert (await service.get("/healthz")).json()["status"] == "ok"
    assert (await service.get("/readyz")).json() == {"status": "ready"}


async def test_a_service_without_its_store_is_healthy_but_not_ready(service: Service) -> None:
    service.context.db = UnreachableDatabase()  # type: ignore[assignment]
    assert (await service.get("/healthz")).status_code == 200
    assert refusal(await service.get("/readyz")) == (503, "unavailable")


async def test_a_service_that_can_only_read_is_not_ready(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = 0

    async def check_writable() -> None:
        nonlocal checks
        checks += 1
        raise StoreFull("the disk of /data is full")

    monkeypatch.setattr(service.context.db, "check_writable", check_writable)
    responses = await asyncio.gather(*(service.get("/readyz") for _ in range(20)))
    assert {refusal(response) for response in responses} == {(503, "unavailable")}
    assert "The disk of the database is full" in responses[0].text
    assert "/data" not in responses[0].text
    assert checks == 1


@pytest.mark.parametrize(("revision", "status"), [("1999", 200), ("9001", 503), ("0001", 503)])
async def test_a_service_is_ready_on_a_newer_schema_that_only_adds(
    service: Service, revision: str, status: int
) -> None:
    async def set_revision(tx: Transaction) -> None:
        await tx.execute("UPDATE alembic_version SET version_num = :revision", revision=revision)

    await service.context.db.transact(set_revision)
    assert (await service.get("/readyz")).status_code == status


async def test_a_stopping_service_is_not_ready(service: Service) -> None:
    service.context.stopping.set()
    assert refusal(await service.get("/readyz")) == (503, "unavailable")
    assert (await service.get("/healthz")).status_code == 200


async def test_without_a_token_configured_there_are_no_metrics(service: Service) -> None:
    assert refusal(await service.get("/metrics")) == (404, "not_found")


async def test_metrics_on_a_separate_address_need_no_token(service: Service) -> None:
    transport = httpx.ASGITransport(build_metrics_application(service.context))
    async with httpx.AsyncClient(transport=transport, base_url="http://metrics") as client:
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/v1/agents")).status_code == 404


async def test_health_is_on_the_separate_address_too(service: Service) -> None:
    transport = httpx.ASGITransport(build_metrics_application(service.context))
    async with httpx.AsyncClient(transport=transport, base_url="http://metrics") as client:
        assert (await client.get("/healthz")).json()["status"] == "ok"
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        service.context.find_problem = lambda: "This worker starts no jobs: it has no cluster."
        response = await client.get("/readyz")
        assert refusal(response) == (503, "unavailable")
        assert "it has no cluster" in response.text
        service.context.db = UnreachableDatabase()  # type: ignore[assignment]
        assert (await client.get("/healthz")).json()["status"] == "ok"
        assert refusal(await client.get("/readyz")) == (503, "unavailable")


class TestWithToken:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(data_dir=str(tmp_path), metrics_token="look-here")

    async def test_metrics_need_their_own_token(self, service: Service) -> None:
        assert refusal(await service.get("/metrics")) == (401, "unauthorized")
        response = await service.get("/metrics", headers=TOKEN)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/plain")

    async def test_requests_are_counted_by_route(self, service: Service) -> None:
        job = await service.create_job()
        await service.get(f"/v1/jobs/{job}")
        await service.get("/v1/jobs/job_none")
        await service.get("/unknown/path")
        await service.http.request("BREW", "/v1/agents")
        exported = samples((await service.get("/metrics", headers=TOKEN)).text)
        requests = "agentjobs_http_requests_total"
        assert exported[requests, "POST", "/v1/jobs", "202"] == 1
        assert exported[requests, "GET", "/v1/jobs/{job_id}", "200"] == 1
        assert exported[requests, "GET", "/v1/jobs/{job_id}", "404"] == 1
        assert exported[requests, "GET", "other", "404"] == 1
        assert exported[requests, "other", "/v1/agents", "405"] == 1
        assert exported["agentjobs_http_request_seconds_count", "/v1/jobs/{job_id}"] == 2

    async def test_queue_and_outcomes_are_counted_once(self, service: Service) -> None:
        jobs = [await service.create_job() for _ in range(3)]
        await service.harness.claim()
        await service.post(f"/v1/jobs/{jobs[2]}/cancel")
        for _ in range(2):
            exported = samples((await service.get("/metrics", headers=TOKEN)).text)
            assert exported[("agentjobs_queue_depth",)] == 1
            assert exported[("agentjobs_jobs_active",)] == 1
            assert exported["agentjobs_jobs_finished_total", "cancelled", "cancelled"] == 1
            assert exported[("agentjobs_store_up",)] == 1

    async def test_workers_pauses_and_the_queue_of_each_plan_are_exported(
        self, service: Service
    ) -> None:
        db, settings = service.context.db, service.context.settings
        for name in ("a", "b"):
            await renew(db, WorkerInfo(f"wrk_{name}", name, 3, [], tags=["gpu"]), [], 10)
        await ensure_default(db, service.context.plans)
        await drain_worker(db, settings, "wrk_b")
        await pause(db)
        await pause(db, "default")
        await service.create_job()
        exported = samples((await service.get("/metrics", headers=TOKEN)).text)
        states = {state: exported["agentjobs_workers", state] for state in STATUSES}
        assert states == {"ready": 1, "unready": 0, "draining": 0, "drained": 1, "silent": 0}
        assert exported["agentjobs_worker_slots", "ready"] == 3
        assert exported[("agentjobs_workers_with_odd_configuration",)] == 0
        assert exported[("agentjobs_paused",)] == 1
        assert exported[("agentjobs_organizations_paused",)] == 1
        assert exported["agentjobs_queue_depth_by_plan", "enterprise"] == 1
        assert exported["agentjobs_queue_depth_by_plan", "free"] == 0

    async def test_outages_and_kept_work_are_exported(self, service: Service) -> None:
        await service.create_job()
        job = await service.harness.claim()
        await start_job(service.context.db, job, "1" * 40)
        work = KeptWork("1" * 40, "2" * 40, b"bundle")
        await finish_job(service.context.db, job, Kept(work))
        await service.context.db.transact(record_outage, Outage("local", "away"))
        exported = samples((await service.get("/metrics", headers=TOKEN)).text)
        assert exported[("agentjobs_platform_outages",)] == 1
        assert exported[("agentjobs_kept_work",)] == 1

    async def test_builds_of_environments_are_counted_once(self, service: Service) -> None:
        db = service.context.db
        repo = await find_repo(db, service.caller.organization_id, JOB["repo"])
        new = NewBuild(
            organization_id=service.caller.organization_id,
            repo_id=repo.id,
            reason="job",
            branch="main",
            location="here",
        )
        # The clocks of a build and of a scrape are the same.
        await service.get("/metrics", headers=TOKEN)
        results = (Finished(size_bytes=100, setup_ms=2_000), Finished(size_bytes=20, setup_ms=1))
        for finished in (*results, Finished(error="no")):
            await finish_build(db, await begin_build(db, new), finished)
        await begin_build(db, new)
        for _ in range(2):
            exported = samples((await service.get("/metrics", headers=TOKEN)).text)
            assert exported["agentjobs_environment_builds_finished_total", "ready"] == 2
            assert exported["agentjobs_environment_builds_finished_total", "failed"] == 1
            assert exported[("agentjobs_environment_setup_seconds_sum",)] == 2.001
            assert exported["agentjobs_environment_builds_active", "building"] == 1
            assert exported["agentjobs_environment_builds_active", "queued"] == 0
            assert exported[("agentjobs_environment_snapshots",)] == 2
            assert exported[("agentjobs_environment_snapshot_bytes",)] == 120

    async def test_metrics_are_available_while_the_store_is_unreachable(
        self, service: Service
    ) -> None:
        before = samples((await service.get("/metrics", headers=TOKEN)).text)
        store = service.context.db
        service.context.db = UnreachableDatabase()  # type: ignore[assignment]
        exported = samples((await service.get("/metrics", headers=TOKEN)).text)
        assert exported[("agentjobs_store_up",)] == 0
        # Those that come from the store are absent, not 0 or outdated.
        assert ("agentjobs_queue_depth",) in before
        assert {name for name, *_ in exported if not name.startswith("process_")} == {
            "agentjobs_store_up",
            "agentjobs_http_requests_total",
            "agentjobs_http_request_seconds_bucket",
            "agentjobs_http_request_seconds_count",
            "agentjobs_http_request_seconds_sum",
        }
        service.context.db = store
        after = samples((await service.get("/metrics", headers=TOKEN)).text)
        assert before.keys() <= after.keys()

    async def test_metrics_do_not_wait_for_a_store_that_hangs(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agentjobs.web.metrics.registry._STORE_SECONDS", 0.01)
        monkeypatch.setattr(UnreachableDatabase, "clock_ms", lambda _: asyncio.Event().wait())
        service.context.db = UnreachableDatabase()  # type: ignore[assignment]
        exported = samples((await service.get("/metrics", headers=TOKEN)).text)
        assert exported[("agentjobs_store_up",)] == 0

    async def test_tokens_and_cost_are_counted_by_agent(self, service: Service) -> None:
        await service.create_job()
        job = await service.harness.claim()
        db = service.context.db
        await start_job(db, job, "1" * 40)
        usage = Usage(input_tokens=700, output_tokens=20, cost_usd=0.25, requests=3)

        async def spend(tx: Transaction) -> None:
            encoded = msgspec.json.encode(usage).decode()
            await tx.execute("UPDATE jobs SET usage = :usage", usage=encoded)

        await db.transact(spend)
        await finish_job(db, job, Failed("agent_failed", "no"))
        for _ in range(2):
            exported = samples((await service.get("/metrics", headers=TOKEN)).text)
            agent = JOB["agent"]
            assert exported["agentjobs_agent_jobs_finished_total", agent, "failed"] == 1
            assert exported["agentjobs_agent_run_seconds_total", agent] >= 0
            assert exported["agentjobs_agent_tokens_total", agent, "input"] == 700
            assert exported["agentjobs_agent_tokens_total", agent, "output"] == 20
            assert exported["agentjobs_agent_cost_usd_total", agent] == 0.25

    async def test_both_addresses_export_the_same_metrics(self, service: Service) -> None:
        await service.create_job()
        with_token = await service.get("/metrics", headers=TOKEN)
        transport = httpx.ASGITransport(build_metrics_application(service.context))
        async with httpx.AsyncClient(transport=transport, base_url="http://metrics") as client:
            without_token = await client.get("/metrics")
        exported = [samples(response.text) for response in (with_token, without_token)]
        job_requests = ("agentjobs_http_requests_total", "POST", "/v1/jobs", "202")
        assert [sample[job_requests] for sample in exported] == [1, 1]
        assert [sample[("agentjobs_queue_depth",)] for sample in exported] == [1, 1]

    async def test_concurrent_scrapes_count_nothing_twice(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        metrics = service.context.metrics
        await metrics.jobs.refresh(service.context.db)
        job = await service.create_job()
        await service.post(f"/v1/jobs/{job}/cancel")
        # Long after the last scrape: finished jobs are no longer in the set of counted jobs.
        later = now_ms() + 600 * SECOND_MS
        monkeypatch.setattr("agentjobs.store.sqlite.database.now_ms", lambda: later)
        await asyncio.gather(*(metrics.jobs.refresh(service.context.db) for _ in range(4)))
        exported = samples((await service.get("/metrics", headers=TOKEN)).text)
        assert exported["agentjobs_jobs_finished_total", "cancelled", "cancelled"] == 1
