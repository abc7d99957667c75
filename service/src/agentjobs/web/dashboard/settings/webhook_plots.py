"""The plots of an endpoint: results of its deliveries and how long they took."""

import asyncio
from datetime import tzinfo
from typing import Any

from agentjobs.web.dashboard.plots import plots
from agentjobs.web.dashboard.plots.plots import Drawing, Plot, PlotSeries
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.zones import period_label, whole_hours_ahead
from agentjobs.webhooks.endpoints import Endpoint
from agentjobs.webhooks.statistics import SPANS, EndpointRecord, Span, load_record
from agentjobs_runtime.clock import now_ms

_SPANS: dict[str, Span] = {span: span for span in SPANS}


async def load_plots(request: PageRequest, endpoint: Endpoint) -> dict[str, Any]:
    now, zone = now_ms(), request.zone
    record = await load_record(
        request.context.db,
        endpoint.id,
        _SPANS.get(request.query_param("span"), "24h"),
        created_at=endpoint.created_at,
        now=now,
        hours_ahead=whole_hours_ahead(now, zone),
    )
    drawings = await asyncio.to_thread(_draw, record, zone)
    return {"record": record, "spans": list(SPANS), "drawings": drawings}


def _draw(record: EndpointRecord, zone: tzinfo) -> list[Drawing]:
    buckets = record.buckets
    labels = tuple(period_label(bucket.starts_at, bucket.ends_at, zone) for bucket in buckets)
    results = (
        PlotSeries("delivered", "s-good", tuple(bucket.delivered for bucket in buckets)),
        PlotSeries("failed", "s-bad", tuple(bucket.failed for bucket in buckets)),
    )
    durations = (
        PlotSeries("median", "s-info", tuple(bucket.median_ms for bucket in buckets)),
        PlotSeries("95th percentile", "s-warn", tuple(bucket.p95_ms for bucket in buckets)),
    )
    empty = "Nothing was sent in this period."
    return [
        plots.stacked_bars(Plot("Deliveries", labels, results, "count", empty)),
        plots.lines(Plot("Response time", labels, durations, "ms", empty)),
    ]
