"""/: what needs a person, running and latest jobs, then recent results, durations and cost."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import tzinfo

import msgspec
from starlette.responses import Response

from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import list_lines
from agentjobs.jobs.views.statistics import Figures, Overview
from agentjobs.web.dashboard.attention import load_attention
from agentjobs.web.dashboard.checklist import load_checklist
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.plots import plots
from agentjobs.web.dashboard.plots.plots import Drawing, Plot, PlotSeries
from agentjobs.web.dashboard.plots.scale import Unit
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.zones import period_label, whole_hours_ahead
from agentjobs.webhooks.statistics import Span
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.money import NANOUSD_PER_USD

_SPANS: dict[str, Span] = {"24h": "24h", "7d": "7d", "30d": "30d"}
# Values of the delivery log's filter.
_DAYS: dict[Span, str] = {"24h": "1", "7d": "7", "30d": "30"}
_RUNNING_JOBS = 8
_LATEST_JOBS = 8
_PARTS = tuple(f"overview/{name}" for name in ("attention", "running", "latest", "tiles", "plots"))


class _Line(msgspec.Struct, frozen=True):
    name: str
    css_class: str
    value: Callable[[Figures], float | None]


class _PlotSpec(msgspec.Struct, frozen=True):
    """One plot of the page."""

    title: str
    draw: Callable[[Plot], Drawing]
    empty: str
    lines: tuple[_Line, ...]
    unit: Unit = "count"

    def series(self, buckets: Sequence[Figures]) -> tuple[PlotSeries, ...]:
        return tuple(
            PlotSeries(line.name, line.css_class, tuple(map(line.value, buckets)))
            for line in self.lines
        )


_PLOTS = (
    _PlotSpec(
        "Finished jobs",
        plots.stacked_bars,
        "No job finished in this period.",
        (
            _Line("completed", "s-good", lambda bucket: bucket.completed),
            _Line("failed", "s-bad", lambda bucket: bucket.failed),
            _Line("cancelled", "s-quiet", lambda bucket: bucket.cancelled),
        ),
    ),
    _PlotSpec(
        "Average queue wait and duration",
        plots.lines,
        "No job finished in this period.",
        (
            _Line("queue wait", "s-warn", lambda bucket: bucket.mean_wait_ms),
            _Line("duration", "s-info", lambda bucket: bucket.mean_duration_ms),
        ),
        "ms",
    ),
    _PlotSpec(
        "Webhook deliveries",
        plots.stacked_bars,
        "No events were sent in this period.",
        (
            _Line("delivered", "s-good", lambda bucket: bucket.deliveries_delivered),
            _Line("failed", "s-bad", lambda bucket: bucket.deliveries_failed),
        ),
    ),
    _PlotSpec(
        "Model cost",
        plots.stacked_bars,
        "No model cost in this period.",
        (_Line("cost", "s-1", lambda bucket: bucket.cost_nanousd / NANOUSD_PER_USD),),
        "usd",
    ),
)


async def show(request: PageRequest) -> Response:
    now, zone = now_ms(), request.zone
    overview = await request.context.statistics.overview(
        request.organization_id, _span(request), now, hours_ahead=whole_hours_ahead(now, zone)
    )
    organization = request.organization_id
    running = await list_lines(
        request.db, organization, JobFilter(status="running"), limit=_RUNNING_JOBS
    )
    latest = await list_lines(request.db, organization, JobFilter(), limit=_LATEST_JOBS)
    has_completed = overview.total.completed > 0
    return await request.render(
        "overview.html",
        spans=list(_SPANS),
        checklist=[] if has_completed else await load_checklist(request),
        now=now,
        span=overview.span,
        attention=await load_attention(request, now),
        running=running.lines,
        overview=overview,
        days=_DAYS[overview.span],
        drawings=await asyncio.to_thread(_drawings, overview, zone),
        latest=latest.lines,
    )


def _span(request: PageRequest) -> Span:
    return _SPANS.get(request.query_param("span"), "24h")


def _drawings(overview: Overview, zone: tzinfo) -> list[Drawing]:
    buckets = overview.buckets
    labels = tuple(period_label(bucket.starts_at, bucket.ends_at, zone) for bucket in buckets)
    return [
        plot.draw(Plot(plot.title, labels, plot.series(buckets), plot.unit, plot.empty))
        for plot in _PLOTS
    ]


ROUTES: Routes = live_page("/", "viewer", show, *_PARTS)
