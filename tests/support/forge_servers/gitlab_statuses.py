"""GitLab's operation on commit statuses, which are jobs of an external pipeline."""

from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.gitlab_base import GitLabBase
from tests.support.forge_servers.state import StatusRow

# The transitions that GitLab names in its refusals.
_EVENTS = {"pending": "enqueue", "running": "run"}


class GitLabStatuses(GitLabBase):
    @handles("POST /projects/{id}/statuses/{sha}")
    async def new_status(self, call: Call) -> Response:
        repository = self.writable_project(call)
        body, commit = call.body, call.values["sha"]
        if not self.git.has_commit(repository, commit):
            raise Refusal(404, "404 Commit Not Found")
        name = body.get("name") or body.get("context") or "default"
        row = next(
            (
                row
                for row in repository.statuses
                if (row.commit, row.name) == (commit, name) and row.state in _EVENTS
            ),
            None,
        )
        if row is not None and body["state"] in _EVENTS and row.state in (body["state"], "running"):
            event = _EVENTS[body["state"]]
            message = f"Cannot transition status via :{event} from :{row.state}"
            message += f' (Reason(s): Status cannot transition via "{event}")'
            raise Refusal(400, message)
        if row is None:
            row = StatusRow(self.state.next_id(), commit, name, "", "", "")
            repository.statuses.append(row)
        row.state = body["state"]
        row.description = body.get("description", row.description)
        row.url = body.get("target_url", row.url)
        return Response(
            {
                "id": row.id,
                "sha": row.commit,
                "ref": body.get("ref"),
                "status": row.state,
                "name": row.name,
                "target_url": row.url,
                "description": row.description,
            },
            201,
        )
