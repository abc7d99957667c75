"""A job's steps, the view beside its log: totals that filter, and pages of steps, live."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from agentjobs.jobs.lookup import ensure_job
from agentjobs.jobs.states import FINAL
from agentjobs.jobs.steps.rows import StepTotal, count_steps, read_steps
from agentjobs.web.dashboard.jobs.lookup import require_job_id
from agentjobs.web.dashboard.jobs.step_lines import (
    StepLine,
    change_blocks,
    fold,
    is_short,
    message_text,
)
from agentjobs.web.dashboard.list_query import ListQuery, PageNumber
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.markdown import render_present
from agentjobs_runtime.agents.steps import StepKind
from agentjobs_runtime.clock import now_ms

# Each step has up to 4,000 characters of details.
PAGE_SIZE = 100
# A list in several parts: an update replaces only those that changed.
_PART_SIZE = 20


class _Query(ListQuery, frozen=True, kw_only=True):
    """Without a number, the last page."""

    view: str = ""
    kind: StepKind | None = None
    page: PageNumber | None = None


class StepPage(msgspec.Struct, frozen=True):
    """A page of the steps of one kind, or of all; `number` starts with 1."""

    number: int
    size: int
    totals: Mapping[StepKind, StepTotal]
    kind: StepKind | None
    lines: list[StepLine]

    @property
    def count(self) -> int:
        """The number of steps on all pages."""
        return _count(self.totals, self.kind)

    @property
    def began_at(self) -> int:
        return min((total.first_at for total in self.totals.values()), default=0)

    @property
    def cost_nanousd(self) -> int:
        return sum(total.cost_nanousd for total in self.totals.values())

    def total(self, kind: StepKind) -> StepTotal:
        return self.totals.get(kind, StepTotal())

    @property
    def first(self) -> int:
        return (self.number - 1) * PAGE_SIZE + 1

    @property
    def last(self) -> int:
        return self.first + self.size - 1

    def address(self, path: str, page: int, view: str = "") -> str:
        return _Query(view=view, kind=self.kind, page=page).address(path)


async def load_page(request: PageRequest, job_id: str) -> StepPage:
    totals = await count_steps(request.db, job_id)
    query = _Query.read(request.query_param)
    kind = query.kind
    last_page = max(1, -(-_count(totals, kind) // PAGE_SIZE))
    number = min(query.page or last_page, last_page)
    skip = (number - 1) * PAGE_SIZE
    steps = await read_steps(request.db, job_id, kind=kind, skip=skip, limit=PAGE_SIZE)
    lines = [StepLine((step,)) for step in steps] if kind else list(fold(steps))
    return StepPage(number, len(steps), totals, kind, lines)


async def step_parts(request: PageRequest, job_id: str, page: StepPage, status: str) -> Parts:
    steps = (step for line in page.lines for step in line.steps)
    messages = [message_text(step) for step in steps if step.kind == "message"]
    rendered = dict(zip(messages, await render_present(messages), strict=True))
    values = {"job_id": job_id, "page": page, "status": status, "is_final": status in FINAL}
    parts = {"job-steps-totals": await request.fragment("jobs/steps_totals.html", **values)}
    for number in range(PAGE_SIZE // _PART_SIZE):
        parts[f"job-steps-{number}"] = await request.fragment(
            "jobs/step_lines.html",
            lines=page.lines[number * _PART_SIZE : (number + 1) * _PART_SIZE],
            began_at=page.began_at,
            now=now_ms(),
            change_blocks=change_blocks,
            is_short=is_short,
            html_of=lambda step: rendered[message_text(step)],
        )
    return {**parts, "job-steps-paging": await request.fragment("jobs/steps_paging.html", **values)}


async def stream(request: PageRequest) -> Response:
    job_id = await require_job_id(request)

    async def parts() -> Parts:
        # The status first: the steps of a finished job are complete once its status is visible.
        status = await ensure_job(request.db, request.organization_id, job_id)
        request.is_settled = status in FINAL
        return await step_parts(request, job_id, await load_page(request, job_id), status)

    return live_parts(request, (f"steps:{job_id}", f"job:{job_id}"), parts)


def _count(totals: Mapping[StepKind, StepTotal], kind: StepKind | None) -> int:
    return sum(total.steps for name, total in totals.items() if kind in (None, name))


ROUTES: Routes = [PageRoute("GET", "/jobs/{job_id}/steps/stream", "viewer", stream)]
