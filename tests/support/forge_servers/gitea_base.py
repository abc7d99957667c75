"""The base of Gitea's contract server: a token's scopes, teams, who may do what, and its rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.support.forge_servers import gitea_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.description import Description
from tests.support.forge_servers.state import WRITING, IssueRow, PullRow, RepositoryRow, Role

REPO = "/repos/{owner}/{repo}"
ISSUE = f"{REPO}/issues/{{index}}"
PULL = f"{REPO}/pulls/{{index}}"
MAX_PAGE_SIZE = 50
# The first prefix that matches a path gives the category of the scope read:… or write:….
_CATEGORIES = (
    ("/user/repos", "repository"),
    ("/user", "user"),
    ("/orgs/", "organization"),
    ("/teams/", "organization"),
    (f"{REPO}/issues/", "issue"),
    (f"{REPO}/labels", "issue"),
    ("/repo", "repository"),
)


@dataclass
class TeamRow:
    """A team of an organization that has all its repositories; `units` are its rights by unit."""

    id: int
    owner: str
    name: str
    permission: str = "none"
    units: dict[str, str] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)

    @property
    def owns(self) -> bool:
        return self.permission == "owner"


class GiteaBase(ContractServer):
    """`scopes` are the token's, None for versions without scopes; `own_address` is the URL that
    Gitea is configured with; `label_sets` are the labels of organizations; `is_racing` makes
    concurrent requests miss each other's pull requests."""

    platform: ClassVar[str] = "gitea"
    api_path: ClassVar[str] = "/api/v1"

    def __init__(self, directory: Path) -> None:
        super().__init__(Description.read("gitea"), directory)
        self.scopes: set[str] | None = {"write:repository", "write:issue", "read:user"}
        self.own_address = "https://git.example.org"
        self.label_sets: dict[str, list[str]] = {}
        self.is_racing = False
        self.teams: list[TeamRow] = []
        self._label_ids: dict[tuple[str, str], int] = {}

    # Hooks of ContractServer

    def error(self, refusal: Refusal) -> Any:
        return {"message": str(refusal), "url": f"{self.own_address}/api/swagger"}

    def admit(self, call: Call) -> None:
        if call.headers.get("Authorization") != f"token {self.token}":
            raise Refusal(401, "user does not exist [uid: 0, name: ]")
        method, path = call.name.split(" ")
        category = next(name for begin, name in _CATEGORIES if path.startswith(begin))
        needed = f"{'read' if method == 'GET' else 'write'}:{category}"
        if self.scopes is None or {needed, f"write:{category}"} & self.scopes:
            return
        message = "token does not have at least one of required scope(s)"
        scopes = ",".join(sorted(self.scopes))
        raise Refusal(403, f"{message}, required=[{needed}], token scope={scopes}")

    def git_role(self, user: str, password: str, repository: RepositoryRow) -> Role | None:  # noqa: ARG002 - Gitea ignores the user name beside a token
        if password != self.token:
            return None
        return "read" if repository.is_archived else repository.own_role

    def add_repository(
        self, full_name: str, files: dict[str, str | bytes] | None = None, **fields: object
    ) -> RepositoryRow:
        """With admin access by default, which Gitea requires to read permissions of others."""
        return super().add_repository(full_name, files, **{"own_role": "admin", **fields})

    def add_team(
        self,
        full_name: str,
        *members: str,
        permission: str = "none",
        units: dict[str, str] | None = None,
    ) -> TeamRow:
        """`full_name` is "owner/name"; the owner is an organization from then on."""
        owner, _, name = full_name.partition("/")
        team = TeamRow(self.state.next_id(), owner, name, permission, units or {}, set(members))
        self.teams.append(team)
        for login in members:
            self.state.user(login)
        return team

    # Parts of responses

    def visible_team(self, call: Call) -> TeamRow:
        """The team, if the account may see who is in it."""
        teams = {str(team.id): team for team in self.teams}
        team = teams.get(call.values["id"])
        own = [team for team in self.teams if self.state.account in team.members]
        if team is None or team.owner not in {mine.owner for mine in own}:
            raise Refusal(404, "The target couldn't be found.")
        if team not in own and not any(mine.owns for mine in own if mine.owner == team.owner):
            raise Refusal(403, "Must be a team member")
        return team

    def paginate(self, call: Call, rows: list[Any]) -> tuple[list[Any], dict[str, str]]:
        """A page of the rows; its links use the configured URL."""
        page_rows, headers = self.paged(call, rows, 30, MAX_PAGE_SIZE, "limit")
        links = {name: value.replace(self.url, self.own_address) for name, value in headers.items()}
        return page_rows, {**links, "X-Total-Count": str(len(rows))}

    def repository(self, call: Call) -> RepositoryRow:
        full_name = f"{call.values['owner']}/{call.values['repo']}"
        row = self.state.by_name(full_name)
        moved = self.state.by_former_name(full_name) if row is None else None
        if moved is not None:
            address = call.path.replace(f"/{full_name}", f"/{moved.full_name}", 1)
            raise Refusal(301, "Moved Permanently", {"Location": address})
        if row is None or row.own_role == "none":
            raise Refusal(404, "not found")
        return row

    def writable(self, call: Call) -> RepositoryRow:
        row = self.repository(call)
        if row.is_archived:
            raise Refusal(423, f"{row.full_name} is archived")
        if row.own_role not in WRITING:
            raise Refusal(403, "user should have a permission to write to a repo")
        return row

    def pull(self, repository: RepositoryRow, call: Call) -> PullRow:
        row = repository.pulls.get(int(call.values["index"]))
        if row is None:
            raise Refusal(404, "not found")
        return row

    def issue(self, repository: RepositoryRow, call: Call) -> IssueRow:
        number = int(call.values["index"])
        row = repository.pulls.get(number) or repository.issues.get(number)
        if row is None:
            raise Refusal(404, "issue does not exist")
        return row

    def repository_json(self, row: RepositoryRow) -> dict[str, Any]:
        return shapes.repository(self.own_address, row, self.state.user(row.owner))

    def team_json(self, row: TeamRow) -> dict[str, Any]:
        return shapes.team(row.id, row.name, row.permission, row.units)

    def user_json(self, login: str) -> dict[str, Any]:
        return shapes.user(self.own_address, self.state.user(login))

    def pull_json(self, repository: RepositoryRow, row: PullRow) -> dict[str, Any]:
        """The head is the branch's while the branch exists, even after a merge."""
        commit = self.git.head(repository, row.head) or row.head_commit
        people = {login: self.user_json(login) for login in (row.author, *row.reviewers)}
        return shapes.pull(repository, row, commit, people, self.labels_json(repository, row))

    def labels_json(self, repository: RepositoryRow, row: IssueRow) -> list[dict[str, Any]]:
        names = self.label_sets.get(repository.owner, ())
        return [
            self.label_json(repository.owner if name in names else repository.full_name, name)
            for name in row.labels
        ]

    def label_json(self, owner: str, name: str) -> dict[str, Any]:
        """`owner` is an organization or a repository."""
        key = (owner, name)
        if key not in self._label_ids:
            self._label_ids[key] = self.state.next_id()
        return {"id": self._label_ids[key], "name": name, "color": "ededed"}

    def labels_with(self, identifiers: list[int]) -> list[str]:
        """The names of known labels; unknown ones are ignored."""
        names: Mapping[int, str] = {own: name for (_, name), own in self._label_ids.items()}
        return [names[label_id] for label_id in identifiers if label_id in names]
