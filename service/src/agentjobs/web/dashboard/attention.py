"""What needs a person: failed jobs, pull requests to review, vulnerabilities, failing webhooks."""

from collections.abc import Sequence

import msgspec

from agentjobs.advisories.findings import count_findings
from agentjobs.jobs.views.listing import failed_lines
from agentjobs.pulls.pulls import list_pulls
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text_filters import counted
from agentjobs.webhooks.endpoints import Endpoint, list_endpoints
from agentjobs_runtime.clock import DAY_MS

_PER_KIND = 5
_SEVERE = ("critical", "high")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """`path` leads to a page of the dashboard; `state` is a class of badges."""

    state: str
    word: str
    title: str
    path: str
    note: str = ""
    at: int | None = None


class Attention(msgspec.Struct, frozen=True):
    """`more` are links to lists with further items: their texts and paths."""

    items: Sequence[Item]
    more: Sequence[tuple[str, str]]


async def load_attention(request: PageRequest, now: int) -> Attention:
    """The most urgent first, few of each kind."""
    failed = await failed_lines(
        request.db, request.organization_id, since=now - DAY_MS, limit=_PER_KIND + 1
    )
    pulls = await list_pulls(request.db, request.organization, state="open", limit=_PER_KIND + 1)
    items = [
        *(
            Item(
                state="failed",
                word="failed",
                title=line.shown_title,
                path=f"/jobs/{line.job_id}",
                note=line.subtitle,
                at=line.completed_at,
            )
            for line in failed[:_PER_KIND]
        ),
        *await _failing_endpoints(request),
        *await _vulnerabilities(request),
        *(
            Item(
                state="draft" if pull.draft else "open",
                word="draft" if pull.draft else "review",
                title=pull.title,
                path=pull.path,
                note=f"{pull.repo}#{pull.number}",
                at=pull.created_at,
            )
            for pull in pulls[:_PER_KIND]
        ),
    ]
    more = []
    if len(failed) > _PER_KIND:
        more.append(("All failed jobs", "/jobs?status=failed"))
    if len(pulls) > _PER_KIND:
        more.append(("All open pull requests", "/pulls?state=open"))
    return Attention(items, more)


async def _failing_endpoints(request: PageRequest) -> list[Item]:
    """Also those whose deliveries are still retried. Only members see endpoints."""
    if not request.may("member"):
        return []
    endpoints = await list_endpoints(request.db, request.organization)
    return [_failing_endpoint(endpoint) for endpoint in endpoints if endpoint.failing_since][
        :_PER_KIND
    ]


def _failing_endpoint(endpoint: Endpoint) -> Item:
    return Item(
        state="bad",
        word="failing" if endpoint.enabled else "disabled",
        title=endpoint.url,
        path=f"/settings/webhooks/{endpoint.id}",
        note="webhook",
        at=endpoint.failing_since,
    )


async def _vulnerabilities(request: PageRequest) -> list[Item]:
    counts = (await count_findings(request.db, request.organization_id)).by_severity
    return [
        Item(
            state=f"severity-{level}",
            word=level,
            title=counted(counts[level], f"{level} vulnerability", f"{level} vulnerabilities"),
            path=f"/vulnerabilities?severity={level}",
            note="in your repositories",
        )
        for level in _SEVERE
        if counts[level]
    ]
