"""GitHub's API for the authors of commits: addresses, signing keys, commits that GitHub signs."""

import subprocess
from pathlib import Path
from typing import Any

from tests.support.forge_servers import github_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.github_base import REPO, GitHubBase
from tests.support.forge_servers.state import SshKey
from tests.support.git_commands import run_git_command


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
        is_own = not {"author", "committer", "signature"} & body.keys()
        is_signed = self.signs_commits and self.app_token(call) is not None and is_own
        parents = [option for parent in body["parents"] for option in ("-p", parent)]
        created = await run_git_command(
            *("-c", "gpg.format=ssh", "-c", f"user.signingKey={self._signing_key()}"),
            *("commit-tree", *parents, body["tree"], *(("-S",) if is_signed else ())),
            cwd=git_dir,
            environment={
                "GIT_AUTHOR_NAME": login,
                "GIT_AUTHOR_EMAIL": f"{self.state.user(login).id}+{login}@users.noreply.github.com",
                "GIT_COMMITTER_NAME": "GitHub",
                "GIT_COMMITTER_EMAIL": "noreply@github.com",
            },
            stdin=body["message"].encode(),
        )
        assert created.exit_code == 0, created.output
        sha = created.output.strip()
        reason = "valid" if is_signed else "unsigned"
        return Response(shapes.git_commit(self.url, repository, sha, body, reason), 201)

    @property
    def signing_public_key(self) -> str:
        """Without the comment."""
        key_type, key, *_ = self._signing_key().with_suffix(".pub").read_text().split()
        return f"{key_type} {key}"

    def _signing_key(self) -> Path:
        path = self.git.root / "signing-key"
        if not path.exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
            subprocess.run(command, check=True)
        return path

    async def _has_objects(self, git_dir: Path, *names: str) -> bool:
        checks = [await run_git_command("cat-file", "-e", name, cwd=git_dir) for name in names]
        return all(check.exit_code == 0 for check in checks)

    @handles(f"PATCH {REPO}/git/refs/{{ref}}")
    async def change_ref(self, call: Call) -> Response:
        repository = self.writable(call)
        git_dir, ref = self.git.directory(repository), f"refs/{call.values['ref']}"
        known = await run_git_command("rev-parse", "--verify", "--quiet", ref, cwd=git_dir)
        if known.exit_code:
            raise Refusal(422, "Reference does not exist")
        updated = await run_git_command("update-ref", ref, call.body["sha"], cwd=git_dir)
        assert updated.exit_code == 0, updated.output
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
