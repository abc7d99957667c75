"""`GET /repos`: the repositories of the caller's organization and how far their index is."""

import re

import msgspec
from starlette.responses import Response

from agentjobs.repos.queries import RepoView, list_repos
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import cut, read_page
from agentjobs.web.api.query import Query

MOST_LIMIT = 1_000

_CURSOR = "repos"
_is_repo_id = re.compile(r"repo_[0-9a-hjkmnp-tv-z]{26}").fullmatch


class RepoList(msgspec.Struct, frozen=True):
    repos: list[RepoView]
    next_cursor: str | None


async def list_all(call: Call) -> Response:
    query = Query(call.scope)
    page = read_page(query, _CURSOR, _is_repo_id, most=MOST_LIMIT)
    query.check()
    repos = await list_repos(
        call.context.db,
        call.caller.organization_id,
        # One more than asked for tells whether there is a next page.
        limit=None if page.limit is None else page.limit + 1,
        after=page.after,
    )
    return Reply(200, RepoList(*cut(repos, page.limit, _CURSOR, lambda repo: repo.id)))
