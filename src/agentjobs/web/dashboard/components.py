"""/design: every component of docs/design.md in all of its states. Only in development."""

import re

from starlette.responses import Response

from agentjobs.clock import DAY_MS, HOUR_MS, iso_utc, now_ms
from agentjobs.jobs.phases import PhaseView
from agentjobs.problems import Problem
from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.jobs.phase_bars import run_bars
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.plots import plots
from agentjobs.web.dashboard.plots.plots import Plot, PlotSeries
from agentjobs.web.dashboard.repo_choice import RepoChoice
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.static_files import static_files
from agentjobs.web.dashboard.text import markdown

_COLOR = re.compile(r"^\s*--([a-z0-9-]+): #", re.MULTILINE)
_STATES = {
    "Jobs": ("queued", "running", "completed", "failed", "cancelled"),
    "Pull requests": ("open", "draft", "merged", "closed"),
    "Deliveries": ("pending", "delivered", "failed"),
    "Repositories": ("indexing", "ready"),
    "Webhooks": ("enabled", "disabled"),
    "Others": ("good", "bad", "warn", "info"),
}
_SEVERITIES = (("critical", 9.8), ("high", 7.5), ("medium", 5.3), ("low", 3.1), ("unknown", None))
_PROBLEM = Problem(
    "invalid_request",
    "The form could not be saved. Correct the fields below.",
    details=[{"field": "url", "message": "must begin with https://"}],
)
_PROSE = """Text with `code`, **strong words** and a [link](https://example.com).

- a list
- of two

> A quotation.

```
a block of code
```
"""
_HOURS = tuple(f"{hour}:00" for hour in range(8, 16))
_FINISHED = Plot(
    "Finished jobs",
    _HOURS,
    (
        PlotSeries("completed", "s-good", (3, 5, 2, 8, 6, 4, 7, 5)),
        PlotSeries("failed", "s-bad", (1, 0, 0, 2, 1, 0, 0, 1)),
    ),
)
_DURATION = Plot(
    "Duration",
    _HOURS,
    (
        PlotSeries(
            "duration", "s-1", (40_000, 52_000, None, 48_000, 61_000, 45_000, 50_000, 42_000)
        ),
    ),
    unit="ms",
)
_NOTHING = Plot("Cost", _HOURS, (), empty="No model calls yet.")

_AT = iso_utc(0)
_PHASES = (
    PhaseView("queued", 1, _AT, _AT, 4_000),
    PhaseView("prepare", 1, _AT, _AT, 900),
    PhaseView("environment", 1, _AT, _AT, 12_000),
    PhaseView("agent", 1, _AT, _AT, 90_000),
    PhaseView("checks", 1, _AT, _AT, 20_000),
    PhaseView("push", 1, _AT, _AT, 400),
    PhaseView("pull_request", 1, _AT, _AT, 800, "unreachable"),
    PhaseView("queued", 2, _AT, _AT, 2_000),
    PhaseView("agent", 2, _AT, None, 60_000),
)
_FAILED_PHASES = (PhaseView("queued", 3, _AT, _AT, 9_000), PhaseView("agent", 3, _AT, _AT, 30_000))


_REPO = RepoView("repo_1", "acme/shop", "local", "ready", 1, "main", None, None, None, ())
_MANY_REPOS = RepoChoice(name="shop", repo=None, repos=[_REPO], is_list=False, has_repos=True)


async def show(request: PageRequest) -> Response:
    now = now_ms()
    return await request.render(
        "components.html",
        problem=None,
        shown_problem=_PROBLEM,
        colors=_colors(),
        states=_STATES,
        severities=_SEVERITIES,
        many_repos=_MANY_REPOS,
        now=now,
        moments=(now - 5_000, now - HOUR_MS, now - 3 * DAY_MS, now - 90 * DAY_MS, now + HOUR_MS),
        prose=markdown.render(_PROSE),
        runs=(*run_bars(_PHASES, "running"), *run_bars(_FAILED_PHASES, "failed")),
        drawings=(plots.stacked_bars(_FINISHED), plots.lines(_DURATION), plots.bars(_NOTHING)),
    )


def _colors() -> list[str]:
    """The names of all tokens that are colors."""
    styles = (
        file.content.decode() for name, file in static_files().items() if name.endswith("css")
    )
    return sorted({color for style in styles for color in _COLOR.findall(style)})


ROUTES: Routes = [PageRoute("GET", "/design", "viewer", show)]
