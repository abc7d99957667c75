"""GitHub's API for the authors of commits: addresses, signing keys, commits that GitHub signs."""

from pathlib import Path
from typing import Any

from agentjobs.git.identity import Identity
from agentjobs.git.process import git
from agentjobs.git.refs import resolve
from agentjobs.git.signing import sign_commit
from tests.support.forge_servers import github_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.github_base import REPO, GitHubBase
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

    @handles(f"POST {REPO}/git/commits")
    async def new_commit(self, call: Call) -> Response:
        """Signed if an App makes it in its own name."""
        repository = self.writable(call)
        git_dir, body = self.git.directory(repository), call.body
        if not await self._has_objects(git_dir, body["tree"], *body["parents"]):
            raise Refusal(422, "Tree SHA does not exist")
        login = self.login(call)
        author = Identity(login, f"{self.state.user(login).id}+{login}@users.noreply.github.com")
        committer = Identity("GitHub", "noreply@github.com")
        parents = [option for parent in body["parents"] for option in ("-p", parent)]
        created = await git(
            *("commit-tree", *parents, body["tree"]),
            git_dir=git_dir,
            input=body["message"].encode(),
            environment=author.as_role("AUTHOR") | committer.as_role("COMMITTER"),
        )
        sha = created.stdout.decode().strip()
        is_own = not {"author", "committer", "signature"} & body.keys()
        key = self.signing_key if self.app_token(call) is not None and is_own else None
        if key is not None:
            sha = await sign_commit(git_dir, sha, key)
        reason = "unsigned" if key is None else "valid"
        return Response(shapes.git_commit(self.url, repository, sha, body, reason), 201)

    async def _has_objects(self, git_dir: Path, *names: str) -> bool:
        checks = [
            await git("cat-file", "-e", name, git_dir=git_dir, allowed_exit_codes=(0, 1, 128))
            for name in names
        ]
        return all(check.exit_code == 0 for check in checks)

    @handles(f"PATCH {REPO}/git/refs/{{ref}}")
    async def change_ref(self, call: Call) -> Response:
        repository = self.writable(call)
        git_dir, ref = self.git.directory(repository), f"refs/{call.values['ref']}"
        if await resolve(git_dir, ref) is None:
            raise Refusal(422, "Reference does not exist")
        await git("update-ref", ref, call.body["sha"], git_dir=git_dir)
        target = {"type": "commit", "sha": call.body["sha"], "url": self.url}
        return Response({"ref": ref, "node_id": "R_1", "url": self.url, "object": target})

    def _require_scope(self, *sufficient: str) -> None:
        """A classic token without the scope finds nothing; a fine-grained one is refused."""
        if self.scopes is None:
            raise Refusal(403, "Resource not accessible by personal access token")
        if not set(self.scopes.replace(" ", "").split(",")).intersection(sufficient):
            raise Refusal(404, "Not Found")


def _key_json(key: SshKey) -> dict[str, Any]:
    return {"id": 1, "created_at": "2026-01-02T03:04:05Z", **key}
