"""/repos/{full_name}: one repository: index, configuration, what agents may not touch."""

from typing import Any

from starlette.responses import Response

from agentjobs.advisories.findings import count_by_severity
from agentjobs.inventory.dependencies import count_dependencies
from agentjobs.inventory.graph import load_summary
from agentjobs.jobs.disconnect import disconnect_repository
from agentjobs.jobs.views.listing import JobFilter, list_lines
from agentjobs.local_git.repositories import path as git_path
from agentjobs.local_git.repositories import repositories_root
from agentjobs.platform_sync.state import SyncedRepo, sync_state
from agentjobs.problems import Problem
from agentjobs.pulls.pulls import list_pulls
from agentjobs.repos.configuration_status import ConfigurationStatus, configuration_status
from agentjobs.repos.protected_paths import lift, protect
from agentjobs.repos.queries import RepoView
from agentjobs.repos.thresholds import set_repo_threshold, thresholds_of
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.page_route import OpenPlace, Place, VisitHandler
from agentjobs.web.dashboard.repos.language_bar import language_bar
from agentjobs.web.dashboard.repos.lookup import PLACE, NoSuchRepository, repo_of
from agentjobs.web.dashboard.repos.threshold_text import repo_options
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.web.dashboard.vulnerabilities.feed_state import is_looked_for
from agentjobs.workspace.rules import PROTECTED_FILES, PROTECTED_PATTERNS

_SHOWN = 5


async def show(visit: Visit) -> Response:
    return await _page(visit, await repo_of(visit))


def page_of_repo(end: str, handler: VisitHandler) -> Place:
    """A page beside this one. Where groups lie in groups, a repository may be called like it."""

    async def answer(visit: Visit) -> Response:
        try:
            return await handler(visit)
        except NoSuchRepository:
            visit.request.path_params["full_name"] += f"/{end}"
            return await show(visit)

    return Place("GET", f"{PLACE}/{end}", "viewer", answer)


async def stream(visit: Visit) -> Response:
    # Before the stream begins: a browser comes back to one that breaks off, for ever.
    await repo_of(visit)

    async def parts() -> Parts:
        repo = await repo_of(visit)
        shown = {**await _indexed(visit, repo), "sync": await _sync(visit, repo)}
        names = ("index", "packages", *([] if shown["sync"] is None else ["sync"]))
        return {
            f"repo-{name}": await visit.fragment(f"repos/{name}.html", **shown) for name in names
        }

    return live_parts(visit, ("index", "repos", "findings", "forges"), parts)


async def disconnect(visit: Visit) -> Response:
    repo = await repo_of(visit)
    await disconnect_repository(visit.db, visit.organization, repo.full_name)
    said = f"{repo.full_name} is disconnected. Its jobs stay in the list."
    return visit.redirect("/repos", said=said)


async def lift_path(visit: Visit) -> Response:
    return await _change_protection(visit, lift, "Agents may change it now.")


async def protect_path(visit: Visit) -> Response:
    return await _change_protection(visit, protect, "It is protected again.")


async def set_threshold(visit: Visit) -> Response:
    repo = await repo_of(visit)
    try:
        level = visit.form.text("level")
        await set_repo_threshold(visit.db, visit.organization, repo.full_name, level)
    except Problem as problem:
        return await _page(visit, repo, problem, opened="threshold")
    return visit.redirect(
        f"/repos/{repo.full_name}", said="It is saved. What is known already is looked at again."
    )


async def _change_protection(visit: Visit, change: Any, said: str) -> Response:
    repo = await repo_of(visit)
    try:
        await change(visit.db, visit.organization, repo.full_name, visit.form.text("pattern"))
    except Problem as problem:
        return await _page(visit, repo, problem, opened="protection")
    return visit.redirect(f"/repos/{repo.full_name}", said=said)


async def _indexed(visit: Visit, repo: RepoView) -> dict[str, Any]:
    """What the index found: it changes while one looks."""
    summary = await load_summary(visit.db, repo.id)
    return {
        "repo": repo,
        "languages": language_bar(summary.languages),
        "warnings": summary.warnings,
        "dependencies": await count_dependencies(visit.db, repo.id),
        "is_looked_for": await is_looked_for(visit),
        "severities": await count_by_severity(visit.db, visit.organization_id, repo_id=repo.id),
    }


async def _sync(visit: Visit, repo: RepoView) -> SyncedRepo | None:
    return None if repo.platform == "local" else await sync_state(visit.db, repo.id)


async def _configuration(
    visit: Visit, repo: RepoView, sync: SyncedRepo | None
) -> ConfigurationStatus | None:
    """None: it is read elsewhere, or nothing was fetched yet."""
    data_path = visit.settings.data_path
    if not repositories_root(data_path).is_dir():
        return None
    if sync is not None and not (git_path(data_path, repo.id) / "HEAD").is_file():
        return None
    return await configuration_status(data_path, repo)


async def _page(
    visit: Visit, repo: RepoView, problem: Problem | None = None, *, opened: str = ""
) -> Response:
    """`opened` is the form that was refused, which stays open."""
    wanted = JobFilter(repo=repo.full_name)
    jobs = await list_lines(visit.db, visit.organization_id, wanted, limit=_SHOWN)
    thresholds = await thresholds_of(visit.db, repo.id)
    sync = await _sync(visit, repo)
    return await visit.page(
        "repos/detail.html",
        problem=problem,
        opened=opened,
        **await _indexed(visit, repo),
        thresholds=thresholds,
        threshold_options=repo_options(thresholds),
        jobs=jobs.lines,
        pulls=await list_pulls(visit.db, visit.organization, repo.full_name, limit=_SHOWN),
        sync=sync,
        configuration=await _configuration(visit, repo, sync),
        git_url=f"{visit.settings.effective_public_url}/git/{visit.organization}/{repo.full_name}.git",
        protected=[*PROTECTED_PATTERNS, *sorted(PROTECTED_FILES)],
        pattern=visit.form.text("pattern"),
    )


PLACES: list[Place | OpenPlace] = [
    page_of_repo("stream", stream),
    Place("POST", f"{PLACE}/disconnect", "admin", disconnect),
    Place("POST", f"{PLACE}/auto-trigger", "admin", set_threshold),
    Place("POST", f"{PLACE}/lift", "admin", lift_path),
    Place("POST", f"{PLACE}/protect", "admin", protect_path),
    # Last of all pages of a repository: it takes any address that is none of the others.
    Place("GET", PLACE, "viewer", show),
]
