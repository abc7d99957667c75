"""GitHub's REST API, as much of it as a connection uses, held to GitHub's own description."""

import time
from datetime import UTC, datetime
from typing import Any

from tests.support.forge_servers import github_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.github_base import INSTALLATION, ISSUE, PULL, REPO, GitHubBase
from tests.support.forge_servers.state import PullRow, RepositoryRow


def primary_limit(seconds: int, **fields: Any) -> Fault:
    """The budget of the hour is spent."""
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + seconds)}
    return Fault(status=403, message="API rate limit exceeded", headers=headers, **fields)


def secondary_limit(**fields: Any) -> Fault:
    words = "You have exceeded a secondary rate limit. Please wait a few minutes before you try"
    return Fault(status=403, message=f"{words} again.", **fields)


class GitHubServer(GitHubBase):
    """What it answers."""

    # Who is asking

    @handles("GET /user")
    async def own_user(self, _: Call) -> Response:
        return Response(shapes.user(self.url, self.state.user(self.state.account)))

    @handles("GET /app")
    async def own_app(self, _: Call) -> Response:
        app = self.app
        told = {"id": app.id, "slug": app.slug, "name": "Agent Jobs", "events": ["push"]}
        return Response({**told, "permissions": app.permissions, "html_url": f"{self.url}/apps"})

    @handles(f"GET {INSTALLATION}")
    async def installation(self, call: Call) -> Response:
        self._installation(call)
        app = self.app
        return Response(
            {
                "id": app.installation_id,
                "app_id": app.id,
                "app_slug": app.slug,
                "account": {"login": app.account, "id": 1, "type": "Organization"},
                "repository_selection": "all" if app.reach is None else "selected",
                "permissions": app.permissions,
                "suspended_at": "2026-01-02T03:04:05Z" if app.is_suspended else None,
                "target_type": "Organization",
            }
        )

    @handles(f"POST {INSTALLATION}/access_tokens")
    async def new_token(self, call: Call) -> Response:
        self._installation(call)
        known = self.state.repositories
        if self.app.is_suspended:
            raise Refusal(403, "This installation has been suspended")
        token = self.app.give(self._by_ids(call.body or {}), known, self.clock())
        ends = datetime.fromtimestamp(token.expires_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {"token": token.value, "expires_at": ends, "permissions": token.permissions}
        selection = "all" if token.repositories is None else "selected"
        return Response({**told, "repository_selection": selection}, 201)

    def _by_ids(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Names in it are without their owner, which the installation has."""
        names = [f"{self.app.account}/{name}" for name in wanted.get("repositories", ())]
        found = [self.state.by_name(name) for name in names]
        identifiers = [-1 if row is None else row.id for row in found]
        return {**wanted, "repository_ids": [*wanted.get("repository_ids", ()), *identifiers]}

    def _installation(self, call: Call) -> None:
        if call.values["installation_id"] != str(self.app.installation_id):
            raise Refusal(404, "Not Found")

    # Repositories

    @handles("GET /user/repos")
    async def own_repositories(self, call: Call) -> Response:
        return self._listed(call, list(self.state.repositories.values()), bare=True)

    @handles("GET /installation/repositories")
    async def reached_repositories(self, call: Call) -> Response:
        token = self.app_token(call)
        rows = self.state.repositories.values()
        seen = [row for row in rows if token is not None and self.app.sees(token, row.id)]
        return self._listed(call, seen, bare=False)

    def _listed(self, call: Call, rows: list[RepositoryRow], *, bare: bool) -> Response:
        here, headers = self.paged(call, rows)
        shown = [self.shown(call, row) for row in here]
        content = shown if bare else {"total_count": len(rows), "repositories": shown}
        return Response(content, headers=headers)

    @handles("GET /repositories/{repository_id}")
    async def unknown_repository(self, _: Call) -> Response:
        raise Refusal(404, "Not Found")

    @handles(f"GET {REPO}")
    async def one_repository(self, call: Call) -> Response:
        return Response(self.shown(call, self.repository(call)))

    @handles(f"GET {REPO}/collaborators/{{username}}/permission")
    async def permission(self, call: Call) -> Response:
        repository = self.repository(call)
        login = call.values["username"]
        if login not in self.state.users:
            raise Refusal(404, f"{login} is not a user")
        role = repository.roles.get(login, "none" if repository.is_private else "read")
        legacy = shapes.LEGACY[role]
        shown = shapes.user(self.url, self.state.users[login])
        return Response({"permission": legacy, "role_name": role, "user": shown})

    @handles(f"GET {REPO}/branches/{{branch}}")
    async def branch(self, call: Call) -> Response:
        name = call.values["branch"]
        commit = self.git.head(self.repository(call), name)
        if commit is None:
            raise Refusal(404, "Branch not found")
        return Response({"name": name, "commit": {"sha": commit}, "protected": False})

    # Pull requests

    @handles(f"GET {REPO}/pulls")
    async def pulls(self, call: Call) -> Response:
        repository = self.repository(call)
        rows = [row for row in repository.pulls.values() if _matches_head(call, repository, row)]
        is_rising = call.query.get("direction", "desc") == "asc"
        here, headers = self.paged(call, rows if is_rising else rows[::-1])
        return Response([self.pull_shown(repository, row) for row in here], headers=headers)

    @handles(f"POST {REPO}/pulls")
    async def new_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        owner, _, branch = call.body["head"].rpartition(":")
        if (owner or repository.owner) != repository.owner or not self.has_branch(
            repository, branch
        ):
            raise _invalid("PullRequest", field="head", code="invalid")
        if not self.has_branch(repository, call.body["base"]):
            raise _invalid("PullRequest", field="base", code="invalid")
        if any(row.state == "open" for row in repository.pull_of_branch(branch)):
            words = f"A pull request already exists for {repository.owner}:{branch}."
            raise _invalid("PullRequest", code="custom", message=words)
        if not call.body.get("title"):
            raise _invalid("PullRequest", field="title", code="missing_field")
        text = call.body.get("body", "")
        if len(text) > 65_536:
            words = "body is too long (maximum is 65536 characters)"
            raise _invalid("PullRequest", field="body", code="custom", message=words)
        row = self.state.add_pull(
            repository,
            call.body["title"],
            branch,
            text=text,
            base=call.body["base"],
            is_draft=call.body.get("draft", False),
            author=self.login(call),
        )
        return Response(shapes.full_pull(self.pull_shown(repository, row), row), 201)

    @handles(f"GET {PULL}")
    async def one_pull(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.pull(repository, call)
        return Response(shapes.full_pull(self.pull_shown(repository, row), row))

    @handles(f"PATCH {PULL}")
    async def change_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        row.title = call.body.get("title", row.title)
        row.text = call.body.get("body", row.text)
        row.state = call.body.get("state", row.state)
        return Response(shapes.full_pull(self.pull_shown(repository, row), row))

    @handles(f"POST {PULL}/requested_reviewers")
    async def request_reviews(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        people = call.body.get("reviewers", [])
        teams = call.body.get("team_reviewers", [])
        if row.author in people:
            raise Refusal(422, "Review cannot be requested from pull request author.")
        strangers = [name for name in people if name not in repository.roles]
        strangers += [one for one in teams if f"{repository.owner}/{one}" not in self.state.teams]
        if strangers:
            words = "Reviews may only be requested from collaborators. One or more of the users or"
            words += " teams you specified is not a collaborator of the"
            raise Refusal(422, f"{words} {repository.full_name} repository.")
        row.reviewers += people
        row.team_reviewers += teams
        return Response(self.pull_shown(repository, row), 201)

    @handles(f"GET {PULL}/reviews")
    async def reviews(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.pull(repository, call)
        own = self.login(call)
        seen = [one for one in row.reviews if not one.is_pending or one.author == own]
        here, headers = self.paged(call, seen)
        shown = [
            shapes.review(self.url, repository, row.number, one, self.state.user(one.author))
            for one in here
        ]
        return Response(shown, headers=headers)

    @handles(f"GET {PULL}/comments")
    async def line_comments(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.pull(repository, call)
        is_falling = "sort" in call.query and call.query.get("direction") == "desc"
        here, headers = self.paged(call, row.lines[::-1] if is_falling else row.lines)
        shown = [
            shapes.line_comment(self.url, repository, row, one, self.state.user(one.author))
            for one in here
        ]
        return Response(shown, headers=headers)

    # Issues, which pull requests are too

    @handles(f"GET {ISSUE}")
    async def one_issue(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        author = self.state.user(row.author)
        return Response(shapes.issue(self.url, repository, row, author))

    @handles(f"GET {ISSUE}/comments")
    async def comments(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        here, headers = self.paged(call, row.comments)
        shown = [
            shapes.comment(self.url, repository, row.number, one, self.state.user(one.author))
            for one in here
        ]
        return Response(shown, headers=headers)

    @handles(f"POST {ISSUE}/comments")
    async def new_comment(self, call: Call) -> Response:
        repository = self.writable(call, by_readers=True)
        row = self.issue(repository, call)
        comment = self.state.add_comment(row, self.login(call), call.body["body"])
        author = self.state.user(comment.author)
        return Response(shapes.comment(self.url, repository, row.number, comment, author), 201)

    @handles(f"POST {ISSUE}/labels")
    async def add_labels(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.issue(repository, call)
        for name in call.body["labels"]:
            if len(name) > 50:
                raise _invalid("Label", field="name", code="custom", message="name is too long")
            # GitHub makes a label that is not there.
            repository.labels += [] if name in repository.labels else [name]
            row.labels += [] if name in row.labels else [name]
        return Response([{"id": 1, "name": name, "color": "ededed"} for name in row.labels])


def _matches_head(call: Call, repository: RepositoryRow, row: PullRow) -> bool:
    state = "closed" if row.is_merged else row.state
    if call.query.get("state", "open") not in (state, "all"):
        return False
    # It is `owner:branch`; a branch alone filters nothing.
    owner, _, branch = call.query.get("head", "").rpartition(":")
    whose = row.fork_owner or repository.owner
    if owner and (owner.casefold(), branch) != (whose.casefold(), row.head):
        return False
    return call.query.get("base", row.base) == row.base


def _invalid(resource: str, **fault: str) -> Refusal:
    return Refusal(422, "Validation Failed", errors=[{"resource": resource, **fault}])
