"""Settings, budgets: limits, spending, and the remaining budget of today."""

import pytest

from agentjobs.organizations.budgets import Budget, find_budget, set_budget
from agentjobs.store.database import Transaction
from agentjobs.web.dashboard.settings.budgets import summarize_today
from agentjobs_runtime.clock import DAY_MS, iso_utc, now_ms
from agentjobs_runtime.money import NANOUSD_PER_USD
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.conftest import Dashboard

PATH = "/settings/budgets"


async def spend(tx: Transaction, organization_id: str, day: int, dollars: float) -> None:
    await tx.execute(
        "INSERT INTO daily_spending (organization_id, day, spent_nanousd)"
        " VALUES (:organization_id, :day, :spent)",
        organization_id=organization_id,
        day=day,
        spent=int(dollars * NANOUSD_PER_USD),
    )


async def spent(dashboard: Dashboard, days_ago: int, dollars: float) -> str:
    """The day in the format of the page."""
    day = now_ms() // DAY_MS - days_ago
    await dashboard.db.transact(spend, dashboard.caller.organization_id, day, dollars)
    return iso_utc(day * DAY_MS)[:10]


async def budget_of(dashboard: Dashboard) -> Budget:
    return await find_budget(dashboard.db, dashboard.caller.organization_id)


async def test_budgets_are_saved_and_removed(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    assert page.form(PATH).value("daily") == ""
    page = await dashboard.admin.send(page, PATH, daily="$20", job="0.25")
    assert "Budgets saved." in page.text
    assert page.form(PATH).value("daily") == "20.00"
    assert await budget_of(dashboard) == Budget(20 * NANOUSD_PER_USD, NANOUSD_PER_USD // 4)
    page = await dashboard.admin.send(page, PATH, daily="")
    assert await budget_of(dashboard) == Budget(None, NANOUSD_PER_USD // 4)
    assert page.form(PATH).value("job") == "0.25"


@pytest.mark.parametrize("amount", ["0", "-5", "1,50", "much", "1e3", PAYLOAD])
async def test_a_rejected_form_keeps_the_entered_values(dashboard: Dashboard, amount: str) -> None:
    await set_budget(dashboard.db, "acme", daily="7")
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, PATH, daily="9", job=amount)
    assert page.status == 400
    assert page.is_safe()
    assert "Each job:" in page.text
    assert "leave the field empty for no limit" in page.text
    assert (page.form(PATH).value("daily"), page.form(PATH).value("job")) == ("9", amount)
    assert await budget_of(dashboard) == Budget(7 * NANOUSD_PER_USD, None)


async def test_spending_is_shown_by_day(dashboard: Dashboard) -> None:
    await spent(dashboard, 0, 1.5)
    earlier = await spent(dashboard, 29, 2)
    too_early = await spent(dashboard, 30, 40)
    await set_budget(dashboard.db, "acme", daily="6")
    page = await dashboard.member.open(PATH)
    assert "Spent today $1.50" in page.text
    assert "Left today $4.50" in page.text
    assert "Last 30 days $3.50" in page.text
    assert f"{earlier} $2.00" in page.text
    assert too_early not in page.text
    assert any(tag == "svg" for tag, _ in page.tags)
    assert page.is_safe()
    [meter] = [attributes for tag, attributes in page.tags if tag == "meter"]
    assert meter["value"] == "0.2500"


async def test_an_organization_without_spending_sees_an_empty_state(dashboard: Dashboard) -> None:
    page = await dashboard.member.open(PATH)
    assert "No spending in the last 30 days" in page.text
    assert "Left today no limit" in page.text
    assert not any(tag == "meter" for tag, _ in page.tags)


async def test_an_exhausted_budget_shows_a_warning(dashboard: Dashboard) -> None:
    await spent(dashboard, 0, 5)
    await set_budget(dashboard.db, "acme", daily="3")
    page = await dashboard.admin.open(PATH)
    assert "Today's budget is used up" in page.text
    assert "Left today $0.00" in page.text


async def test_spending_of_other_organizations_is_not_shown(dashboard: Dashboard) -> None:
    await spent(dashboard, 0, 5)
    page = await dashboard.outsider.open(PATH)
    assert "No spending" in page.text


async def test_members_see_budgets_and_only_admins_change_them(dashboard: Dashboard) -> None:
    await set_budget(dashboard.db, "acme", daily="3")
    page = await dashboard.member.open(PATH)
    assert not page.has_form(PATH)
    assert "Daily limit $3.00" in page.text
    fields = [("csrf", page.form("/sign-out").value("csrf")), ("daily", "1000")]
    assert (await dashboard.member.post(PATH, fields)).status == 403
    assert (await dashboard.viewer.get(PATH)).status_code == 403
    assert await budget_of(dashboard) == Budget(3 * NANOUSD_PER_USD, None)


@pytest.mark.parametrize(
    ("limit", "used", "left", "share"),
    [(None, 5, None, None), (10, 0, 10, 0.0), (10, 4, 6, 0.4), (10, 12, 0, 1.0)],
)
def test_the_remaining_budget_is_never_negative(
    limit: int | None, used: int, left: int | None, share: float | None
) -> None:
    today = summarize_today(Budget(limit, None), used)
    assert (today.left_nanousd, today.share) == (left, share)
