"""/repos/{full_name}/dependencies: the dependencies and their known vulnerabilities."""

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import DependencyAdvisory, find_advisories
from agentjobs.inventory.dependencies import DependencyView, count_dependencies, list_dependencies
from agentjobs.web.dashboard.list_query import ListQuery
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.lookup import require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import has_advisories
from agentjobs.web.dashboard.vulnerabilities.package_filters import (
    FILES,
    FILES_OPTIONS,
    IMPORTED_OPTIONS,
    Files,
)
from agentjobs_dependencies.model import Imported

_PER_PAGE = 100
_KINDS = {"direct": True, "transitive": False}


class _Query(ListQuery, frozen=True, kw_only=True):
    q: str = ""
    ecosystem: str = ""
    kind: Literal["", "direct", "transitive"] = ""
    manifest: str = ""
    vulnerable: str = ""
    files: Files = ""
    imported: Literal[Imported, ""] = ""
    after: Annotated[str, Meta(pattern="^[0-9]{1,15}$")] = ""


class _Line(msgspec.Struct, frozen=True):
    """`fix_version` fixes all advisories; if it is None, `fix_reason` says why. `graph` is the
    address of the modules with the package's name in the graph."""

    dependency: DependencyView
    advisories: list[DependencyAdvisory]
    fix_version: str | None
    fix_reason: str
    graph: str


async def show(request: PageRequest) -> Response:
    repo = await require_repo(request)
    query = _Query.read(request.query_param)
    repo_url = f"{request.settings.public_path}/repos/{repo.full_name}"
    rows = await list_dependencies(request.db, repo.id, limit=_PER_PAGE + 1, **_filter(query))
    page_rows = rows[:_PER_PAGE]
    known = await find_advisories(request.db, repo.id, page_rows)
    counts = await count_dependencies(request.db, repo.id)
    has_more = len(rows) > _PER_PAGE
    page_url = f"{repo_url}/dependencies"
    return await request.render(
        "repos/dependencies.html",
        repo=repo,
        query=query,
        counts=counts,
        is_scanned=await has_advisories(request),
        lines=[
            _line(dependency, known.get(dependency.position, []), repo_url)
            for dependency in page_rows
        ],
        ecosystem_options=[("", "any"), *_options(counts.by_ecosystem, query.ecosystem)],
        files_options=FILES_OPTIONS,
        imported_options=IMPORTED_OPTIONS,
        fixtures=query.address(page_url, files="fixtures", after=""),
        kind_options=[("", "any"), ("direct", "direct"), ("transitive", "transitive")],
        next=query.address(page_url, after=str(page_rows[-1].position)) if has_more else "",
        first=query.address(page_url, after="") if query.after else "",
        all_manifests=query.address(page_url, manifest="", after=""),
    )


def _filter(query: _Query) -> dict[str, Any]:
    return {
        "search": query.q,
        "ecosystem": query.ecosystem or None,
        "direct": _KINDS.get(query.kind),
        "manifest": query.manifest or None,
        "vulnerable": bool(query.vulnerable),
        "imported": query.imported or None,
        # A link to one manifest shows it, whatever it belongs to.
        "fixture": None if query.manifest else FILES[query.files],
        "after": int(query.after) if query.after else None,
    }


def _options(known: dict[str, int], selected: str) -> list[tuple[str, str]]:
    """Includes the selected value even if no dependency has it."""
    names = [*known, *([selected] if selected and selected not in known else [])]
    return [(name, name) for name in names]


def _line(dependency: DependencyView, advisories: list[DependencyAdvisory], repo_url: str) -> _Line:
    """All findings of dependency package version share the same fix."""
    first = advisories[0] if advisories else None
    return _Line(
        dependency,
        advisories,
        first.fix_version if first else None,
        first.fix_reason if first else "",
        f"{repo_url}/graph?{urlencode({'q': dependency.name})}",
    )


ROUTES: Routes = [repo_page_route("dependencies", show)]
