"""Settings, workers: only operators see them."""

import msgspec

from agentjobs.jobs.queue.leases import WorkerInfo, renew
from agentjobs.jobs.workers import drain_worker
from agentjobs.organizations.operators import add_operator
from tests.unit.web.dashboard.browser import PAYLOAD
from tests.unit.web.dashboard.conftest import Dashboard

PATH = "/settings/workers"
WORKER = WorkerInfo(
    "wrk_a", f"host-a{PAYLOAD}", 4, [], version="1.2.3", configuration_digest="d1", tags=["gpu"]
)


async def operator(dashboard: Dashboard):
    acme = dashboard.caller.organization_id
    user, browser = await dashboard.add_user("root@acme.example", acme, "admin")
    await add_operator(dashboard.db, user)
    return browser


async def test_an_operator_sees_the_state_of_every_worker(dashboard: Dashboard) -> None:
    browser = await operator(dashboard)
    assert "No workers" in (await browser.open(PATH)).text
    await renew(dashboard.db, WORKER, [], 10)
    await drain_worker(dashboard.db, dashboard.context.settings, "wrk_a")
    page = await browser.open(PATH)
    assert page.is_safe()
    for text in ("wrk_a", "host-a", "drained", "0 of 4 slots", "gpu", "1.2.3", "d1"):
        assert text in page.text, text
    assert "differs" not in page.text
    assert f'href="{PATH}"' in (await browser.open("/settings/api-keys")).html


async def test_an_operator_sees_why_a_worker_is_not_ready(dashboard: Dashboard) -> None:
    browser = await operator(dashboard)
    problem = f"the cluster does not answer {PAYLOAD}"
    await renew(dashboard.db, msgspec.structs.replace(WORKER, sandbox_problem=problem), [], 10)
    page = await browser.open(PATH)
    assert page.is_safe()
    assert "unready It starts no job, because the cluster does not answer" in page.text


async def test_admins_who_are_no_operators_see_no_worker(dashboard: Dashboard) -> None:
    await renew(dashboard.db, WORKER, [], 10)
    page = await dashboard.admin.open(PATH)
    assert "host-a" not in page.html
    assert "Its operators" in page.text
    assert f'href="{PATH}"' not in (await dashboard.admin.open("/settings/api-keys")).html
