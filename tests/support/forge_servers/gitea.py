"""Gitea's API v1, as much of it as a connection uses, held to Gitea's own description."""

from tests.support.forge_servers import gitea_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.gitea_base import ISSUE, PULL, REPO, GiteaBase
from tests.support.forge_servers.state import PullRow, RepositoryRow


class GiteaServer(GiteaBase):
    """What it answers."""

    # Who is asking, and what there is

    @handles("GET /user")
    async def own_user(self, _: Call) -> Response:
        return Response(self.user_shown(self.state.account))

    @handles("GET /user/repos")
    async def own_repositories(self, call: Call) -> Response:
        rows = [one for one in self.state.repositories.values() if one.own_role != "none"]
        here, headers = self.listed(call, rows)
        return Response([self.shown(row) for row in here], headers=headers)

    @handles("GET /repositories/{id}")
    async def repository_by_id(self, call: Call) -> Response:
        row = self.state.repositories.get(int(call.values["id"]))
        if row is None or row.own_role == "none":
            raise Refusal(404, "not found")
        return Response(self.shown(row))

    @handles(f"GET {REPO}")
    async def one_repository(self, call: Call) -> Response:
        return Response(self.shown(self.repository(call)))

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
        told = {"permission": access, "role_name": access}
        return Response({**told, "user": self.user_shown(login)})

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
        shown = [self.pull_shown(repository, row) for row in repository.pulls.values()]
        state = call.query.get("state", "open")
        here, headers = self.listed(
            call, [one for one in reversed(shown) if state in ("all", one["state"])]
        )
        return Response(here, headers=headers)

    @handles(f"GET {REPO}/pulls/{{base}}/{{head}}")
    async def pull_of_branches(self, call: Call) -> Response:
        """Any one of several: the oldest, because that is likely not the one that is meant."""
        repository = self.repository(call)
        for row in repository.pulls.values():
            whose = f"{row.fork_owner}:" if row.fork_owner else ""
            if (row.base, f"{whose}{row.head}") == (call.values["base"], call.values["head"]):
                return Response(self.pull_shown(repository, row))
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
                words = f"pull request already exists for these targets [issue_id: {row.number}]"
                raise Refusal(409, words)
        made = self.state.add_pull(
            repository,
            title[:255],
            head,
            base=base,
            text=call.body.get("body", ""),
            author=self.state.account,
        )
        return Response(self.pull_shown(repository, made), 201)

    @handles(f"GET {PULL}")
    async def one_pull(self, call: Call) -> Response:
        repository = self.repository(call)
        return Response(self.pull_shown(repository, self.pull(repository, call)))

    @handles(f"PATCH {PULL}")
    async def change_pull(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        row.title = call.body.get("title") or row.title
        row.state = call.body.get("state") or row.state
        return Response(self.pull_shown(repository, row), 201)

    @handles(f"POST {PULL}/requested_reviewers")
    async def ask_for_review(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.pull(repository, call)
        people, teams = call.body.get("reviewers", []), call.body.get("team_reviewers", [])
        for login in people:
            self._refuse_reviewer(repository, row, login)
        # A person's repository has no teams, and nothing is said about it.
        known = (
            teams if repository.owner in {one.partition("/")[0] for one in self.state.teams} else []
        )
        for team in known:
            if f"{repository.owner}/{team}" not in self.state.teams:
                raise Refusal(404, f"team doesn't exist: {team}")
        row.reviewers += [login for login in people if login not in row.reviewers]
        row.team_reviewers += [team for team in known if team not in row.team_reviewers]
        return Response([{"id": 1, "state": "REQUEST_REVIEW"} for _ in (*people, *known)], 201)

    def _refuse_reviewer(self, repository: RepositoryRow, row: PullRow, login: str) -> None:
        if login not in self.state.users:
            raise Refusal(404, f"user doesn't exist: {login}")
        if login == row.author:
            raise Refusal(422, "poster of pr can't be reviewer")
        if repository.is_private and login not in repository.roles:
            raise Refusal(422, "Reviewer can't read")

    @handles(f"GET {PULL}/reviews")
    async def reviews(self, call: Call) -> Response:
        """Those that others only began are counted, and not shown."""
        repository = self.repository(call)
        row = self.pull(repository, call)
        here, headers = self.listed(call, row.reviews)
        own = self.state.account
        seen = [one for one in here if not one.is_pending or one.author == own]
        place = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        shown = [shapes.review(place, one, self.user_shown(one.author)) for one in seen]
        return Response(shown, headers=headers)

    @handles(f"GET {PULL}/reviews/{{id}}/comments")
    async def review_comments(self, call: Call) -> Response:
        """All of them: there are no pages here."""
        repository = self.repository(call)
        row = self.pull(repository, call)
        place = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        for one in row.reviews:
            if str(one.id) == call.values["id"]:
                shown = [
                    shapes.line_comment(place, one, line, self.user_shown(line.author))
                    for line in one.lines
                ]
                return Response(shown)
        raise Refusal(404, "review does not exist")

    # Labels

    @handles(f"GET {REPO}/labels")
    async def labels(self, call: Call) -> Response:
        repository = self.repository(call)
        names = [self.label_shown(repository.full_name, name) for name in repository.labels]
        here, headers = self.listed(call, names)
        return Response(here, headers=headers)

    @handles("GET /orgs/{org}/labels")
    async def labels_of_organization(self, call: Call) -> Response:
        owner = call.values["org"]
        if owner not in self.label_sets:
            raise Refusal(404, "not found")
        names = [self.label_shown(owner, name) for name in self.label_sets[owner]]
        here, headers = self.listed(call, names)
        return Response(here, headers=headers)

    @handles(f"POST {REPO}/labels")
    async def new_label(self, call: Call) -> Response:
        repository = self.writable(call)
        repository.labels.append(call.body["name"])
        return Response(self.label_shown(repository.full_name, call.body["name"]), 201)

    @handles(f"POST {ISSUE}/labels")
    async def add_labels(self, call: Call) -> Response:
        repository = self.writable(call)
        row = self.issue(repository, call)
        names = self.labels_with(call.body["labels"])
        row.labels += [name for name in names if name not in row.labels]
        return Response(self.labels_shown(repository, row))

    # Issues, and what is said about them and about pull requests

    @handles(f"GET {ISSUE}")
    async def one_issue(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        labels = self.labels_shown(repository, row)
        return Response(shapes.issue(repository, row, self.user_shown(row.author), labels))

    @handles(f"GET {ISSUE}/comments")
    async def comments(self, call: Call) -> Response:
        """All of them, or all since a time: there are no pages here."""
        repository = self.repository(call)
        row = self.issue(repository, call)
        place = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        # The times are all written alike, so their words compare as they do.
        here = [one for one in row.comments if one.written_at >= call.query.get("since", "")]
        return Response([shapes.comment(place, one, self.user_shown(one.author)) for one in here])

    @handles(f"GET {REPO}/issues/comments/{{id}}")
    async def one_comment(self, call: Call) -> Response:
        repository = self.repository(call)
        for row in (*repository.pulls.values(), *repository.issues.values()):
            for one in row.comments:
                if str(one.id) == call.values["id"]:
                    place = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
                    return Response(shapes.comment(place, one, self.user_shown(one.author)))
        raise Refusal(404, "comment does not exist")

    @handles(f"POST {ISSUE}/comments")
    async def new_comment(self, call: Call) -> Response:
        repository = self.repository(call)
        row = self.issue(repository, call)
        made = self.state.add_comment(row, self.state.account, call.body["body"])
        place = f"{self.own_address}/{repository.full_name}/pulls/{row.number}"
        return Response(shapes.comment(place, made, self.user_shown(made.author)), 201)
