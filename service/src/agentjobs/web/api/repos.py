"""`GET /repos` and `GET /repos/{repo_id}`: the repositories of the caller's organization."""

from typing import Annotated

import msgspec
from starlette.responses import Response

from agentjobs.repos.queries import RepoView, get_repo, list_repos
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import Cursors, NextCursor, PageQuery
from agentjobs.web.api.query import read_query
from agentjobs_runtime.identifiers import id_matcher
from agentjobs_runtime.json_fields import doc

_CURSORS = Cursors("repos", id_matcher("repo"))


class RepoList(msgspec.Struct, frozen=True):
    repos: Annotated[list[RepoView], doc("The connected repositories.")]
    next_cursor: NextCursor


async def list_all(call: Call) -> Response:
    query = read_query(call.scope, PageQuery, _CURSORS.faults)
    repos = await list_repos(
        call.context.db,
        call.caller.organization_id,
        # One more than requested shows whether there is a next page.
        limit=None if query.limit is None else query.limit + 1,
        after=_CURSORS.decode(query.cursor),
    )
    return Reply(200, RepoList(*_CURSORS.cut(repos, query.limit, lambda repo: repo.id)))


async def show(call: Call) -> Response:
    return await show_repo(call, call.path["repo_id"])


async def show_repo(call: Call, repo: str) -> Response:
    """`repo` is the identifier or the full name."""
    return Reply(200, await get_repo(call.context.db, call.caller.organization_id, repo))
