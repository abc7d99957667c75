"""/: how it goes: what runs and waits, how it ended lately, what it took and cost."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.jobs.views.listing import JobFilter, list_lines
from agentjobs.jobs.views.statistics import Figures, Overview, Span
from agentjobs.organizations.budgets import NANOUSD_PER_USD
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.plots import plots
from agentjobs.web.dashboard.plots.plots import Drawing, Plot, PlotSeries
from agentjobs.web.dashboard.plots.scale import Unit
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.webhooks.events import happened_in

_SPANS: dict[str, Span] = {"24h": "24h", "7d": "7d", "30d": "30d"}
# As the delivery log's filter has them.
_DAYS: dict[Span, str] = {"24h": "1", "7d": "7", "30d": "30"}
_SHOWN = 8


class _Line(msgspec.Struct, frozen=True):
    name: str
    css_class: str
    value: Callable[[Figures], float | None]


class _Picture(msgspec.Struct, frozen=True):
    """A plot of the page: how it is drawn, and what of."""

    title: str
    draw: Callable[[Plot], Drawing]
    empty: str
    lines: tuple[_Line, ...]
    unit: Unit = "count"

    def series(self, buckets: Sequence[Figures]) -> tuple[PlotSeries, ...]:
        found = [tuple(line.value(each) for each in buckets) for line in self.lines]
        # Nothing but zeros is no picture: then the plot says so in words.
        return tuple(
            PlotSeries(line.name, line.css_class, values if any(values) else ())
            for line, values in zip(self.lines, found, strict=True)
        )


_PICTURES = (
    _Picture(
        "Jobs that ended",
        plots.stacked_bars,
        "No job ended in this time.",
        (
            _Line("completed", "s-good", lambda each: each.completed),
            _Line("failed", "s-bad", lambda each: each.failed),
            _Line("cancelled", "s-quiet", lambda each: each.cancelled),
        ),
    ),
    _Picture(
        "Wait in the queue and duration, on average",
        plots.lines,
        "No job ended in this time.",
        (
            _Line("queue wait", "s-warn", lambda each: each.mean_wait_ms),
            _Line("duration", "s-info", lambda each: each.mean_duration_ms),
        ),
        "ms",
    ),
    _Picture(
        "Webhook deliveries",
        plots.stacked_bars,
        "Nothing was sent in this time.",
        (
            _Line("delivered", "s-good", lambda each: each.deliveries_delivered),
            _Line("failed", "s-bad", lambda each: each.deliveries_failed),
        ),
    ),
    _Picture(
        "Cost of models",
        plots.bars,
        "No model was paid for in this time.",
        (_Line("cost", "s-1", lambda each: each.cost_nanousd / NANOUSD_PER_USD),),
        "usd",
    ),
)


async def show(visit: Visit) -> Response:
    span = _span(visit)
    repos = await list_repos(visit.db, visit.organization_id, limit=1)
    return await visit.page(
        "overview.html", span=span, spans=list(_SPANS), has_repos=bool(repos), **await _now(visit)
    )


async def stream(visit: Visit) -> Response:
    span = _span(visit)

    async def parts() -> Parts:
        facts = await _now(visit)
        return {
            "tiles": await visit.fragment("overview/tiles.html", span=span, **facts),
            "plots": await visit.fragment("overview/plots.html", span=span, **facts),
            "latest": await visit.fragment("overview/latest.html", span=span, **facts),
        }

    return live_parts(visit, (happened_in(visit.organization_id),), parts)


async def _now(visit: Visit) -> dict[str, Any]:
    overview = await visit.context.statistics.overview(visit.organization_id, _span(visit))
    latest = await list_lines(visit.db, visit.organization_id, JobFilter(), limit=_SHOWN)
    return {
        "overview": overview,
        "days": _DAYS[overview.span],
        "drawings": await asyncio.to_thread(_drawings, overview),
        "latest": latest.lines,
    }


def _span(visit: Visit) -> Span:
    return _SPANS.get(visit.query("span"), "24h")


def _drawings(overview: Overview) -> list[Drawing]:
    buckets = overview.buckets
    labels = tuple(_label(bucket, overview.span) for bucket in buckets)
    return [
        each.draw(Plot(each.title, labels, each.series(buckets), each.unit, each.empty))
        for each in _PICTURES
    ]


def _label(bucket: Figures, span: Span) -> str:
    """In UTC, as the buckets are."""
    at = datetime.fromtimestamp(bucket.starts_at / 1_000, UTC)
    return at.strftime("%H:%M") if span == "24h" else at.strftime("%b %d")


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/", "viewer", show),
    Place("GET", "/stream", "viewer", stream),
]
