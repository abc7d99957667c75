"""Gitea's API v1, as far as a connection uses it, validated by Gitea's own description."""

from tests.support.forge_servers import gitea_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.gitea_base import ISSUE, PULL, REPO
from tests.support.forge_servers.gitea_hooks import GiteaHookOperations
from tests.support.forge_servers.state import PullRow, RepositoryRow, StatusRow


class GiteaServer(GiteaHookOperations):
    """Gitea's operations; see the base for what tests can change."""

    # The account and its repositories

    @handles("GET /user")
    async def own_user(self, _: Call) -> Response:
        # An account sees its own address even if it hides it from others.
        email = self.state.user(self.state.account).email
        return Response({**self.user_json(self.state.account), "email": email})

    @handles("GET /user/settings")
    async def own_settings(self, _: Call) -> Response:
        return Response({"hide_email": self.state.user(self.state.account).hides_email})

    @handles("GET /user/keys")
    async def keys(self, call: Call) -> Response:
        page_rows, headers = self.paginate(call, self.state.ssh_keys)
        return Response([{"id": 1, **key} for key in page_rows], headers=headers)

    @handles("POST /user/keys")
    async def new_key(self, call: Call) -> Response:
        if call.body["key"] in [known["key"] for known in self.state.ssh_keys]:
            raise Refusal(422, "Key content has been used as non-deploy key")
        key = {"title": call.body["title"], "key": call.body["key"]}
        self.state.ssh_keys.append(key)
        return Response({"id": 1, **key}, 201)

    @handles("GET /users/{username}")
    async def other_user(self, call: Call) -> Response:
        if call.values["username"] not in self.state.users:
            raise Refusal(404, f"user redirect does not exist [name: {call.values['username']}]")
        row = self.state.user(call.values["username"])
        email = f"{row.login}@noreply.localhost" if row.hides_email else row.email
        return Response({**self.user_json(row.login), "email": email})

    @handles("GET /user/repos")
    async def own_repositories(self, call: Call) -> Response:
        rows = [
            repository
            for repository in self.state.repositories.values()
            if repository.own_role != "none"
        ]
        page_rows, headers = self.paginate(call, rows)
        return Response([self.repository_json(row) for row in page_rows], headers=headers)

    @handles("GET /repositories/{id}")
    async def repository_by_id(self, call: Call) -> Response:
        row = self.state.repositories.get(int(call.values["id"]))
        if row is None or row.own_role == "none":
            raise Refusal(404, "not found")
        return Response(self.repository_json(row))

    @handles(f"GET {REPO}")
    async def get_repository(self, call: Call) -> Response:
        return Response(self.repository_json(self.repository(call)))

    @handles(f"GET {REPO}/collaborators/{{collaborator}}/permission")
    async def permission(self, call: Call) -> Response:
        row = self.repository(call)
        login = call.values["collaborator"]
        if row.own_role != "admin" and login != self.state.account:
            raise Refusal(403, "Only admins can query all permissions")
        if login not in self.state.users:
            raise Refusal(404, f"user does not exist [uid: 0, name: {login}]")
        role = row.roles.get(login, "none" if row.is_private else "read")
        access = shapes.ACCESS[role]
        permission = {"permission": access, "role_name": access}
        return Response({**permission, "user": self.user_json(login)})

    @handles(f"GET {REPO}/teams")
    async def teams_of_repository(self, call: Call) -> Response:
        owner = self.repository(call).owner
        teams = [team for team in self.teams if team.owner == owner]
        if not teams:
            raise Refusal(405, "repo is not owned by an organization")
        return Response([self.team_json(team) for team in teams])

    @handles("GET /teams/{id}")
    async def get_team(self, call: Call) -> Response:
        return Response(self.team_json(self.visible_team(call)))

    @handles("GET /teams/{id}/members/{username}")
    async def team_member(self, call: Call) -> Response:
        team = self.visible_team(call)
        if call.values["username"] not in team.members:
            raise Refusal(404, "The target couldn't be found.")
        return Response(self.user_json(call.values["username"]))

    @handles(f"GET {REPO}/git/refs/{{ref}}")
    async def references(self, call: Call) -> Response:
        repository = self.repository(call)
        kind, _, rest = call.values["ref"].partition("/")
        number, _, end = rest.partition("/")
        row = repository.pulls.get(int(number)) if (kind, end) == ("pull", "head") else None
        if row is None:
            raise Refusal(404, "not found")
        commit = row.head_commit or self.git.head(repository, row.head)
        name = f"refs/{call.values['ref']}"
        return Response([{"ref": name, "object": {"sha": commit, "type": "commit"}}])

    # Pull requests

    @handles(f"GET {REPO}/pulls")
    async def pulls(self, call: Call) -> Response:
        repository = self.repository(call)
        pulls = [self.pull_json(repository, row) for row in repository.pulls.values()]
        state = call.query.get("state", "open")
        page_rows, headers = self.paginate(
            call, [pull for pull in reversed(pulls) if state in ("all", pull["state"])]
        )
        return Response(page_rows, headers=headers)

    @handles(f"GET {REPO}/pulls/{{base}}/{{head}}")
    async def pull_of_branches(self, call: Call) -> Response:
        """The oldest of several, which is likely not the one the client expects."""
        repository = self.repository(call)
        for row in repository.pulls.values():
            prefix = f"{row.fork_owner}:" if row.fork_owner else ""
            if (row.base, f"{prefix}{row.head}") == (call.values["base"], call.values["head"]):
                return Response(self.pull_json(repository, row))
        raise Refusal(404, "not found")

    @handles(f"POST {REPO}/pulls")
    async def new_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        title, head, base = (call.body.get(name, "") for name in ("title", "head", "base"))
        if not title.strip():
            raise Refusal(422, "[Title]: Required")
        if not all(self.git.head(repository, branch) for branch in (head, base)):
            raise Refusal(404, "The target couldn't be found.")
        for row in repository.pull_of_branch(head):
            if row.state == "open" and row.base == base and not self.is_racing:
                message = f"pull request already exists for these targets [issue_id: {row.number}]"
                raise Refusal(409, message)
        row = self.state.add_pull(
            repository,
            title[:255],
            head,
            base=base,
            text=call.body.get("body", ""),
            author=self.state.account,
        )
        return Response(self.pull_json(repository, row), 201)

    @handles(f"GET {PULL}")
    async def get_pull(self, call: Call) -> Response:
        repository = self.repository(call)
        return Response(self.pull_json(repository, self.pull(repository, call)))

    @handles(f"PATCH {PULL}")
    async def change_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        row.title = call.body.get("title") or row.title
        row.state = call.body.get("state") or row.state
        return Response(self.pull_json(repository, row), 201)

    @handles(f"POST {PULL}/merge")
    async def merge_pull(self, call: Call) -> Response:
        """Gitea names a method that the repository does not allow, but neither the files in
        conflict nor that they are the reason."""
        repository = self.writable(call)
        row = self.pull(repository, call)
        head = self.git.head(repository, row.head) or ""
        if row.is_merged:
            raise Refusal(405, "")
        if row.state != "open":
            raise Refusal(404, "The target couldn't be found.")
        if self.pull_json(repository, row)["draft"]:
            raise Refusal(405, "Work in progress PRs cannot be merged")
        if repository.merge_refusal:
            raise Refusal(405, repository.merge_refusal)
        if repository.unchecked_merges:
            repository.unchecked_merges -= 1
            raise Refusal(405, "Please try again later")
        if call.body.get("head_commit_id", head) != head:
            raise Refusal(409, "head out of date")
        if not self.git.merge(repository, row.base, row.head, call.body["Do"]):
            raise Refusal(405, "Please try again later")
        row.state, row.is_merged, row.head_commit = "closed", True, head
        return Response(None)

    @handles(f"POST {PULL}/requested_reviewers")
    async def request_review(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        people, teams = call.body.get("reviewers", []), call.body.get("team_reviewers", [])
        for login in people:
            self._refuse_reviewer(repository, row, login)
        # A user's repository has no teams, and Gitea does not report that.
        labels = (
            teams
            if repository.owner in {team.partition("/")[0] for team in self.state.teams}
            else []
        )
        for team in labels:
            if f"{repository.owner}/{team}" not in self.state.teams:
                raise Refusal(404, f"team doesn't exist: {team}")
        row.reviewers += [login for login in people if login not in row.reviewers]
        row.team_reviewers += [team for team in labels if team not in row.team_reviewers]
        return Response([{"id": 1, "state": "REQUEST_REVIEW"} for _ in (*people, *labels)], 201)

    def _refuse_reviewer(self, repository: RepositoryRow, row: PullRow, login: str) -> None:
        if login not in self.state.users:
            raise Refusal(404, f"user doesn't exist: {login}")
        if login == row.author:
            raise Refusal(422, "poster of pr can't be reviewer")
        if repository.is_private and login not in repository.roles:
            raise Refusal(422, "Reviewer can't read")

    @handles(f"GET {PULL}/reviews")
    async def reviews(self, call: Call) -> Response:
        """Pending reviews of others are counted, but not listed."""
        repository = self.repository(call)
        row = self.pull(repository, call)
        page_rows, headers = self.paginate(call, row.reviews)
        own = self.state.account
        visible = [review for review in page_rows if not review.is_pending or review.author == own]
        url = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        body = [shapes.review(url, review, self.user_json(review.author)) for review in visible]
        return Response(body, headers=headers)

    @handles(f"GET {PULL}/reviews/{{id}}/comments")
    async def review_comments(self, call: Call) -> Response:
        """All comments: this list has no pages."""
        repository = self.repository(call)
        row = self.pull(repository, call)
        url = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        for review in row.reviews:
            if str(review.id) == call.values["id"]:
                body = [
                    shapes.line_comment(url, review, line, self.user_json(line.author))
                    for line in review.lines
                ]
                return Response(body)
        raise Refusal(404, "review does not exist")

    @handles(f"POST {REPO}/statuses/{{sha}}")
    async def new_status(self, call: Call) -> Response:
        repository = self.writable(call)
        body, commit = call.body, call.values["sha"]
        if not self.git.has_commit(repository, commit):
            raise Refusal(500, f"object does not exist [id: {commit}, rel_path: ]")
        fields = [body.get(name, "") for name in ("context", "state", "description", "target_url")]
        row = StatusRow(self.state.next_id(), commit, *fields)
        repository.statuses.append(row)
        status = {"id": row.id, "status": row.state, "context": row.name}
        more = {"description": row.description, "target_url": row.url}
        return Response({**status, **more, "creator": self.user_json(self.state.account)}, 201)

    # Labels

    @handles(f"GET {REPO}/labels")
    async def labels(self, call: Call) -> Response:
        repository = self.repository(call)
        names = [self.label_json(repository.full_name, name) for name in repository.labels]
        page_rows, headers = self.paginate(call, names)
        return Response(page_rows, headers=headers)

    @handles("GET /orgs/{org}/labels")
    async def labels_of_organization(self, call: Call) -> Response:
        owner = call.values["org"]
        if owner not in self.label_sets:
            raise Refusal(404, "not found")
        names = [self.label_json(owner, name) for name in self.label_sets[owner]]
        page_rows, headers = self.paginate(call, names)
        return Response(page_rows, headers=headers)

    @handles(f"POST {REPO}/labels")
    async def new_label(self, call: Call) -> Response:
        repository = self.writable(call)
        repository.labels.append(call.body["name"])
        return Response(self.label_json(repository.full_name, call.body["name"]), 201)

    @handles(f"POST {ISSUE}/labels")
    async def add_labels(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.issue(repository, call)
        names = self.labels_with(call.body["labels"])
        row.labels += [name for name in names if name not in row.labels]
        return Response(self.labels_json(repository, row))

    # Issues and comments

    @handles(f"GET {ISSUE}")
    async def get_issue(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        labels = self.labels_json(repository, row)
        return Response(shapes.issue(repository, row, self.user_json(row.author), labels))

    @handles(f"GET {ISSUE}/comments")
    async def comments(self, call: Call) -> Response:
        """All comments, or all since a time: this list has no pages."""
        repository = self.repository(call)
        row = self.issue(repository, call)
        url = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        # The times have one format, so they can be compared as text.
        page_rows = [
            comment for comment in row.comments if comment.written_at >= call.query.get("since", "")
        ]
        return Response(
            [shapes.comment(url, comment, self.user_json(comment.author)) for comment in page_rows]
        )

    @handles(f"GET {REPO}/issues/comments/{{id}}")
    async def get_comment(self, call: Call) -> Response:
        repository = self.repository(call)
        for row in (*repository.pulls.values(), *repository.issues.values()):
            for comment in row.comments:
                if str(comment.id) == call.values["id"]:
                    url = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
                    return Response(shapes.comment(url, comment, self.user_json(comment.author)))
        raise Refusal(404, "comment does not exist")

    @handles(f"POST {ISSUE}/comments")
    async def new_comment(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        comment = self.state.add_comment(row, self.state.account, call.body["body"])
        url = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        return Response(shapes.comment(url, comment, self.user_json(comment.author)), 201)
