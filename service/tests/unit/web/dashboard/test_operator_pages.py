"""The operator's area: the whole service, without anything of what organizations work on."""

import msgspec
import pytest

from agentjobs.fleet.processes import ProcessInfo, record_heartbeat
from agentjobs.jobs.operations.workers import drain_worker
from agentjobs.jobs.queue.leases import renew
from agentjobs.organizations.operators import add_operator
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.pauses import load_pauses
from agentjobs_runtime.free_space import DiskSpace
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from service.tests.unit.web.dashboard.browser import PAYLOAD, Browser
from service.tests.unit.web.dashboard.conftest import Dashboard
from service.tests.unit.web.dashboard.event_streams import listen
from tests.support.users import write

WORKERS = "/operator/workers"
WORKER = WorkerInfo(
    "wrk_a",
    f"host-a{PAYLOAD}",
    4,
    [],
    version="1.2.3",
    configuration_digest="d1",
    tags=["gpu"],
    disk_space=DiskSpace(3 * 1024**3, 8 * 1024**3),
)


async def make_operator(dashboard: Dashboard, organization_id: str) -> Browser:
    """A viewer: the flag is apart from the roles of organizations."""
    user, browser = await dashboard.add_user("root@ops.example", organization_id, "viewer")
    await add_operator(dashboard.db, user)
    return browser


@pytest.fixture
async def operator(dashboard: Dashboard):
    browser = await make_operator(dashboard, dashboard.caller.organization_id)
    yield browser
    await browser.close()


@pytest.fixture
async def sample_operator(sample_dashboard: Dashboard):
    organization_id = (await find_organization(sample_dashboard.db, "other")).id
    browser = await make_operator(sample_dashboard, organization_id)
    yield browser
    await browser.close()


async def test_the_area_exists_only_for_operators(dashboard: Dashboard, operator: Browser) -> None:
    page = await operator.open("/")
    assert "/operator" in page.links
    assert (await operator.open("/settings/workers")).path == WORKERS
    page = await operator.open("/account")
    assert "Operator" in page.text
    assert "/operator" not in (await dashboard.admin.open("/account")).links
    unknown = await dashboard.admin.get("/nothing")
    for path in ("/operator", "/operator/organizations/acme", "/settings/workers"):
        response = await dashboard.admin.get(path)
        assert response.status_code == unknown.status_code == 404
        assert "There is no page at this address" in response.text


async def test_organizations_are_listed_with_what_they_use_and_nothing_of_their_content(
    sample_dashboard: Dashboard, sample_operator: Browser
) -> None:
    page = await sample_operator.open("/operator")
    assert page.is_safe()
    row = page.text[page.text.index("acme enterprise") :][:60]
    # Members and repositories, and the jobs that run and wait.
    assert row.startswith("acme enterprise 4 1 1 1")
    samples = sample_dashboard.samples["acme"]
    secrets = ("Fix the price", "SHOP-2", samples.repo, "admin@acme.example", samples.queued_job)
    for path in ("/operator", "/operator/organizations/acme", "/operator/queues"):
        page = await sample_operator.open(path)
        assert "acme" in page.text
        assert [text for text in secrets if text in page.html] == []


async def test_organizations_are_searched_sorted_and_paged(
    dashboard: Dashboard, operator: Browser
) -> None:
    for number in range(60):
        await write(
            dashboard.db,
            "INSERT INTO organizations (id, name, plan, created_at) VALUES (:name, :name, 'free',"
            " :number)",
            name=f"team-{number:02d}",
            number=number,
        )
    page = await operator.open("/operator")
    assert "team-47" in page.text
    assert "team-48" not in page.text
    page = await operator.open("/operator?page=2")
    assert "team-59" in page.text
    page = await operator.open("/operator?q=TEAM-1&order=waiting")
    assert "team-19" in page.text
    assert "team-20" not in page.text
    page = await operator.open("/operator?q=team&order=newest")
    assert page.text.index("team-59") < page.text.index("team-58")
    page = await operator.open("/operator?q=nothing%25")
    assert "No organization matches" in page.text


async def test_an_operator_changes_plan_and_budget_and_pauses_an_organization(
    dashboard: Dashboard, operator: Browser
) -> None:
    here = "/operator/organizations/other"
    page = await operator.send(await operator.open(here), f"{here}/plan", plan="free")
    assert "other is on the plan free now." in page.text
    page = await operator.send(page, f"{here}/budget", daily="$5", job="")
    assert "of $5.00" in page.text
    refused = await operator.send(page, f"{here}/budget", daily="much", job="")
    assert refused.status == 400
    assert refused.form(f"{here}/budget").value("daily") == "much"
    page = await operator.send(page, f"{here}/pause")
    assert "other is paused" in page.text
    assert list((await load_pauses(dashboard.db)).organizations) == ["other"]
    assert "The operator has paused" in (await dashboard.outsider.open("/")).text
    page = await operator.send(page, f"{here}/resume")
    assert (await load_pauses(dashboard.db)).organizations == {}
    # The organization's own log says who it was, as an operator.
    log = await dashboard.outsider.open("/settings/audit-log")
    for text in ("Plan changed", "Budget changed", "Organization paused"):
        assert f"Root operator {text}: other" in log.text, log.text
    assert (await operator.get("/operator/organizations/ghost")).status_code == 404


async def test_waiting_jobs_are_grouped_by_organization_agent_and_reason(
    sample_dashboard: Dashboard, sample_operator: Browser
) -> None:
    page = await sample_operator.open("/operator/queues")
    assert "acme fixer Waits for a free slot 1" in page.text
    await write(sample_dashboard.db, "DELETE FROM workers")
    await write(sample_dashboard.db, "UPDATE organizations SET paused_at = 1 WHERE name = 'other'")
    sample_dashboard.harness.context.fleet.forget()
    stream = await listen(sample_dashboard.app, sample_operator, "/operator/queues/stream")
    text = stream.parts()["operator/queue_rows"].text
    assert "acme fixer No worker can run the job 1" in text
    assert "other fixer Paused 1" in text


async def test_an_operator_sees_drains_and_removes_workers(
    dashboard: Dashboard, operator: Browser
) -> None:
    assert "No workers" in (await operator.open(WORKERS)).text
    await renew(dashboard.db, WORKER, [], 10)
    page = await operator.open(WORKERS)
    assert page.is_safe()
    for text in ("wrk_a", "host-a", "0 of 4 slots", "gpu", "1.2.3", "3.0 GiB free of 8.0 GiB"):
        assert text in page.text, text
    assert "differs" not in page.text
    page = await operator.send(page, "wrk_a/drain")
    assert "finishes its jobs and claims no more" in page.text
    assert "drained" in page.text
    page = await operator.send(page, "wrk_a/resume")
    assert "claims jobs again" in page.text
    refused = await operator.post(
        f"{WORKERS}/wrk_a/remove", [("csrf", page.form("/drain").value("csrf"))]
    )
    assert refused.status == 400
    assert "is alive" in refused.text
    await write(dashboard.db, "UPDATE workers SET heartbeat_at = 1")
    page = await operator.send(await operator.open(WORKERS), "wrk_a/remove")
    assert "was removed" in page.text
    assert (await operator.get(f"{WORKERS}/wrk_b/drain")).status_code == 405


async def test_an_operator_sees_why_a_worker_is_not_ready(
    dashboard: Dashboard, operator: Browser
) -> None:
    problem = f"the cluster does not answer {PAYLOAD}"
    await renew(dashboard.db, msgspec.structs.replace(WORKER, sandbox_problem=problem), [], 10)
    page = await operator.open(WORKERS)
    assert page.is_safe()
    assert "unready It starts no job, because the cluster does not answer" in page.text


async def test_processes_databases_and_pauses_are_shown_and_the_odd_one_is_named(
    dashboard: Dashboard, operator: Browser
) -> None:
    for name, digest in (("one", "same"), ("two", "same"), ("three", "other")):
        process = ProcessInfo(f"prc_{name}", "serve", name, "1.2.3", digest)
        process.disk_free_bytes, process.disk_total_bytes = 1024**3, 2 * 1024**3
        await record_heartbeat(dashboard.db, process)
    await drain_and_register(dashboard)
    page = await operator.open("/operator/service")
    assert page.is_safe()
    assert "Serve on three (prc_three) has another configuration" in page.text
    assert page.text.count("differs") == 1
    assert "1.0 GiB free of 2.0 GiB" in page.text
    assert "SQLite" in page.text
    assert "no migration is pending" in page.text
    page = await operator.send(page, "/service/pause")
    assert (await load_pauses(dashboard.db)).service_since is not None
    assert "Whole service" in page.text
    page = await operator.send(page, "/service/resume")
    assert (await load_pauses(dashboard.db)).service_since is None


async def drain_and_register(dashboard: Dashboard) -> None:
    worker = msgspec.structs.replace(WORKER, configuration_digest="same")
    await renew(dashboard.db, worker, [], 10)
    await drain_worker(dashboard.db, dashboard.context.settings, "wrk_a")
