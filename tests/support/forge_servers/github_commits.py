"""GitHub's API for the authors of commits: addresses, signing keys, commits that GitHub signs."""

from typing import Any

from tests.support.forge_servers import github_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.github_base import GitHubBase
from tests.support.forge_servers.state import SshKey


class GitHubCommits(GitHubBase):
    @handles("GET /users/{username}")
    async def other_user(self, call: Call) -> Response:
        row = self.state.users.get(call.values["username"])
        if row is None:
            raise Refusal(404, "Not Found")
        return Response(shapes.user(self.url, row))

    @handles("GET /user/emails")
    async def own_emails(self, _: Call) -> Response:
        self._require_scope("user", "user:email")
        user = self.state.user(self.state.account)
        visibility = "private" if user.hides_email else "public"
        other = {"email": f"old-{user.email}", "primary": False, "verified": True}
        primary = {"email": user.email, "primary": True, "verified": True}
        return Response([{**other, "visibility": None}, {**primary, "visibility": visibility}])

    @handles("GET /user/ssh_signing_keys")
    async def signing_keys(self, call: Call) -> Response:
        self._require_scope("write:ssh_signing_key", "admin:ssh_signing_key")
        page_rows, headers = self.paged(call, self.state.ssh_keys)
        return Response([_key_json(key) for key in page_rows], headers=headers)

    @handles("POST /user/ssh_signing_keys")
    async def new_signing_key(self, call: Call) -> Response:
        self._require_scope("write:ssh_signing_key", "admin:ssh_signing_key")
        key = {"title": call.body.get("title", ""), "key": call.body["key"]}
        if key["key"] in [known["key"] for known in self.state.ssh_keys]:
            fault = {"resource": "PublicKey", "code": "custom", "field": "key"}
            errors = [{**fault, "message": "key is already in use"}]
            raise Refusal(422, "Validation Failed", errors=errors)
        self.state.ssh_keys.append(key)
        return Response(_key_json(key), 201)

    def _require_scope(self, *sufficient: str) -> None:
        """A classic token without the scope finds nothing; a fine-grained one is refused."""
        if self.scopes is None:
            raise Refusal(403, "Resource not accessible by personal access token")
        if not set(self.scopes.replace(" ", "").split(",")).intersection(sufficient):
            raise Refusal(404, "Not Found")


def _key_json(key: SshKey) -> dict[str, Any]:
    return {"id": 1, "created_at": "2026-01-02T03:04:05Z", **key}
