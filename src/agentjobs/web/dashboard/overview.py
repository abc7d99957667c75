"""/: how it goes: what runs and waits, how it ended lately, what it took and cost."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from agentjobs.jobs.listing import JobFilter, list_lines
from agentjobs.jobs.statistics import Figures, Overview, Span
from agentjobs.organizations.budgets import NANOUSD_PER_USD
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard import plots
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.places import OpenPlace, Place
from agentjobs.web.dashboard.plots import Drawing, Plot, PlotSeries
from agentjobs.web.dashboard.visits import Visit
from agentjobs.webhooks.events import HAPPENED

_SPANS: dict[str, Span] = {"24h": "24h", "7d": "7d", "30d": "30d"}
_SHOWN = 8


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

    return live_parts(visit, (HAPPENED,), parts)


async def _now(visit: Visit) -> dict[str, Any]:
    overview = await visit.context.statistics.overview(visit.organization_id, _span(visit))
    latest = await list_lines(visit.db, visit.organization_id, JobFilter(), limit=_SHOWN)
    return {
        "overview": overview,
        "drawings": await asyncio.to_thread(_drawings, overview),
        "latest": latest.lines,
    }


def _span(visit: Visit) -> Span:
    return _SPANS.get(visit.query("span"), "24h")


def _drawings(overview: Overview) -> list[Drawing]:
    buckets = overview.buckets
    labels = tuple(_label(bucket, overview.span) for bucket in buckets)

    def series(name: str, css_class: str, values: list[float | None]) -> PlotSeries:
        # Nothing but zeros is no picture: then the plot says so in words.
        return PlotSeries(name, css_class, tuple(values) if any(values) else ())

    return [
        plots.stacked_bars(
            Plot(
                "Jobs that ended",
                labels,
                (
                    series("completed", "s-good", [each.completed for each in buckets]),
                    series("failed", "s-bad", [each.failed for each in buckets]),
                    series("cancelled", "s-quiet", [each.cancelled for each in buckets]),
                ),
                empty="No job ended in this time.",
            )
        ),
        plots.lines(
            Plot(
                "Wait in the queue and duration, on average",
                labels,
                (
                    series("queue wait", "s-warn", [each.mean_wait_ms for each in buckets]),
                    series("duration", "s-info", [each.mean_duration_ms for each in buckets]),
                ),
                unit="ms",
                empty="No job ended in this time.",
            )
        ),
        plots.stacked_bars(
            Plot(
                "Webhook deliveries",
                labels,
                (
                    series("delivered", "s-good", [each.deliveries_delivered for each in buckets]),
                    series("failed", "s-bad", [each.deliveries_failed for each in buckets]),
                ),
                empty="Nothing was sent in this time.",
            )
        ),
        plots.bars(
            Plot(
                "Cost of models",
                labels,
                (series("cost", "s-1", [each.cost_nanousd / NANOUSD_PER_USD for each in buckets]),),
                unit="usd",
                empty="No model was paid for in this time.",
            )
        ),
    ]


def _label(bucket: Figures, span: Span) -> str:
    """In UTC, as the buckets are."""
    at = datetime.fromtimestamp(bucket.starts_at / 1_000, UTC)
    return at.strftime("%H:%M") if span == "24h" else at.strftime("%b %d")


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/", "viewer", show),
    Place("GET", "/stream", "viewer", stream),
]
