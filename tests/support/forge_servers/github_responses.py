"""GitHub's responses for users, repositories, pull requests and comments: documented fields."""

from typing import Any

from tests.support.forge_servers.state import (
    CommentRow,
    IssueRow,
    LineRow,
    PullRow,
    RepositoryRow,
    ReviewRow,
    Role,
    User,
)

_DAY = "2026-01-02T03:04:05Z"
# The five roles as the older field `permission` has them.
LEGACY: dict[Role, str] = {
    "none": "none",
    "read": "read",
    "triage": "read",
    "write": "write",
    "maintain": "write",
    "admin": "admin",
}
_RIGHTS: dict[Role, tuple[str, ...]] = {
    "none": (),
    "read": ("pull",),
    "triage": ("pull", "triage"),
    "write": ("pull", "triage", "push"),
    "maintain": ("pull", "triage", "push", "maintain"),
    "admin": ("pull", "triage", "push", "maintain", "admin"),
}


def user(url: str, row: User) -> dict[str, Any]:
    return {
        "login": row.login,
        "id": row.id,
        "node_id": f"U_{row.id}",
        "type": "Bot" if row.is_bot else "User",
        "site_admin": False,
        "html_url": f"{url}/{row.login}",
        "url": f"{url}/api/v3/users/{row.login}",
    }


def repository(url: str, row: RepositoryRow, owner: User, role: Role) -> dict[str, Any]:
    rights = ("admin", "maintain", "push", "triage", "pull")
    return {
        "id": row.id,
        "node_id": f"R_{row.id}",
        "name": row.name,
        "full_name": row.full_name,
        "owner": user(url, owner),
        "private": row.is_private,
        "html_url": f"{url}/{row.full_name}",
        "clone_url": f"{url}/{row.full_name}.git",
        "url": f"{url}/api/v3/repos/{row.full_name}",
        "fork": False,
        # GitHub names a default branch even where nothing was pushed yet; `size` is 0 then.
        "default_branch": row.default_branch,
        "size": 0 if row.is_empty else 42,
        "pushed_at": _DAY,
        "archived": row.is_archived,
        "disabled": False,
        "has_issues": row.has_issues,
        "permissions": {name: name in _RIGHTS[role] for name in rights},
    }


def pull(url: str, repo: RepositoryRow, row: PullRow, commit: str, author: User) -> dict[str, Any]:
    """As listed."""
    owner = {"login": repo.owner, "id": repo.id + 1, "type": "Organization"}
    whose = row.fork_owner or repo.owner
    head_id = repo.id + 1_000_000 if row.fork_owner else repo.id
    return {
        "id": repo.id * 1_000 + row.number,
        "number": row.number,
        "title": row.title,
        "body": row.text,
        "state": "closed" if row.is_merged else row.state,
        "draft": row.is_draft,
        "merged_at": _DAY if row.is_merged else None,
        "closed_at": _DAY if row.is_merged or row.state == "closed" else None,
        "html_url": f"{url}/{repo.full_name}/pull/{row.number}",
        "url": f"{url}/api/v3/repos/{repo.full_name}/pulls/{row.number}",
        "user": user(url, author),
        "head": {
            "label": f"{whose}:{row.head}",
            "ref": row.head,
            "sha": commit,
            "user": {**owner, "login": whose},
            "repo": {"id": head_id, "full_name": f"{whose}/{repo.name}", "name": repo.name},
        },
        "base": {"label": f"{repo.owner}:{row.base}", "ref": row.base, "user": owner},
        "labels": [{"id": 1, "name": name} for name in row.labels],
        "requested_reviewers": [{"login": name} for name in row.reviewers],
        "requested_teams": [{"slug": name} for name in row.team_reviewers],
        "created_at": _DAY,
        "updated_at": _DAY,
    }


def full_pull(shown: dict[str, Any], row: PullRow) -> dict[str, Any]:
    """As returned for a single pull request."""
    more = {"merged": row.is_merged, "comments": len(row.comments), "commits": 1}
    return {**shown, **more}


def issue(url: str, repo: RepositoryRow, row: IssueRow, author: User) -> dict[str, Any]:
    place = f"{url}/{repo.full_name}"
    kind = "pull" if isinstance(row, PullRow) else "issues"
    shown = {
        "id": repo.id * 1_000 + row.number,
        "number": row.number,
        "title": row.title,
        # Nothing was written into it: null, not an empty text.
        "body": row.text or None,
        "state": row.state,
        "html_url": f"{place}/{kind}/{row.number}",
        "user": user(url, author),
        "labels": [{"id": 1, "name": name, "color": "ededed"} for name in row.labels],
        "comments": len(row.comments),
        "created_at": _DAY,
        "updated_at": _DAY,
    }
    if isinstance(row, PullRow):
        shown["pull_request"] = {"html_url": f"{place}/pull/{row.number}"}
    return shown


def comment(
    url: str, repo: RepositoryRow, number: int, row: CommentRow, author: User
) -> dict[str, Any]:
    return {
        "id": row.id,
        "node_id": f"IC_{row.id}",
        "body": row.text,
        "user": user(url, author),
        "html_url": f"{url}/{repo.full_name}/pull/{number}#issuecomment-{row.id}",
        "issue_url": f"{url}/api/v3/repos/{repo.full_name}/issues/{number}",
        "author_association": "MEMBER",
        "created_at": _DAY,
        "updated_at": _DAY,
    }


def review(
    url: str, repo: RepositoryRow, number: int, row: ReviewRow, author: User
) -> dict[str, Any]:
    shown = {
        "id": row.id,
        "node_id": f"PRR_{row.id}",
        "user": user(url, author),
        "body": row.text,
        "state": "PENDING" if row.is_pending else "COMMENTED",
        "html_url": f"{url}/{repo.full_name}/pull/{number}#pullrequestreview-{row.id}",
        "pull_request_url": f"{url}/api/v3/repos/{repo.full_name}/pulls/{number}",
        "author_association": "MEMBER",
        "commit_id": "5e2c7fd1" * 5,
    }
    return shown if row.is_pending else {**shown, "submitted_at": row.written_at}


def line_comment(
    url: str, repo: RepositoryRow, pull_row: PullRow, row: LineRow, author: User
) -> dict[str, Any]:
    """Of a line that is not there any more the number is left out, as the description wants it."""
    api = f"{url}/api/v3/repos/{repo.full_name}/pulls"
    line = row.old_line if row.line is None else row.line
    shown = {
        "url": f"{api}/comments/{row.id}",
        "pull_request_review_id": next(one.id for one in pull_row.reviews if row in one.lines),
        "id": row.id,
        "node_id": f"PRRC_{row.id}",
        "diff_hunk": "@@ -1 +1 @@",
        "path": row.path,
        "commit_id": "5e2c7fd1" * 5,
        "original_commit_id": "5e2c7fd1" * 5,
        "user": user(url, author),
        "body": row.text,
        # When it was begun, however late it was sent.
        "created_at": _DAY,
        "updated_at": row.written_at,
        "html_url": f"{url}/{repo.full_name}/pull/{pull_row.number}#discussion_r{row.id}",
        "pull_request_url": f"{api}/{pull_row.number}",
        "author_association": "MEMBER",
        "side": "RIGHT" if row.old_line is None else "LEFT",
    }
    return shown if line is None else {**shown, "line": line}
