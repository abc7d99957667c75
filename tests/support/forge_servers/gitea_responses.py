"""Gitea's responses for users, repositories, pull requests and comments: documented fields only."""

import re
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
_DRAFT_MARK = re.compile(r"wip:|\[wip\]", re.IGNORECASE)
# Gitea has fewer roles: each maps to the next lower one, `maintain` to `write`.
ACCESS: dict[Role, str] = {
    "none": "none",
    "read": "read",
    "triage": "read",
    "write": "write",
    "maintain": "write",
    "admin": "admin",
}


def user(url: str, row: User) -> dict[str, Any]:
    body = {"id": row.id, "login": row.login, "full_name": row.name, "is_admin": False}
    return {**body, "html_url": f"{url}/{row.login}"}


def repository(url: str, row: RepositoryRow, owner: User) -> dict[str, Any]:
    access = ACCESS[row.own_role]
    return {
        "id": row.id,
        "owner": user(url, owner),
        "name": row.name,
        "full_name": row.full_name,
        "private": row.is_private,
        "empty": row.is_empty,
        "archived": row.is_archived,
        # Present even if nothing was pushed yet.
        "default_branch": row.default_branch,
        "permissions": {
            "admin": access == "admin",
            "push": access in ("write", "admin"),
            "pull": access != "none",
        },
        "html_url": f"{url}/{row.full_name}",
        "created_at": _DAY,
        "updated_at": _DAY,
    }


def team(identifier: int, name: str, permission: str, units: dict[str, str]) -> dict[str, Any]:
    return {
        "id": identifier,
        "name": name,
        "includes_all_repositories": True,
        "permission": permission,
        # Gitea returns null if the team has no units of its own.
        "units_map": units or None,
    }


def pull(
    repo: RepositoryRow, row: PullRow, commit: str, people: dict[str, Any], labels: list[Any]
) -> dict[str, Any]:
    """`people` by their logins."""
    head_id = repo.id + 1_000_000 if row.fork_owner else repo.id
    return {
        "id": repo.id * 1_000 + row.number,
        "number": row.number,
        "title": row.title,
        "body": row.text,
        "state": "closed" if row.is_merged else row.state,
        "draft": _DRAFT_MARK.match(row.title) is not None,
        "merged": row.is_merged,
        "comments": len(row.comments),
        "user": people[row.author],
        "head": {"label": row.head, "ref": row.head, "sha": commit, "repo_id": head_id},
        "base": {"label": row.base, "ref": row.base, "repo_id": repo.id},
        "labels": labels,
        "requested_reviewers": [people[login] for login in row.reviewers],
        "requested_reviewers_teams": [{"id": 1, "name": name} for name in row.team_reviewers],
        "created_at": _DAY,
        "updated_at": _DAY,
    }


def issue(repo: RepositoryRow, row: IssueRow, author: Any, labels: list[Any]) -> dict[str, Any]:
    return {
        "id": repo.id * 1_000 + row.number,
        "number": row.number,
        "title": row.title,
        "body": row.text,
        "state": row.state,
        "user": author,
        "labels": labels,
        "repository": {"id": repo.id, "name": repo.name, "full_name": repo.full_name},
        "created_at": _DAY,
        "updated_at": _DAY,
    }


def comment(url: str, row: CommentRow, author: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "body": row.text,
        "user": author,
        "html_url": f"{url}#issuecomment-{row.id}",
        "created_at": row.written_at,
        "updated_at": row.written_at,
    }


def review(url: str, row: ReviewRow, author: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "user": author,
        "body": row.text,
        "state": "PENDING" if row.is_pending else "COMMENT",
        "comments_count": len(row.lines),
        "dismissed": False,
        "stale": False,
        "official": False,
        "commit_id": "5e2c7fd1" * 5,
        "html_url": "" if row.is_pending else f"{url}#pullrequestreview-{row.id}",
        "pull_request_url": url,
        # The time of creation; `updated_at` is the time of the last change.
        "submitted_at": row.written_at,
        "updated_at": row.written_at,
    }


def line_comment(url: str, review_row: ReviewRow, row: LineRow, author: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "body": row.text,
        "user": author,
        "pull_request_review_id": review_row.id,
        "path": row.path,
        "position": row.line or 0,
        "original_position": row.old_line or 0,
        "commit_id": "5e2c7fd1" * 5,
        "diff_hunk": "@@ -1 +1 @@",
        "html_url": f"{url}#issuecomment-{row.id}",
        "pull_request_url": url,
        "created_at": row.written_at,
        "updated_at": row.written_at,
    }
