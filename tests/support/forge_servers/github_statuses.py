"""GitHub's operations on commit statuses and check runs."""

from typing import Any

from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.github_base import REPO, GitHubBase
from tests.support.forge_servers.state import RepositoryRow, StatusRow

_DAY = "2026-01-02T03:04:05Z"
_MAX_DESCRIPTION = 140


class GitHubStatuses(GitHubBase):
    @handles(f"POST {REPO}/statuses/{{sha}}")
    async def new_status(self, call: Call) -> Response:
        repository = self.writable(call)
        body, commit = call.body, call.values["sha"]
        if not self.git.has_commit(repository, commit):
            raise Refusal(422, f"No commit found for SHA: {commit}")
        if len(body.get("description", "")) > _MAX_DESCRIPTION:
            message = "description is too long (maximum is 140 characters)"
            raise Refusal(422, "Validation Failed", errors=[{"code": "custom", "message": message}])
        row = StatusRow(
            self.state.next_id(),
            commit,
            body.get("context", "default"),
            body["state"],
            body.get("description", ""),
            body.get("target_url", ""),
        )
        repository.statuses.append(row)
        return Response(self._status(repository, row), 201)

    @handles(f"GET {REPO}/commits/{{ref}}/check-runs")
    async def check_runs(self, call: Call) -> Response:
        """Without more parameters, the latest of each name."""
        repository = self.repository(call)
        app_id = call.query.get("app_id", str(self.app.id))
        runs = [
            row
            for row in repository.statuses
            if row.is_check_run
            and row.commit == call.values["ref"]
            and row.name == call.query.get("check_name", row.name)
            and app_id == str(self.app.id)
        ]
        latest = {row.name: row for row in runs}
        rows, _ = self.paged(call, list(latest.values()))
        runs_json = [self._run(repository, row) for row in rows]
        return Response({"total_count": len(latest), "check_runs": runs_json})

    @handles(f"POST {REPO}/check-runs")
    async def new_check_run(self, call: Call) -> Response:
        repository = self._writable_checks(call)
        body = call.body
        if not self.git.has_commit(repository, body["head_sha"]):
            raise Refusal(422, f"No commit found for SHA: {body['head_sha']}")
        row = StatusRow(
            self.state.next_id(), body["head_sha"], body["name"], "", "", "", is_check_run=True
        )
        repository.statuses.append(row)
        self._change(row, body)
        return Response(self._run(repository, row), 201)

    @handles(f"PATCH {REPO}/check-runs/{{check_run_id}}")
    async def change_check_run(self, call: Call) -> Response:
        repository = self._writable_checks(call)
        number = call.values["check_run_id"]
        row = next((row for row in repository.statuses if str(row.id) == number), None)
        if row is None or not row.is_check_run:
            raise Refusal(404, "Not Found")
        self._change(row, call.body)
        return Response(self._run(repository, row))

    def _writable_checks(self, call: Call) -> RepositoryRow:
        if self.app_token(call) is None:
            raise Refusal(403, "You must authenticate via a GitHub App.")
        return self.writable(call)

    def _change(self, row: StatusRow, body: dict[str, Any]) -> None:
        row.state = body.get("conclusion") or body.get("status") or row.state
        row.description = (body.get("output") or {}).get("title", row.description)
        row.url = body.get("details_url", row.url)

    def _status(self, repository: RepositoryRow, row: StatusRow) -> dict[str, Any]:
        url = f"{self.url}/api/v3/repos/{repository.full_name}/statuses/{row.commit}"
        creator = {"login": self.state.account, "id": 1}
        return {
            "id": row.id,
            "node_id": f"S_{row.id}",
            "url": url,
            "avatar_url": None,
            "state": row.state,
            "description": row.description,
            "target_url": row.url,
            "context": row.name,
            "created_at": _DAY,
            "updated_at": _DAY,
            "creator": creator,
        }

    def _run(self, repository: RepositoryRow, row: StatusRow) -> dict[str, Any]:
        is_running = row.state in ("queued", "in_progress")
        url = f"{self.url}/api/v3/repos/{repository.full_name}/check-runs/{row.id}"
        return {
            "id": row.id,
            "node_id": f"CR_{row.id}",
            "name": row.name,
            "head_sha": row.commit,
            "status": row.state if is_running else "completed",
            "conclusion": None if is_running else row.state,
            "details_url": row.url,
            "url": url,
            "html_url": url,
        }
