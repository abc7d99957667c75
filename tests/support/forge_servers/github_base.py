"""The base of GitHub's contract server: its description, who may do what, and its rows.

The description comes from npm (`@octokit/openapi`, generated from what GitHub publishes).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from tests.support.forge_servers import github_responses as shapes
from tests.support.forge_servers import openapi
from tests.support.forge_servers.calls import Call, Refusal
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.description import Description, parse_operations
from tests.support.forge_servers.github_app import App, InstallationToken
from tests.support.forge_servers.push_refusals import GITHUB_APP_WORKFLOW, GITHUB_TOKEN_WORKFLOW
from tests.support.forge_servers.state import IssueRow, PullRow, RepositoryRow, Role
from tests.support.paths import PROJECT

DOCUMENT = PROJECT / ".npm-tests/generated/api.github.com.json"
REPO = "/repos/{owner}/{repo}"
ISSUE = f"{REPO}/issues/{{issue_number}}"
PULL = f"{REPO}/pulls/{{pull_number}}"
INSTALLATION = "/app/installations/{installation_id}"
# The level, and the permissions of an App of which one is required.
_NEEDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "GET /rate_limit": ("read", ("metadata",)),
    "GET /installation/repositories": ("read", ("metadata",)),
    "GET /users/{username}": ("read", ("metadata",)),
    f"GET {REPO}": ("read", ("metadata",)),
    f"GET {REPO}/collaborators/{{username}}/permission": ("read", ("metadata",)),
    f"GET {REPO}/branches/{{branch}}": ("read", ("contents",)),
    f"POST {REPO}/git/commits": ("write", ("contents",)),
    f"PATCH {REPO}/git/refs/{{ref}}": ("write", ("contents",)),
    f"GET {REPO}/pulls": ("read", ("pull_requests",)),
    f"POST {REPO}/pulls": ("write", ("pull_requests",)),
    f"GET {PULL}": ("read", ("pull_requests",)),
    f"PATCH {PULL}": ("write", ("pull_requests",)),
    f"PUT {PULL}/merge": ("write", ("contents",)),
    f"POST {PULL}/requested_reviewers": ("write", ("pull_requests",)),
    f"GET {PULL}/reviews": ("read", ("pull_requests",)),
    f"GET {PULL}/comments": ("read", ("pull_requests",)),
    f"GET {ISSUE}": ("read", ("issues", "pull_requests")),
    f"GET {ISSUE}/comments": ("read", ("issues", "pull_requests")),
    f"POST {ISSUE}/comments": ("write", ("issues", "pull_requests")),
    f"POST {ISSUE}/labels": ("write", ("issues", "pull_requests")),
    f"POST {REPO}/statuses/{{sha}}": ("write", ("statuses",)),
    f"GET {REPO}/commits/{{ref}}/check-runs": ("read", ("checks",)),
    f"POST {REPO}/check-runs": ("write", ("checks",)),
    f"PATCH {REPO}/check-runs/{{check_run_id}}": ("write", ("checks",)),
    f"GET {REPO}/hooks": ("read", ("repository_hooks",)),
    f"POST {REPO}/hooks": ("write", ("repository_hooks",)),
    f"DELETE {REPO}/hooks/{{hook_id}}": ("write", ("repository_hooks",)),
}
# Operations signed by the App itself, and operations for users only.
_BY_APP = (
    "GET /app",
    "GET /app/hook/config",
    "GET /app/hook/deliveries",
    f"GET {INSTALLATION}",
    f"POST {INSTALLATION}/access_tokens",
)
_BY_PEOPLE = (
    *("GET /user", "GET /user/repos", "GET /user/emails"),
    *("GET /user/ssh_signing_keys", "POST /user/ssh_signing_keys"),
)
# Not described, but the target of GitHub's redirects after a rename.
_UNDESCRIBED = [{"method": "GET", "path": "/repositories/{repository_id}"}]
_BY_ID = re.compile(r"/repositories/(\d+)(/.*)?")


@lru_cache(maxsize=1)
def description() -> Description:
    names = [*_NEEDS, *_BY_APP, *_BY_PEOPLE]
    described = openapi.operations(openapi.extract_operations(DOCUMENT, names), names)
    return Description([*described, *parse_operations(_UNDESCRIBED)])


class GitHubBase(ContractServer):
    """`app` is the installed App; `token` belongs to a user. `scopes` are those of a classic token,
    None for a fine-grained token. `unknown_heads` is how often the API does not know a pushed
    branch yet."""

    platform: ClassVar[str] = "github"
    # Like GitHub Enterprise Server: one host for the web pages, the API and git.
    api_path: ClassVar[str] = "/api/v3"
    has_etags: ClassVar[bool] = True

    def __init__(self, directory: Path) -> None:
        super().__init__(description(), directory)
        self.app = App()
        self.scopes: str | None = "repo"
        self.unknown_heads = 0
        # False for a server that does not sign commits of Apps.
        self.signs_commits = True
        self.rate_limit = 5_000
        self.used = 0
        self._period_ends_at = 0.0
        self.state.add_user(f"{self.app.slug}[bot]", is_bot=True)

    # Hooks of ContractServer

    def error(self, refusal: Refusal) -> Any:
        page = "https://docs.github.com/rest"
        status = str(refusal.status)
        body = {"message": str(refusal), "documentation_url": page, "status": status}
        return {**body, **refusal.more}

    def header_faults(self, headers: Mapping[str, str]) -> list[str]:
        problems = super().header_faults(headers)
        if headers.get("Accept") not in ("application/vnd.github+json", "application/json"):
            problems.append("the header Accept should be application/vnd.github+json")
        if not headers.get("X-GitHub-Api-Version"):
            problems.append("the header X-GitHub-Api-Version is missing")
        return problems

    def usual_headers(self) -> Mapping[str, str]:
        self._start_period()
        headers = {
            "x-ratelimit-limit": str(self.rate_limit),
            "x-ratelimit-remaining": str(max(0, self.rate_limit - self.used)),
            "x-ratelimit-used": str(self.used),
            "x-ratelimit-reset": str(int(self._period_ends_at)),
            "x-ratelimit-resource": "core",
            "x-github-request-id": "0001:0002:0003",
        }
        return headers if self.scopes is None else {**headers, "x-oauth-scopes": self.scopes}

    def count(self, call: Call) -> None:
        """The App's own requests have another limit, and responses 304 do not count."""
        self._start_period()
        if call.name not in (*_BY_APP, "GET /rate_limit"):
            self.used += 1

    def _start_period(self) -> None:
        if self.clock() >= self._period_ends_at:
            self.used, self._period_ends_at = 0, self.clock() + 3_600

    def described_path(self, path: str) -> str:
        by_id = _BY_ID.fullmatch(path)
        repository = self.state.repositories.get(int(by_id[1])) if by_id else None
        if by_id is None or repository is None:
            return path
        return f"/repos/{repository.full_name}{by_id[2] or ''}"

    def admit(self, call: Call) -> None:
        authorization = call.headers.get("Authorization", "")
        if call.name in _BY_APP:
            self.app.verify(authorization, self.clock())
            return
        value = authorization.partition(" ")[2]
        if authorization.partition(" ")[0].lower() not in ("bearer", "token"):
            raise Refusal(401, "Requires authentication")
        token = self.app.token_of(value, self.clock())
        if token is not None:
            self.app.check_replicated(token, self.clock())
            _admit_app(call, token)
        elif value != self.token:
            raise Refusal(401, "Bad credentials")
        elif call.name == "GET /installation/repositories":
            raise Refusal(403, "You must authenticate with an installation access token")

    def workflow_refusal(self, password: str) -> str:
        token = self.app.token_of(password, self.clock())
        if token is not None:
            return "" if token.allows("workflows", "write") else GITHUB_APP_WORKFLOW
        scopes = None if self.scopes is None else self.scopes.replace(" ", "").split(",")
        return "" if scopes is None or "workflow" in scopes else GITHUB_TOKEN_WORKFLOW

    def git_role(self, user: str, password: str, repository: RepositoryRow) -> Role | None:
        token = self.app.token_of(password, self.clock())
        if token is None:
            return repository.own_role if password == self.token else None
        try:
            self.app.check_replicated(token, self.clock())
        except Refusal:
            return None
        if user != "x-access-token":
            return None
        if not self.app.can_read(token, repository.id) or not token.allows("contents", "read"):
            return "none"
        return "write" if token.allows("contents", "write") else "read"

    # Parts of responses

    def repository(self, call: Call) -> RepositoryRow:
        full_name = f"{call.values['owner']}/{call.values['repo']}"
        repository = self.state.by_name(full_name)
        if repository is None:
            raise self._moved_or_missing(call, full_name)
        token = self.app_token(call)
        hidden = repository.own_role == "none" if token is None else False
        if hidden or (token is not None and not self.app.can_read(token, repository.id)):
            raise Refusal(404, "Not Found")
        return repository

    def _moved_or_missing(self, call: Call, full_name: str) -> Refusal:
        moved = self.state.by_former_name(full_name)
        if moved is None:
            return Refusal(404, "Not Found")
        rest = call.path.split("/", 6)[6:]
        address = "/".join([f"{self.url}{self.api_path}/repositories/{moved.id}", *rest])
        status = 301 if call.name.startswith("GET") else 307
        return Refusal(status, "Moved Permanently", {"Location": address}, url=address)

    def writable(self, call: Call, *, by_readers: bool = False) -> RepositoryRow:
        repository = self.repository(call)
        if repository.is_archived:
            raise Refusal(403, "Repository was archived so is read-only.")
        is_reader = self.app_token(call) is None and repository.own_role in ("read", "triage")
        if is_reader and not by_readers:
            raise Refusal(403, "Resource not accessible by personal access token")
        return repository

    def pull(self, repository: RepositoryRow, call: Call) -> PullRow:
        row = repository.pulls.get(int(call.values["pull_number"]))
        if row is None:
            raise Refusal(404, "Not Found")
        return row

    def issue(self, repository: RepositoryRow, call: Call) -> IssueRow:
        number = int(call.values["issue_number"])
        row = repository.pulls.get(number) or repository.issues.get(number)
        if row is None:
            raise Refusal(404, "Not Found")
        return row

    def has_branch(self, repository: RepositoryRow, branch: str) -> bool:
        return self.git.head(repository, branch) is not None

    def repository_json(self, call: Call, row: RepositoryRow) -> dict[str, Any]:
        owner = self.state.user(row.owner)
        role: Role = row.own_role if self.app_token(call) is None else "write"
        return shapes.repository(self.url, row, owner, role)

    def pull_json(self, repository: RepositoryRow, row: PullRow) -> dict[str, Any]:
        commit = row.head_commit or self.git.head(repository, row.head) or ""
        return shapes.pull(self.url, repository, row, commit, self.state.user(row.author))

    def app_token(self, call: Call) -> InstallationToken | None:
        value = call.headers.get("Authorization", "").partition(" ")[2]
        return self.app.token_of(value, self.clock())

    def login(self, call: Call) -> str:
        is_app = self.app_token(call) is not None
        return f"{self.app.slug}[bot]" if is_app else self.state.account


def _admit_app(call: Call, token: InstallationToken) -> None:
    level, permissions = _NEEDS.get(call.name, ("read", ("metadata",)))
    is_known = call.name in _NEEDS or call.name.startswith("GET /repositories/")
    if not is_known or not any(token.allows(permission, level) for permission in permissions):
        raise Refusal(403, "Resource not accessible by integration")
