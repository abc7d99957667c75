"""The pull requests of the organization or of one repository."""

from typing import Annotated, Literal, get_args

from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.views.pull_lines import (
    PullFilter,
    list_pull_lines,
    recent_authors,
)
from agentjobs.organizations.authentication import SERVICE_ID
from agentjobs.pulls.pulls import PullCursor
from agentjobs.web.dashboard.list_query import ListQuery
from agentjobs.web.dashboard.live import live, live_page
from agentjobs.web.dashboard.page_route import REPO, PageRoute, Routes
from agentjobs.web.dashboard.repo_choice import load_repo_choice
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

_PER_PAGE = 50
State = Literal["open", "merged", "closed"]
_STATES: tuple[State, ...] = get_args(State)


class _Query(ListQuery, frozen=True, kw_only=True):
    q: str = ""
    repo: str = ""
    author: str = ""
    agent: str = ""
    state: State | None = None
    # Creation time, number and repository.
    before: Annotated[str, Meta(pattern=r"^[0-9]{1,15}:[0-9]{1,15}:[^\s]{1,500}$")] = ""

    @property
    def is_narrowed(self) -> bool:
        """The state is a tab."""
        return bool(self.q or self.repo or self.author or self.agent)

    @property
    def position(self) -> PullCursor | None:
        if not self.before:
            return None
        created_at, number, repo = self.before.split(":", 2)
        return int(created_at), repo, int(number)


async def show(request: PageRequest) -> Response:
    repo, query = _repo(request), _Query.read(request.query_param)
    page_url = request.settings.public_path
    page_url += "/pulls" if repo is None else f"/{request.organization}/{repo}/pulls"
    repo_choice = await load_repo_choice(request, repo or query.repo)
    if repo is not None and repo_choice.repo is None:
        raise Problem(
            "repo_not_found", "No repository with this name is connected to your organization."
        )
    page = await list_pull_lines(
        request.db,
        request.organization_id,
        request.organization,
        PullFilter(
            repo=repo or query.repo or None,
            state=query.state,
            text=query.q,
            author=query.author or None,
            agent=query.agent or None,
        ),
        limit=_PER_PAGE,
        before=query.position,
    )
    older = ""
    if page.next_before:
        created_at, name, number = page.next_before
        older = query.address(page_url, before=f"{created_at}:{number}:{name}")
    authors = await recent_authors(request.db, request.organization_id)
    agents = sorted(agent.id for agent in request.context.catalog.all())
    return await request.render(
        "pulls/list.html",
        repo=repo,
        page=page,
        query=query,
        page_url=page_url,
        older=older,
        newest=query.address(page_url, before="") if query.before else "",
        states=[(state, query.address(page_url, state=state, before="")) for state in _STATES],
        all_states=query.address(page_url, state=None, before=""),
        repo_choice=repo_choice,
        author_options=[
            ("", "anyone"),
            *(
                (author.id, "CVE fixes" if author.id == SERVICE_ID else author.name)
                for author in authors
            ),
        ],
        agent_options=[("", "any"), *((agent, agent) for agent in agents)],
    )


def _repo(request: PageRequest) -> str | None:
    """The repository whose pull requests are shown; None for all."""
    return request.http.path_params.get("full_name")


ROUTES: Routes = [
    *live_page("/pulls", "viewer", show, "pulls/rows"),
    PageRoute("GET", f"/{{org}}/{REPO}/pulls", "viewer", show, takes_keys=True),
    PageRoute("GET", f"/{{org}}/{REPO}/pulls/stream", "viewer", live(show, "pulls/rows")),
]
