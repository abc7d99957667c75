"""The base of GitLab's contract server: who may do what, and its rows."""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.support.forge_servers import gitlab_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.description import Description
from tests.support.forge_servers.state import IssueRow, PullRow, RepositoryRow, Role

# A line that GitLab treats as a quick action, after removing carriage returns.
_QUICK_ACTION = re.compile(r"^/(\w+)(?: [^\n]*)?(?:\s*\n|$)", re.MULTILINE)


class GitLabBase(ContractServer):
    """`scopes` are the token's, None for versions that do not return them; `quick_actions` are
    those that texts triggered; `shared` are IDs of projects with access through a group;
    `commit_email` is the address that the account uses for commits."""

    platform: ClassVar[str] = "gitlab"
    has_etags: ClassVar[bool] = True
    api_path: ClassVar[str] = "/api/v4"

    def __init__(self, directory: Path) -> None:
        super().__init__(Description.read("gitlab"), directory)
        self.scopes: list[str] | None = ["api"]
        # Several reviewers are a paid feature.
        self.max_reviewers = 100
        self.quick_actions: list[str] = []
        self.shared: set[int] = set()
        self.commit_email: str | None = self.state.user(self.state.account).email

    # Hooks of ContractServer

    def error(self, refusal: Refusal) -> Any:
        return refusal.more or {"message": str(refusal)}

    def usual_headers(self) -> Mapping[str, str]:
        return {
            "RateLimit-Limit": "2000",
            "RateLimit-Observed": "13",
            "RateLimit-Remaining": "1987",
            "RateLimit-Reset": str(int(time.time()) + 60),
            "RateLimit-Name": "throttle_authenticated_api",
        }

    def admit(self, call: Call) -> None:
        if call.headers.get("PRIVATE-TOKEN") != self.token:
            raise Refusal(401, "401 Unauthorized")
        sufficient = ("api", "read_api") if call.name.startswith("GET ") else ("api",)
        if self.scopes is not None and not set(self.scopes).intersection(sufficient):
            message = "The request requires higher privileges than provided by the access token."
            body = {"error": "insufficient_scope", "error_description": message, "scope": "api"}
            raise Refusal(403, message, **body)

    def git_role(self, user: str, password: str, repository: RepositoryRow) -> Role | None:
        if (user, password) != ("oauth2", self.token):
            return None
        return "read" if repository.is_archived else repository.own_role

    def add_repository(
        self, full_name: str, files: dict[str, str | bytes] | None = None, **fields: object
    ) -> RepositoryRow:
        return super().add_repository(full_name, files, **{"shares_numbers": False, **fields})

    # Parts of responses

    def project(self, call: Call) -> RepositoryRow:
        name = call.values["id"]
        by_id = self.state.repositories.get(int(name)) if name.isdigit() else None
        row = by_id or self.state.by_name(name)
        moved = self.state.by_former_name(name) if row is None else None
        if moved is not None and call.name.startswith("GET "):
            rest = "/".join(["", *call.path.split("/")[5:]])
            address = f"{self.url}{self.api_path}/projects/{moved.id}{rest}"
            raise Refusal(301, "301 Moved Permanently", {"Location": address})
        if row is None or row.own_role == "none":
            raise Refusal(404, "404 Project Not Found")
        return row

    def writable_project(self, call: Call) -> RepositoryRow:
        row = self.project(call)
        if row.is_archived or shapes.LEVELS[row.own_role] < shapes.LEVELS["write"]:
            raise Refusal(403, "403 Forbidden")
        return row

    def request_row(self, repository: RepositoryRow, call: Call) -> PullRow:
        row = repository.pulls.get(int(call.values["merge_request_iid"]))
        if row is None:
            raise Refusal(404, "404 Not found")
        return row

    def issue_row(self, repository: RepositoryRow, call: Call) -> IssueRow:
        row = repository.issues.get(int(call.values["issue_iid"]))
        if row is None or not repository.has_issues:
            raise Refusal(404, "404 Not found")
        return row

    def refuse_branches(self, repository: RepositoryRow, branch: str, base: str) -> None:
        for name, which in ((branch, "Source"), (base, "Target")):
            if self.git.head(repository, name) is None:
                message = f'{which} branch "{name}" does not exist'
                raise Refusal(422, message, message=[message])
        for row in repository.pull_of_branch(branch):
            if row.state == "open" and row.base == base:
                message = "Another open merge request already exists for this source branch"
                raise Refusal(409, message, message=[f"{message}: !{row.number}"])

    def change(self, repository: RepositoryRow, row: PullRow, fields: Mapping[str, Any]) -> None:
        if "title" in fields:
            _refuse_title(fields["title"])
            row.title, row.is_draft = shapes.split_draft_mark(fields["title"])
        if fields.get("state_event") == "close":
            row.state = "closed"
        self.run_quick_actions(fields.get("description", ""))
        row.text = fields.get("description", row.text)
        labels = fields.get("labels", row.labels)
        names = labels.split(",") if isinstance(labels, str) else labels
        # Invalid labels and reviewers without access are ignored.
        row.labels = [name.strip() for name in names if 0 < len(name.strip()) <= 255]
        if "reviewer_ids" in fields:
            people = [self.state.user_by_id(user_id) for user_id in fields["reviewer_ids"]]
            reviewers = [
                person.login for person in people if person and person.login in repository.roles
            ]
            row.reviewers = reviewers[: self.max_reviewers]

    def run_quick_actions(self, text: str) -> None:
        self.quick_actions += _QUICK_ACTION.findall(text.replace("\r", ""))

    def project_json(self, row: RepositoryRow) -> dict[str, Any]:
        level = None if row.id in self.shared else shapes.LEVELS[row.own_role]
        return shapes.project(self.url, row, level)

    def request_json(self, repository: RepositoryRow, row: PullRow) -> dict[str, Any]:
        commit = row.head_commit or self.git.head(repository, row.head) or ""
        people = {login: self.state.user(login) for login in (row.author, *row.reviewers)}
        source_id = repository.id + 1_000_000 if row.fork_owner else repository.id
        shape = shapes.merge_request(self.url, repository, row, commit, people, source_id)
        return {**shape, "detailed_merge_status": self.merge_status(repository, row)}

    def merge_status(self, repository: RepositoryRow, row: PullRow) -> str:
        if row.state != "open":
            return "not_open"
        if row.is_draft:
            return "draft_status"
        if repository.merge_refusal:
            return repository.merge_refusal
        if row.has_conflicts:
            return "conflict"
        return "checking" if repository.unchecked_merges else "mergeable"


def _refuse_title(title: str) -> None:
    if not title.strip():
        raise Refusal(400, "title", message={"title": ["can't be blank"]})
    if len(title) > 255:
        message = "is too long (maximum is 255 characters)"
        raise Refusal(400, "title", message={"title": [message]})
