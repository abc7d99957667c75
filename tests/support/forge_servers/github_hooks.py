"""GitHub's operations on webhooks: those of repositories, and the one of an App."""

from typing import Any

from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.github_base import REPO, GitHubBase
from tests.support.forge_servers.state import HookRow, RepositoryRow

_DAY = "2026-01-02T03:04:05Z"
_MAX_HOOKS = 20


class GitHubHookOperations(GitHubBase):
    @handles("GET /app/hook/config")
    async def app_hook(self, _: Call) -> Response:
        if not self.app.hook_url:
            raise Refusal(404, "Not Found")
        hidden = {"secret": "********", "insecure_ssl": "0"}
        return Response({"url": self.app.hook_url, "content_type": "json", **hidden})

    @handles("GET /app/hook/deliveries")
    async def app_deliveries(self, call: Call) -> Response:
        statuses = self.app.deliveries[: call.page()[1]]
        return Response([_delivery(at, status) for at, status in enumerate(statuses)])

    @handles(f"GET {REPO}/hooks")
    async def hooks(self, call: Call) -> Response:
        repository = self._administered(call)
        page_rows, headers = self.paged(call, repository.hooks)
        return Response([self._hook(repository, row) for row in page_rows], headers=headers)

    @handles(f"POST {REPO}/hooks")
    async def new_hook(self, call: Call) -> Response:
        repository = self._administered(call)
        config = call.body["config"]
        if any(row.url == config["url"] for row in repository.hooks):
            raise _invalid("Hook already exists on this repository")
        if len(repository.hooks) >= _MAX_HOOKS:
            raise _invalid('The "push" event cannot have more than 20 hooks')
        row = HookRow(
            self.state.next_id(),
            config["url"],
            config.get("secret", ""),
            call.body.get("events", ["push"]),
            config.get("content_type", "form"),
            call.body.get("active", True),
        )
        repository.hooks.append(row)
        return Response(self._hook(repository, row), 201)

    @handles(f"DELETE {REPO}/hooks/{{hook_id}}")
    async def delete_hook(self, call: Call) -> Response:
        repository = self._administered(call)
        row = repository.hook(call.values["hook_id"])
        if row is None:
            raise Refusal(404, "Not Found")
        repository.hooks.remove(row)
        return Response(status=204)

    def _administered(self, call: Call) -> RepositoryRow:
        """GitHub hides what only administrators may see."""
        repository = self.repository(call)
        if self.app_token(call) is None and repository.own_role != "admin":
            raise Refusal(404, "Not Found")
        if not call.name.startswith("GET ") and repository.is_archived:
            raise Refusal(403, "Repository was archived so is read-only.")
        return repository

    def _hook(self, repository: RepositoryRow, row: HookRow) -> dict[str, Any]:
        url = f"{self.url}/api/v3/repos/{repository.full_name}/hooks/{row.id}"
        config = {"url": row.url, "content_type": row.content_type, "insecure_ssl": "0"}
        message = {None: None, 200: "OK", 202: "Accepted"}.get(row.last_response, "Bad Gateway")
        status = "unused" if row.last_response is None else "active"
        return {
            "type": "Repository",
            "id": row.id,
            "name": "web",
            "active": row.is_active,
            "events": row.events,
            "config": {**config, "secret": "********"},
            "updated_at": _DAY,
            "created_at": _DAY,
            "url": url,
            "test_url": f"{url}/test",
            "ping_url": f"{url}/pings",
            "last_response": {"code": row.last_response, "status": status, "message": message},
        }


def _delivery(at: int, status: int) -> dict[str, Any]:
    return {
        "id": 1_000 - at,
        "guid": f"0b989ba4-{at}",
        "delivered_at": _DAY,
        "redelivery": False,
        "duration": 0.27,
        "status": "OK" if status < 300 else "Invalid HTTP Response",
        "status_code": status,
        "event": "push",
        "action": None,
        "installation_id": 815,
        "repository_id": 1,
    }


def _invalid(message: str) -> Refusal:
    fault = {"resource": "Hook", "code": "custom", "message": message}
    return Refusal(422, "Validation Failed", errors=[fault])
