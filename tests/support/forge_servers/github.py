"""GitHub's REST API, as far as a connection uses it, validated by GitHub's own description."""

import time
from datetime import UTC, datetime
from typing import Any

from tests.support.forge_servers import github_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.github_base import INSTALLATION, ISSUE, PULL, REPO
from tests.support.forge_servers.github_commits import GitHubCommits
from tests.support.forge_servers.github_hooks import GitHubHookOperations
from tests.support.forge_servers.github_statuses import GitHubStatuses
from tests.support.forge_servers.state import PullRow, RepositoryRow


def primary_limit(seconds: int, **fields: Any) -> Fault:
    """The hourly rate limit is used up."""
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + seconds)}
    return Fault(status=403, message="API rate limit exceeded", headers=headers, **fields)


def secondary_limit(**fields: Any) -> Fault:
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try"
    return Fault(status=403, message=f"{message} again.", **fields)


class GitHubServer(GitHubCommits, GitHubHookOperations, GitHubStatuses):
    """GitHub's operations; see the base for what tests can change."""

    # The account and the App

    @handles("GET /user")
    async def own_user(self, _: Call) -> Response:
        return Response(shapes.user(self.url, self.state.user(self.state.account)))

    @handles("GET /rate_limit")
    async def own_rate_limit(self, _: Call) -> Response:
        self._start_period()
        resource = {
            "limit": self.rate_limit,
            "used": self.used,
            "remaining": self.rate_limit - self.used,
            "reset": int(self._period_ends_at),
        }
        return Response({"resources": {"core": resource, "search": resource}, "rate": resource})

    @handles("GET /app")
    async def own_app(self, _: Call) -> Response:
        app = self.app
        body = {"id": app.id, "slug": app.slug, "name": "Agent Jobs", "events": ["push"]}
        return Response({**body, "permissions": app.permissions, "html_url": f"{self.url}/apps"})

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
                "repository_selection": "all" if app.repository_ids is None else "selected",
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
        token = self.app.issue_token(self._by_ids(call.body or {}), known, self.clock())
        expires_at = datetime.fromtimestamp(token.expires_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"token": token.value, "expires_at": expires_at, "permissions": token.permissions}
        selection = "all" if token.repositories is None else "selected"
        return Response({**body, "repository_selection": selection}, 201)

    def _by_ids(self, options: dict[str, Any]) -> dict[str, Any]:
        """Resolve repository names, which are given without the installation's account."""
        names = [f"{self.app.account}/{name}" for name in options.get("repositories", ())]
        rows = [self.state.by_name(name) for name in names]
        identifiers = [-1 if row is None else row.id for row in rows]
        return {**options, "repository_ids": [*options.get("repository_ids", ()), *identifiers]}

    def _installation(self, call: Call) -> None:
        if call.values["installation_id"] != str(self.app.installation_id):
            raise Refusal(404, "Not Found")

    # Repositories

    @handles("GET /user/repos")
    async def own_repositories(self, call: Call) -> Response:
        return self._paginate(call, list(self.state.repositories.values()), bare=True)

    @handles("GET /installation/repositories")
    async def installation_repositories(self, call: Call) -> Response:
        token = self.app_token(call)
        rows = self.state.repositories.values()
        visible = [row for row in rows if token is not None and self.app.can_read(token, row.id)]
        return self._paginate(call, visible, bare=False)

    def _paginate(self, call: Call, rows: list[RepositoryRow], *, bare: bool) -> Response:
        page_rows, headers = self.paged(call, rows)
        repositories = [self.repository_json(call, row) for row in page_rows]
        content = repositories if bare else {"total_count": len(rows), "repositories": repositories}
        return Response(content, headers=headers)

    @handles("GET /repositories/{repository_id}")
    async def unknown_repository(self, _: Call) -> Response:
        raise Refusal(404, "Not Found")

    @handles(f"GET {REPO}")
    async def get_repository(self, call: Call) -> Response:
        return Response(self.repository_json(call, self.repository(call)))

    @handles(f"GET {REPO}/collaborators/{{username}}/permission")
    async def permission(self, call: Call) -> Response:
        repository = self.repository(call)
        login = call.values["username"]
        if login not in self.state.users:
            raise Refusal(404, f"{login} is not a user")
        role = repository.roles.get(login, "none" if repository.is_private else "read")
        legacy = shapes.LEGACY[role]
        user = shapes.user(self.url, self.state.users[login])
        return Response({"permission": legacy, "role_name": role, "user": user})

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
        page_rows, headers = self.paged(call, rows if is_rising else rows[::-1])
        return Response([self.pull_json(repository, row) for row in page_rows], headers=headers)

    @handles(f"POST {REPO}/pulls")
    async def new_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        owner, _, branch = call.body["head"].rpartition(":")
        if self.unknown_heads:
            self.unknown_heads -= 1
            raise _invalid("PullRequest", field="head", code="invalid")
        if (owner or repository.owner) != repository.owner or not self.has_branch(
            repository, branch
        ):
            raise _invalid("PullRequest", field="head", code="invalid")
        if not self.has_branch(repository, call.body["base"]):
            raise _invalid("PullRequest", field="base", code="invalid")
        if any(row.state == "open" for row in repository.pull_of_branch(branch)):
            message = f"A pull request already exists for {repository.owner}:{branch}."
            raise _invalid("PullRequest", code="custom", message=message)
        if not call.body.get("title"):
            raise _invalid("PullRequest", field="title", code="missing_field")
        text = call.body.get("body", "")
        if len(text) > 65_536:
            message = "body is too long (maximum is 65536 characters)"
            raise _invalid("PullRequest", field="body", code="custom", message=message)
        row = self.state.add_pull(
            repository,
            call.body["title"],
            branch,
            text=text,
            base=call.body["base"],
            is_draft=call.body.get("draft", False),
            author=self.login(call),
        )
        return Response(shapes.full_pull(self.pull_json(repository, row), row), 201)

    @handles(f"GET {PULL}")
    async def get_pull(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.pull(repository, call)
        return Response(shapes.full_pull(self.pull_json(repository, row), row))

    @handles(f"PATCH {PULL}")
    async def change_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        row.title = call.body.get("title", row.title)
        row.text = call.body.get("body", row.text)
        row.state = call.body.get("state", row.state)
        return Response(shapes.full_pull(self.pull_json(repository, row), row))

    @handles(f"PUT {PULL}/merge")
    async def merge_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        head = self.git.head(repository, row.head) or ""
        if row.is_draft:
            raise Refusal(405, "Pull Request is still a draft")
        if call.body.get("sha", head) != head:
            raise Refusal(409, "Head branch was modified. Review and try the merge again.")
        if repository.merge_refusal:
            raise Refusal(405, repository.merge_refusal)
        method = call.body.get("merge_method", "merge")
        if row.state != "open" or not self.git.merge(repository, row.base, row.head, method):
            raise Refusal(405, "Pull Request is not mergeable")
        row.state, row.is_merged, row.head_commit = "closed", True, head
        commit = self.git.head(repository, row.base)
        message = "Pull Request successfully merged"
        return Response({"sha": commit, "merged": True, "message": message})

    @handles(f"POST {PULL}/requested_reviewers")
    async def request_reviews(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        people = call.body.get("reviewers", [])
        teams = call.body.get("team_reviewers", [])
        if row.author in people:
            raise Refusal(422, "Review cannot be requested from pull request author.")
        outsiders = [name for name in people if name not in repository.roles]
        token = self.app_token(call)
        if teams and token is not None and not token.allows("members", "read"):
            node = "Could not resolve to a node with the global id of 'T_kwDOAB'"
            raise Refusal(422, "Validation Failed", errors=[node])
        outsiders += [
            team for team in teams if f"{repository.owner}/{team}" not in self.state.teams
        ]
        if outsiders:
            message = (
                "Reviews may only be requested from collaborators. One or more of the users or"
            )
            message += " teams you specified is not a collaborator of the"
            raise Refusal(422, f"{message} {repository.full_name} repository.")
        row.reviewers += people
        row.team_reviewers += teams
        return Response(self.pull_json(repository, row), 201)

    @handles(f"GET {PULL}/reviews")
    async def reviews(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.pull(repository, call)
        own = self.login(call)
        visible = [
            review for review in row.reviews if not review.is_pending or review.author == own
        ]
        page_rows, headers = self.paged(call, visible)
        body = [
            shapes.review(self.url, repository, row.number, review, self.state.user(review.author))
            for review in page_rows
        ]
        return Response(body, headers=headers)

    @handles(f"GET {PULL}/comments")
    async def line_comments(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.pull(repository, call)
        is_falling = "sort" in call.query and call.query.get("direction") == "desc"
        page_rows, headers = self.paged(call, row.lines[::-1] if is_falling else row.lines)
        body = [
            shapes.line_comment(self.url, repository, row, line, self.state.user(line.author))
            for line in page_rows
        ]
        return Response(body, headers=headers)

    # Issues, including pull requests

    @handles(f"GET {ISSUE}")
    async def get_issue(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        author = self.state.user(row.author)
        return Response(shapes.issue(self.url, repository, row, author))

    @handles(f"GET {ISSUE}/comments")
    async def comments(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        page_rows, headers = self.paged(call, row.comments)
        body = [
            shapes.comment(
                self.url, repository, row.number, comment, self.state.user(comment.author)
            )
            for comment in page_rows
        ]
        return Response(body, headers=headers)

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
                raise _invalid("Label", field="name", code="invalid", value=name)
            # GitHub creates missing labels.
            repository.labels += [] if name in repository.labels else [name]
            row.labels += [] if name in row.labels else [name]
        return Response([{"id": 1, "name": name, "color": "ededed"} for name in row.labels])


def _matches_head(call: Call, repository: RepositoryRow, row: PullRow) -> bool:
    state = "closed" if row.is_merged else row.state
    if call.query.get("state", "open") not in (state, "all"):
        return False
    # The format is `owner:branch`; a branch alone filters nothing.
    owner, _, branch = call.query.get("head", "").rpartition(":")
    head_owner = row.fork_owner or repository.owner
    if owner and (owner.casefold(), branch) != (head_owner.casefold(), row.head):
        return False
    return call.query.get("base", row.base) == row.base


def _invalid(resource: str, **fault: str) -> Refusal:
    return Refusal(422, "Validation Failed", errors=[{"resource": resource, **fault}])
