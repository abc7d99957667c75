"""GitLab's operations on webhooks of projects."""

from typing import Any

from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.gitlab_base import GitLabBase
from tests.support.forge_servers.state import HookRow, RepositoryRow

_HOOKS = "/projects/{id}/hooks"
_TRIGGERS = ("push_events", "merge_requests_events", "note_events", "tag_push_events")


class GitLabHookOperations(GitLabBase):
    """`blocks_local_requests`: an administrator did not allow webhooks to the local network."""

    blocks_local_requests = False

    @handles(f"GET {_HOOKS}")
    async def hooks(self, call: Call) -> Response:
        repository = self._maintained(call)
        page_rows, headers = self.paged(call, repository.hooks, 20)
        return Response([_hook(repository, row) for row in page_rows], headers=headers)

    @handles(f"POST {_HOOKS}")
    async def new_hook(self, call: Call) -> Response:
        repository = self._maintained(call)
        if self.blocks_local_requests:
            raise Refusal(422, "Invalid url given", error="Invalid url given")
        # Pushes are delivered unless the request says otherwise.
        chosen = {"push_events": True, **call.body}
        row = HookRow(
            self.state.next_id(),
            call.body["url"],
            call.body.get("token", ""),
            [name for name in _TRIGGERS if chosen.get(name)],
        )
        repository.hooks.append(row)
        return Response(_hook(repository, row), 201)

    @handles(f"DELETE {_HOOKS}/{{hook_id}}")
    async def delete_hook(self, call: Call) -> Response:
        repository = self._maintained(call)
        row = repository.hook(call.values["hook_id"])
        if row is None:
            raise Refusal(404, "404 Not found")
        repository.hooks.remove(row)
        return Response(status=204)

    def _maintained(self, call: Call) -> RepositoryRow:
        repository = self.project(call)
        if repository.own_role not in ("maintain", "admin"):
            raise Refusal(403, "403 Forbidden")
        return repository


def _hook(repository: RepositoryRow, row: HookRow) -> dict[str, Any]:
    """Never with the token."""
    status = "temporarily_disabled" if row.paused_until else "executable"
    return {
        "id": row.id,
        "url": row.url,
        "name": None,
        "description": None,
        "created_at": "2026-01-02T03:04:05.000Z",
        "project_id": repository.id,
        **{name: name in row.events for name in _TRIGGERS},
        "push_events_branch_filter": None,
        "enable_ssl_verification": True,
        "alert_status": "disabled" if row.is_disabled else status,
        "disabled_until": row.paused_until,
    }
