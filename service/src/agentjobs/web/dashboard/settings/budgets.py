"""Settings > Budgets: limits on model cost, and what was spent."""

import msgspec
from starlette.responses import Response

from agentjobs.organizations.budgets import (
    NO_LIMIT,
    Budget,
    DailySpending,
    find_budget,
    list_daily_spending,
    parse_usd,
    set_budget,
)
from agentjobs.web.dashboard.forms import Form
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.plots.plots import Plot, PlotSeries, stacked_bars
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.clock import DAY_MS, iso_utc, now_ms
from agentjobs_runtime.money import usd, usd_text
from agentjobs_runtime.problems import Problem

_PATH = "/settings/budgets"
_DAYS = 30
_LIMITS = {"daily": "Each day", "job": "Each job"}
SAVED = "Budgets saved. They apply to jobs that start from now on."


class _Today(msgspec.Struct, frozen=True):
    """`share` is the used part of today's budget, at most 1; None without a budget."""

    spent_nanousd: int
    left_nanousd: int | None
    share: float | None


async def change(request: PageRequest) -> Response:
    await set_budget(request.db, request.organization, **read_limits(request.form))
    return request.redirect(_PATH, banner=SAVED)


def summarize_today(budget: Budget, spent_nanousd: int) -> _Today:
    limit = budget.daily_nanousd
    if limit is None:
        return _Today(spent_nanousd, None, None)
    return _Today(spent_nanousd, max(limit - spent_nanousd, 0), min(spent_nanousd / limit, 1.0))


def read_limits(form: Form) -> dict[str, str]:
    """The arguments of `set_budget`. An empty field means no limit."""
    return {name: _limit(form, name, label) for name, label in _LIMITS.items()}


def shown_limits(form: Form, daily: int | None, job: int | None) -> dict[str, str]:
    """The values of the fields: as entered, or else as stored."""
    stored = {"daily": usd_text(daily) or "", "job": usd_text(job) or ""}
    return {name: form.text(name) if name in form else text for name, text in stored.items()}


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    budget = await find_budget(request.db, request.organization_id)
    days = await list_daily_spending(
        request.db, request.organization_id, last_day=now_ms() // DAY_MS, days=_DAYS
    )
    dated_costs = [_with_date(day) for day in days]
    return await request.render(
        "settings/budgets.html",
        problem=problem,
        budget=budget,
        form_values=shown_limits(request.form, budget.daily_nanousd, budget.job_nanousd),
        today=summarize_today(budget, days[-1].nanousd),
        total_nanousd=sum(day.nanousd for day in days),
        spent_days=[(day, nanousd) for day, nanousd in reversed(dated_costs) if nanousd],
        drawing=stacked_bars(_plot(dated_costs)),
    )


def _limit(form: Form, name: str, label: str) -> str:
    text = form.text(name).removeprefix("$").strip()
    if not text or text.lower() == NO_LIMIT:
        return NO_LIMIT
    try:
        parse_usd(text)
    except Problem as problem:
        raise Problem(
            problem.code,
            f"{label}: {text!r} is not a valid amount. Enter US dollars above 0, such as 5 or "
            "0.25, or leave the field empty for no limit.",
        ) from None
    return text


def _with_date(day: DailySpending) -> tuple[str, int]:
    """The day as a UTC date such as 2026-01-31."""
    return iso_utc(day.day * DAY_MS)[:10], day.nanousd


def _plot(days: list[tuple[str, int]]) -> Plot:
    values = tuple(usd(nanousd) for _, nanousd in days)
    return Plot(
        title="Spent on models per day (UTC)",
        labels=tuple(day for day, _ in days),
        series=(PlotSeries("Spent", "s-1", values),),
        unit="usd",
    )


ROUTES: Routes = [
    PageRoute("GET", _PATH, "member", show),
    PageRoute("POST", _PATH, "admin", change, problem_page=show),
]
