"""Gitea's operations on webhooks of repositories."""

from typing import Any

from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.gitea_base import REPO, GiteaBase
from tests.support.forge_servers.state import HookRow, RepositoryRow

_DAY = "2026-01-02T03:04:05Z"
# What a hook with `pull_request` delivers.
_PULL_EVENTS = (
    "pull_request",
    "pull_request_assign",
    "pull_request_label",
    "pull_request_milestone",
    "pull_request_comment",
    "pull_request_review_approved",
    "pull_request_review_rejected",
    "pull_request_review_comment",
    "pull_request_sync",
    "pull_request_review_request",
)
_OTHER_EVENTS = ("create", "delete", "fork", "push", "issue_comment", "repository", "release")


class GiteaHookOperations(GiteaBase):
    """`has_webhooks`: the operator did not set DISABLE_WEBHOOKS."""

    has_webhooks = True

    @handles(f"GET {REPO}/hooks")
    async def hooks(self, call: Call) -> Response:
        repository = self._administered(call)
        page_rows, headers = self.paginate(call, repository.hooks)
        return Response([_hook(row) for row in page_rows], headers=headers)

    @handles(f"POST {REPO}/hooks")
    async def new_hook(self, call: Call) -> Response:
        repository = self._administered(call)
        config = call.body["config"]
        for name in ("url", "content_type"):
            if name not in config:
                raise Refusal(422, f"Missing config option: {name}")
        if config["content_type"] not in ("json", "form"):
            raise Refusal(422, "Invalid content type")
        row = HookRow(
            self.state.next_id(),
            config["url"],
            config.get("secret", ""),
            _delivered(call.body.get("events") or ["push"]),
            config["content_type"],
            # Unlike on other platforms, a hook is inactive unless the request says otherwise.
            call.body.get("active", False),
        )
        repository.hooks.append(row)
        return Response(_hook(row), 201)

    @handles(f"DELETE {REPO}/hooks/{{id}}")
    async def delete_hook(self, call: Call) -> Response:
        repository = self._administered(call)
        row = repository.hook(call.values["id"])
        if row is None:
            raise Refusal(404, "not found")
        repository.hooks.remove(row)
        return Response(status=204)

    def _administered(self, call: Call) -> RepositoryRow:
        repository = self.repository(call)
        if repository.own_role != "admin":
            message = "user should be an owner or a collaborator with admin write of a repository"
            raise Refusal(403, message)
        if not self.has_webhooks:
            raise Refusal(403, "webhooks disabled by administrator")
        return repository


def _delivered(events: list[str]) -> list[str]:
    """Unknown events are ignored."""
    of_pulls = _PULL_EVENTS if "pull_request" in events else ()
    return [*(name for name in _OTHER_EVENTS if name in events), *of_pulls]


def _hook(row: HookRow) -> dict[str, Any]:
    """Never with the secret."""
    return {
        "id": row.id,
        "type": "gitea",
        "config": {"content_type": row.content_type, "url": row.url},
        "events": row.events,
        "active": row.is_active,
        "branch_filter": "",
        "authorization_header": "",
        "updated_at": _DAY,
        "created_at": _DAY,
    }
