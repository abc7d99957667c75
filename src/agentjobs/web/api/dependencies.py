"""`GET /repos/{repo_id}/dependencies`: packages, and what is known against them."""

import re

import msgspec
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import (
    DependencyDocument,
    advisories_of,
    dependency_document,
)
from agentjobs.inventory.dependencies import indexed_repo, list_dependencies, repo_not_found
from agentjobs.settings.registries import ECOSYSTEMS
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import cut, read_page
from agentjobs.web.api.query import Query

REPO_ID_PATTERN = "^repo_[0-9a-hjkmnp-tv-z]{26}$"
DEFAULT_LIMIT = 100
MOST_LIMIT = 1_000
MOST_SEARCH_LENGTH = 255

_CURSOR = "dependencies"
_is_repo_id = re.compile(REPO_ID_PATTERN[1:-1]).fullmatch
_is_position = re.compile("0|[1-9][0-9]{0,17}").fullmatch


class DependencyList(msgspec.Struct, frozen=True):
    dependencies: list[DependencyDocument]
    next_cursor: str | None
    indexed_commit: str | None


async def list_all(call: Call) -> Response:
    repo_id = call.path["repo_id"]
    if not _is_repo_id(repo_id):
        raise repo_not_found(repo_id)
    query = Query(call.scope)
    ecosystem = query.choice("ecosystem", ECOSYSTEMS)
    direct = _flag(query, "direct")
    vulnerable = _flag(query, "vulnerable")
    search = query.text("search", most=MOST_SEARCH_LENGTH)
    page = read_page(query, _CURSOR, _is_position, most=MOST_LIMIT)
    query.check()
    db = call.context.db
    repo = await indexed_repo(db, call.caller.organization_id, repo_id)
    limit = page.limit or DEFAULT_LIMIT
    rows = await list_dependencies(
        db,
        repo_id,
        search=search or "",
        ecosystem=ecosystem,
        direct=direct,
        vulnerable=bool(vulnerable),
        # One more than asked for tells whether there is a next page.
        limit=limit + 1,
        after=None if page.after is None else int(page.after),
    )
    rows, next_cursor = cut(rows, limit, _CURSOR, lambda row: str(row.position))
    advisories = await advisories_of(db, repo_id, rows)
    documents = [dependency_document(row, advisories.get(row.position, ())) for row in rows]
    return Reply(200, DependencyList(documents, next_cursor, repo.indexed_commit))


def _flag(query: Query, name: str) -> bool | None:
    text = query.choice(name, ("true", "false"))
    return None if text is None else text == "true"
