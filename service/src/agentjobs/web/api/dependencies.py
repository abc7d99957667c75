"""`GET /repos/{repo_id}/dependencies`: packages and their known advisories."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import (
    DependencyDocument,
    dependency_document,
    find_advisories,
)
from agentjobs.inventory.dependencies import find_indexed_repo, list_dependencies
from agentjobs.web.api import repos
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import Cursor, Cursors, FilterText, NextCursor
from agentjobs.web.api.query import read_query
from agentjobs_dependencies.model import Imported
from agentjobs_runtime.identifiers import id_matcher
from agentjobs_runtime.json_fields import doc
from agentjobs_runtime.settings.registries import Ecosystem

_CURSORS = Cursors("dependencies", re.compile("0|[1-9][0-9]{0,17}").fullmatch)
_is_repo_id = id_matcher("repo")


class DependencyQuery(msgspec.Struct, frozen=True):
    ecosystem: Annotated[Ecosystem | None, doc("Only packages of this ecosystem.")] = None
    direct: Annotated[
        bool | None, doc("With `true` only direct dependencies, with `false` only transitive ones.")
    ] = None
    vulnerable: Annotated[bool, doc("With `true` only packages with advisories.")] = False
    fixture: Annotated[
        bool | None,
        doc("With `true` only packages of tests and examples, with `false` only the others."),
    ] = None
    imported: Annotated[
        Imported | None,
        doc("Only packages that the repository imports, does not import, or may import."),
    ] = None
    search: Annotated[
        FilterText | None, doc("Only packages whose name contains this text; case-insensitive.")
    ] = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=1_000)] = 100
    cursor: Cursor = None


class DependencyList(msgspec.Struct, frozen=True):
    dependencies: Annotated[list[DependencyDocument], doc("A page of packages.")]
    next_cursor: NextCursor
    indexed_commit: Annotated[str | None, doc("The commit that was indexed.")]


async def list_all(call: Call) -> Response:
    repo_id = call.path["repo_id"]
    if not _is_repo_id(repo_id):
        # A repository may be called `dependencies`.
        return await repos.show_repo(call, f"{repo_id}/dependencies")
    query = read_query(call.scope, DependencyQuery, _CURSORS.faults)
    after = _CURSORS.decode(query.cursor)
    db = call.context.db
    repo = await find_indexed_repo(db, call.caller.organization_id, repo_id)
    rows = await list_dependencies(
        db,
        repo_id,
        search=query.search or "",
        ecosystem=query.ecosystem,
        direct=query.direct,
        vulnerable=query.vulnerable,
        fixture=query.fixture,
        imported=query.imported,
        # One more than requested shows whether there is a next page.
        limit=query.limit + 1,
        after=None if after is None else int(after),
    )
    rows, next_cursor = _CURSORS.cut(rows, query.limit, lambda row: str(row.position))
    advisories = await find_advisories(db, repo_id, rows)
    documents = [dependency_document(row, advisories.get(row.position, ())) for row in rows]
    return Reply(200, DependencyList(documents, next_cursor, repo.indexed_commit))
