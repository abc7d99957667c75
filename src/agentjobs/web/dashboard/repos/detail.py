"""/repos/{owner}/{name}: one repository: index, configuration, what agents may not touch."""

from typing import Any

from starlette.responses import Response

from agentjobs.forges.local_repositories import repositories_root
from agentjobs.forges.pulls import list_pulls
from agentjobs.jobs.disconnect import disconnect_repository
from agentjobs.jobs.listing import JobFilter, list_lines
from agentjobs.problems import Problem
from agentjobs.repos.lifting import lift, protect
from agentjobs.repos.page_facts import configuration_status
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.web.dashboard.elsewhere import look_elsewhere_for_repo
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.places import OpenPlace, Place
from agentjobs.web.dashboard.visits import Visit
from agentjobs.workspace.rules import PROTECTED_FILES, PROTECTED_PATTERNS

_PLACE = "/repos/{owner}/{name}"
_SHOWN = 5


async def show(visit: Visit) -> Response:
    return await _page(visit, await _repo(visit))


async def stream(visit: Visit) -> Response:
    # Before the stream begins: a browser comes back to one that breaks off, for ever.
    await _repo(visit)

    async def parts() -> Parts:
        repo = await _repo(visit)
        return {"repo-index": await visit.fragment("repos/index.html", repo=repo)}

    return live_parts(visit, ("index", "repos"), parts)


async def disconnect(visit: Visit) -> Response:
    repo = await _repo(visit)
    await disconnect_repository(visit.db, visit.organization, repo.full_name)
    said = f"{repo.full_name} is disconnected. Its jobs stay in the list."
    return visit.redirect("/repos", said=said)


async def lift_path(visit: Visit) -> Response:
    return await _change_protection(visit, lift, "Agents may change it now.")


async def protect_path(visit: Visit) -> Response:
    return await _change_protection(visit, protect, "It is protected again.")


async def _change_protection(visit: Visit, change: Any, said: str) -> Response:
    repo = await _repo(visit)
    try:
        await change(visit.db, visit.organization, repo.full_name, visit.form.text("pattern"))
    except Problem as problem:
        return await _page(visit, repo, problem)
    return visit.redirect(f"/repos/{repo.full_name}", said=said)


async def _repo(visit: Visit) -> RepoView:
    full_name = f"{visit.path('owner')}/{visit.path('name')}"
    try:
        return await find_repo(visit.db, visit.organization_id, full_name)
    except Problem:
        await look_elsewhere_for_repo(visit, full_name)
        raise Problem(
            "not_found", "No repository of this name is connected to your organization."
        ) from None


async def _page(visit: Visit, repo: RepoView, problem: Problem | None = None) -> Response:
    wanted = JobFilter(repo=repo.full_name)
    jobs = await list_lines(visit.db, visit.organization_id, wanted, limit=_SHOWN)
    is_local = repo.platform == "local" and repositories_root(visit.settings.data_path).is_dir()
    return await visit.page(
        "repos/detail.html",
        problem=problem,
        repo=repo,
        jobs=jobs.lines,
        pulls=await list_pulls(visit.db, visit.organization, repo.full_name, limit=_SHOWN),
        configuration=(
            await configuration_status(visit.settings.data_path, repo) if is_local else None
        ),
        git_url=f"{visit.settings.effective_public_url}/git/{visit.organization}/{repo.full_name}.git",
        protected=[*PROTECTED_PATTERNS, *sorted(PROTECTED_FILES)],
        pattern=visit.form.text("pattern"),
    )


PLACES: list[Place | OpenPlace] = [
    Place("GET", _PLACE, "viewer", show),
    Place("GET", f"{_PLACE}/stream", "viewer", stream),
    Place("POST", f"{_PLACE}/disconnect", "admin", disconnect),
    Place("POST", f"{_PLACE}/lift", "admin", lift_path),
    Place("POST", f"{_PLACE}/protect", "admin", protect_path),
]
