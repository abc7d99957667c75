"""GitLab's REST API v4, as far as a connection uses it."""

from urllib.parse import urlencode

from tests.support.forge_servers import gitlab_responses as shapes
from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.gitlab_hooks import GitLabHookOperations
from tests.support.forge_servers.gitlab_statuses import GitLabStatuses
from tests.support.forge_servers.state import CommentRow, IssueRow, PullRow

_PROJECT = "/projects/{id}"
_REQUESTS = f"{_PROJECT}/merge_requests"
_REQUEST = f"{_REQUESTS}/{{merge_request_iid}}"
_ISSUE = f"{_PROJECT}/issues/{{issue_iid}}"


class GitLabServer(GitLabHookOperations, GitLabStatuses):
    """See the base for what tests can change."""

    # The account and other users

    @handles("GET /user")
    async def own_user(self, _: Call) -> Response:
        row = self.state.user(self.state.account)
        own = {"bot": row.is_bot, "commit_email": self.commit_email}
        return Response({**shapes.user(self.url, row), **own})

    @handles("GET /personal_access_tokens/self")
    async def own_token(self, _: Call) -> Response:
        if self.scopes is None:
            raise Refusal(404, "404 Not Found")
        body = {"id": 7, "name": "agent jobs", "revoked": False, "active": True}
        return Response({**body, "scopes": self.scopes, "expires_at": None})

    @handles("GET /user/keys")
    async def keys(self, call: Call) -> Response:
        page_rows, headers = self.paged(call, self.state.ssh_keys, usual=20)
        return Response([{"id": 1, **key} for key in page_rows], headers=headers)

    @handles("POST /user/keys")
    async def new_key(self, call: Call) -> Response:
        # GitLab adds the account's name and its own host as a comment.
        key = {**call.body, "key": f"{call.body['key']} Bot (gitlab.example.com)"}
        if key["key"] in [known["key"] for known in self.state.ssh_keys]:
            raise Refusal(400, "key", message={"key": ["has already been taken"]})
        self.state.ssh_keys.append(key)
        return Response({"id": 1, **key}, 201)

    @handles("GET /users")
    async def users(self, call: Call) -> Response:
        key = call.query["username"].casefold()
        users = [row for row in self.state.users.values() if row.login.casefold() == key]
        return Response([shapes.user(self.url, row) for row in users])

    @handles(f"GET {_PROJECT}/members/all/{{user_id}}")
    async def member(self, call: Call) -> Response:
        repository = self.project(call)
        row = self.state.user_by_id(int(call.values["user_id"]))
        if row is None:
            raise Refusal(404, "404 Not found")
        is_own = row.login == self.state.account
        role = repository.own_role if is_own else repository.roles.get(row.login, "none")
        if role == "none":
            raise Refusal(404, "404 Not found")
        return Response(shapes.member(self.url, row, shapes.LEVELS[role]))

    # Projects

    @handles("GET /projects")
    async def projects(self, call: Call) -> Response:
        min_level = int(call.query.get("min_access_level", 0))
        after = int(call.query.get("id_after", 0))
        rows = sorted(self.state.repositories.values(), key=lambda row: row.id)
        visible = [
            row
            for row in rows
            if row.id > after and shapes.LEVELS[row.own_role] >= max(min_level, 10)
        ]
        if call.query.get("pagination") != "keyset":
            page_rows, headers = self.paged(call, visible, 20)
            return Response([self.project_json(row) for row in page_rows], headers=headers)
        if call.query.get("order_by") != "id":
            message = "Keyset pagination is not yet available for this type of request"
            raise Refusal(405, message, error=message)
        size = call.page(20)[1]
        headers = {}
        if len(visible) > size:
            query = urlencode({**call.query, "id_after": visible[size - 1].id})
            headers = {"Link": f'<{self.link_origin or self.url}{call.path}?{query}>; rel="next"'}
        return Response([self.project_json(row) for row in visible[:size]], headers=headers)

    @handles(f"GET {_PROJECT}")
    async def get_project(self, call: Call) -> Response:
        return Response(self.project_json(self.project(call)))

    # Merge requests

    @handles(f"GET {_REQUESTS}")
    async def requests(self, call: Call) -> Response:
        repository = self.project(call)
        branch, base = call.query.get("source_branch"), call.query.get("target_branch")
        state = call.query.get("state", "all")
        rows = [
            self.request_json(repository, row)
            for row in repository.pulls.values()
            if branch in (None, row.head) and base in (None, row.base)
        ]
        matching = [row for row in rows if state in ("all", row["state"])]
        is_rising = call.query.get("sort", "desc") == "asc"
        page_rows, headers = self.paged(call, matching if is_rising else matching[::-1], 20)
        return Response(page_rows, headers=headers)

    @handles(f"POST {_REQUESTS}")
    async def new_request(self, call: Call) -> Response:
        repository = self.writable_project(call)
        branch = call.body["source_branch"]
        self.refuse_branches(repository, branch, call.body["target_branch"])
        row = self.state.add_pull(
            repository, "", branch, base=call.body["target_branch"], author=self.state.account
        )
        try:
            self.change(repository, row, call.body)
        except Refusal:
            del repository.pulls[row.number]
            raise
        return Response(self.request_json(repository, row), 201)

    @handles(f"GET {_REQUEST}")
    async def get_request(self, call: Call) -> Response:
        repository = self.project(call)
        return Response(self.request_json(repository, self.request_row(repository, call)))

    @handles(f"PUT {_REQUEST}")
    async def change_request(self, call: Call) -> Response:
        repository = self.writable_project(call)
        row = self.request_row(repository, call)
        self.change(repository, row, call.body)
        return Response(self.request_json(repository, row))

    @handles(f"PUT {_REQUEST}/merge")
    async def merge_request(self, call: Call) -> Response:
        repository = self.project(call)
        row = self.request_row(repository, call)
        if shapes.LEVELS[repository.own_role] < shapes.LEVELS["write"]:
            # Not 403: GitLab says the same as for a credential that it does not know.
            raise Refusal(401, "401 Unauthorized")
        status = self.merge_status(repository, row)
        if status == "checking":
            repository.unchecked_merges -= 1
            raise Refusal(422, "Branch cannot be merged")
        if status != "mergeable":
            raise Refusal(405, "405 Method Not Allowed")
        head = self.git.head(repository, row.head) or ""
        if call.body.get("sha", head) != head:
            raise Refusal(409, f"SHA does not match HEAD of source branch: {head}")
        method = "squash" if call.body.get("squash") else "merge"
        if not self.git.merge(repository, row.base, row.head, method):
            row.has_conflicts = True
            raise Refusal(405, "405 Method Not Allowed")
        row.state, row.is_merged, row.head_commit = "closed", True, head
        return Response(self.request_json(repository, row))

    # Issues and notes

    @handles(f"GET {_ISSUE}")
    async def get_issue(self, call: Call) -> Response:
        repository = self.project(call)
        row = self.issue_row(repository, call)
        return Response(shapes.issue(self.url, repository, row, self.state.user(row.author)))

    @handles(f"POST {_ISSUE}/notes")
    async def new_issue_note(self, call: Call) -> Response:
        return self._new_note(call, self.issue_row(self.project(call), call))

    @handles(f"POST {_REQUEST}/notes")
    async def new_request_note(self, call: Call) -> Response:
        return self._new_note(call, self.request_row(self.project(call), call))

    @handles(f"GET {_REQUEST}/notes")
    async def request_notes(self, call: Call) -> Response:
        return self._notes(call, self.request_row(self.project(call), call))

    @handles(f"GET {_ISSUE}/notes")
    async def issue_notes(self, call: Call) -> Response:
        return self._notes(call, self.issue_row(self.project(call), call))

    def _notes(self, call: Call, row: IssueRow) -> Response:
        activity = call.query.get("activity_filter", "all_notes")
        rows = [
            note for note in _notes_on(row) if not (note.is_system and activity == "only_comments")
        ]
        is_rising = call.query.get("sort", "desc") == "asc"
        page_rows, headers = self.paged(call, rows if is_rising else rows[::-1], 20)
        notes = [
            shapes.note(self.url, row, note, self.state.user(note.author)) for note in page_rows
        ]
        return Response(notes, headers=headers)

    def _new_note(self, call: Call, row: IssueRow) -> Response:
        self.run_quick_actions(call.body["body"])
        comment = self.state.add_comment(row, self.state.account, call.body["body"])
        author = self.state.user(comment.author)
        return Response(shapes.note(self.url, row, comment, author), 201)


def _notes_on(row: IssueRow) -> list[CommentRow]:
    """Comments, line comments and review summaries: all are notes once they are published."""
    if not isinstance(row, PullRow) or not row.reviews:
        return row.comments
    summaries = [review for review in row.reviews if review.text and not review.is_pending]
    return sorted([*row.comments, *row.lines, *summaries], key=lambda note: note.id)
