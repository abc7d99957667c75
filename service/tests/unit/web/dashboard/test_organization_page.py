"""Settings, organization: the plan, its limits, and the entry page of the settings."""

import msgspec

from agentjobs.organizations.organizations import ensure_default, set_plan
from agentjobs.organizations.pauses import pause, resume
from agentjobs_worker.agents.catalog import Catalog
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.conftest import Dashboard
from tests.support.jobs import an_agent

PATH = "/settings/organization"


async def test_settings_redirect_to_the_first_page_that_the_role_may_open(
    dashboard: Dashboard,
) -> None:
    admin, member = await dashboard.admin.get("/settings"), await dashboard.member.get("/settings")
    assert (admin.status_code, admin.headers["location"]) == (303, "/settings/api-keys")
    assert (member.status_code, member.headers["location"]) == (303, "/settings/webhooks")
    assert (await dashboard.viewer.get("/settings")).status_code == 403


async def test_the_page_shows_the_organization_and_its_limits(dashboard: Dashboard) -> None:
    page = await dashboard.member.open(PATH)
    plan = dashboard.caller.plan
    jobs = dashboard.context.plans.concurrent_jobs(plan)
    assert f"ID {dashboard.caller.organization_id}" in page.text
    assert f"Plan {plan}" in page.text
    assert f"Concurrent jobs {jobs}" in page.text
    assert "1,000 jobs; further jobs are rejected" in page.text
    assert "http://127.0.0.1:8080/v1" in page.text
    assert "http://127.0.0.1:8080/git/acme/OWNER/NAME.git" in page.text
    assert "An operator of the service can change it to" in page.text


async def test_a_pause_is_shown_on_every_page_and_with_the_organization(
    dashboard: Dashboard,
) -> None:
    await pause(dashboard.db, "acme")
    page = await dashboard.member.open(PATH)
    assert "The operator has paused the organization acme" in page.text
    assert "until an operator of the service resumes it" in page.text
    await resume(dashboard.db, "acme")
    assert "paused" not in (await dashboard.member.open(PATH)).text
    await ensure_default(dashboard.db, dashboard.context.plans)
    await pause(dashboard.db)
    for path in ("/", "/jobs", PATH):
        assert "The operator has paused the service" in (await dashboard.member.open(path)).text


async def test_agents_outside_the_plan_are_labelled(dashboard: Dashboard) -> None:
    dashboard.context.catalog = Catalog([an_agent("cheap"), an_agent("dear", "enterprise")])
    assert "not on this plan" not in (await dashboard.member.open(PATH)).text
    await set_plan(dashboard.db, dashboard.context.plans, "acme", "free")
    page = await dashboard.member.open(PATH)
    assert "Cheap cheap free available" in page.text
    assert "Dear dear enterprise not on this plan" in page.text


async def test_without_agents_the_page_shows_an_empty_state(dashboard: Dashboard) -> None:
    dashboard.context.catalog = Catalog([])
    assert "No agents" in (await dashboard.member.open(PATH)).text


async def test_users_see_their_own_organization(dashboard: Dashboard) -> None:
    assert dashboard.caller.organization_id not in (await dashboard.outsider.open(PATH)).html
    assert (await dashboard.viewer.get(PATH)).status_code == 403


async def test_a_hostile_agent_name_is_escaped(dashboard: Dashboard) -> None:
    hostile = msgspec.structs.replace(an_agent("odd"), name=PAYLOAD)
    dashboard.context.catalog = Catalog([hostile])
    page = await dashboard.member.open(PATH)
    assert page.is_safe()
    assert PAYLOAD in page.text


async def test_an_administrator_sets_the_severity_that_starts_jobs(
    dashboard: Dashboard,
) -> None:
    admin, form = dashboard.admin, f"{PATH}/auto-trigger"
    page = await admin.open(PATH)
    assert page.form(form).value("level") == "none"
    page = await admin.send(page, form, level="critical")
    assert page.form(form).value("level") == "critical"
    error_page = await admin.send(page, form, level="grave")
    assert error_page.status == 400
    assert "is not a severity" in error_page.text
    member = await dashboard.member.open(PATH)
    assert "Current setting: Critical only . An admin can change it." in member.text
    assert not member.has_form(form)
