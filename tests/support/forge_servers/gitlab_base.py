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

# A line that GitLab takes for an order; carriage returns are dropped before it looks.
_ORDER = re.compile(r"^/(\w+)(?: [^\n]*)?(?:\s*\n|$)", re.MULTILINE)


class GitLabBase(ContractServer):
    """`scopes` are those of the token, None for a version that does not tell them; `orders` what a
    text made GitLab do; `shared` the projects (by identifier) whose rights come with a group that
    they were shared with."""

    platform: ClassVar[str] = "gitlab"
    api_path: ClassVar[str] = "/api/v4"

    def __init__(self, place: Path) -> None:
        super().__init__(Description.read("gitlab"), place)
        self.scopes: list[str] | None = ["api"]
        # More than one only where it was paid for.
        self.most_reviewers = 100
        self.orders: list[str] = []
        self.shared: set[int] = set()

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
            words = "The request requires higher privileges than provided by the access token."
            told = {"error": "insufficient_scope", "error_description": words, "scope": "api"}
            raise Refusal(403, words, **told)

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
                words = f'{which} branch "{name}" does not exist'
                raise Refusal(422, words, message=[words])
        for row in repository.pull_of_branch(branch):
            if row.state == "open" and row.base == base:
                words = "Another open merge request already exists for this source branch"
                raise Refusal(409, words, message=[f"{words}: !{row.number}"])

    def change(self, repository: RepositoryRow, row: PullRow, told: Mapping[str, Any]) -> None:
        if "title" in told:
            _refuse_title(told["title"])
            row.title, row.is_draft = shapes.split_draft_mark(told["title"])
        self.obey(told.get("description", ""))
        row.text = told.get("description", row.text)
        given = told.get("labels", row.labels)
        names = given.split(",") if isinstance(given, str) else given
        # Names that can be no label's are left out, as are strangers among the reviewers.
        row.labels = [name.strip() for name in names if 0 < len(name.strip()) <= 255]
        if "reviewer_ids" in told:
            people = [self.state.user_by_id(one) for one in told["reviewer_ids"]]
            found = [one.login for one in people if one and one.login in repository.roles]
            row.reviewers = found[: self.most_reviewers]

    def obey(self, text: str) -> None:
        self.orders += _ORDER.findall(text.replace("\r", ""))

    def project_shown(self, row: RepositoryRow) -> dict[str, Any]:
        level = None if row.id in self.shared else shapes.LEVELS[row.own_role]
        return shapes.project(self.url, row, level)

    def request_shown(self, repository: RepositoryRow, row: PullRow) -> dict[str, Any]:
        commit = row.head_commit or self.git.head(repository, row.head) or ""
        people = {login: self.state.user(login) for login in (row.author, *row.reviewers)}
        source_id = repository.id + 1_000_000 if row.fork_owner else repository.id
        return shapes.merge_request(self.url, repository, row, commit, people, source_id)


def _refuse_title(title: str) -> None:
    if not title.strip():
        raise Refusal(400, "title", message={"title": ["can't be blank"]})
    if len(title) > 255:
        words = "is too long (maximum is 255 characters)"
        raise Refusal(400, "title", message={"title": [words]})
