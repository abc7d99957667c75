"""/jobs: what was asked for, newest first, found by what one remembers of it."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.jobs.listing import JobFilter, JobPage, list_lines
from agentjobs.jobs.states import STATUSES
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.places import OpenPlace, Place
from agentjobs.web.dashboard.visits import Visit
from agentjobs.webhooks.events import HAPPENED

_PER_PAGE = 50
_FIELDS = ("q", "status", "repo", "agent", "ticket", "since", "until")
_JOB_ID = re.compile("job_[0-9a-z]{26}")


async def show(visit: Visit) -> Response:
    kept = _kept(visit)
    page = await _page(visit, kept)
    repos = await list_repos(visit.db, visit.organization_id)
    agents = sorted(agent.id for agent in visit.context.catalog.all())
    return await visit.page(
        "jobs/list.html",
        page=page,
        **_places(visit, kept, page),
        kept=kept,
        is_filtered=any(kept.values()),
        status_options=[("", "any"), *((status, status) for status in STATUSES)],
        repo_options=[("", "any"), *((repo.full_name, repo.full_name) for repo in repos)],
        agent_options=[("", "any"), *((agent, agent) for agent in agents)],
        has_repos=bool(repos),
    )


async def stream(visit: Visit) -> Response:
    kept = _kept(visit)

    async def parts() -> Parts:
        page = await _page(visit, kept)
        places = _places(visit, kept, page)
        rows = await visit.fragment(
            "jobs/rows.html", page=page, is_filtered=any(kept.values()), **places
        )
        return {"job-rows": rows}

    return live_parts(visit, (HAPPENED,), parts)


async def _page(visit: Visit, kept: dict[str, str]) -> JobPage:
    before = visit.query("before")
    until = _day(kept["until"])
    return await list_lines(
        visit.db,
        visit.organization_id,
        JobFilter(
            status=next((each for each in STATUSES if each == kept["status"]), None),
            repo=kept["repo"] or None,
            agent=kept["agent"] or None,
            ticket=kept["ticket"] or None,
            since=_day(kept["since"]),
            # The day itself included.
            until=None if until is None else until + DAY_MS,
            text=kept["q"] or None,
        ),
        limit=_PER_PAGE,
        before=before if _JOB_ID.fullmatch(before) else None,
    )


def _kept(visit: Visit) -> dict[str, str]:
    return {name: visit.query(name)[:300] for name in _FIELDS}


def _places(visit: Visit, kept: dict[str, str], page: JobPage) -> dict[str, Any]:
    here = f"{prefix_of(visit.settings)}/jobs"
    given = {name: value for name, value in kept.items() if value}
    before = visit.query("before")
    return {
        "older": _address(here, {**given, "before": page.next_before or ""}),
        "newest": _address(here, given) if before else "",
        # Older pages do not change.
        "live": "" if before else _address(f"{here}/stream", given),
        "now": now_ms(),
    }


def _address(place: str, query: dict[str, str]) -> str:
    if "before" in query and not query["before"]:
        return ""
    return f"{place}?{urlencode(query)}" if query else place


def _day(text: str) -> int | None:
    """The beginning of a day in UTC, as a date field sends it."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(day.timestamp()) * 1_000


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/jobs", "viewer", show),
    Place("GET", "/jobs/stream", "viewer", stream),
]
