"""GitLab's responses, with the fields of its description."""

import re
from collections.abc import Mapping
from typing import Any

from tests.support.forge_servers.state import (
    CommentRow,
    IssueRow,
    LineRow,
    PullRow,
    RepositoryRow,
    Role,
    User,
)

LEVELS: Mapping[Role, int] = {
    "none": 0,
    "read": 20,
    "triage": 20,
    "write": 30,
    "maintain": 40,
    "admin": 50,
}
_DRAFT = re.compile(r"\s*(\[draft\]|\(draft\)|draft:)\s*", re.IGNORECASE)
_MOMENT = "2026-01-02T03:04:05.678Z"


def split_draft_mark(title: str) -> tuple[str, bool]:
    """The title without its draft mark, and whether it had one."""
    mark = _DRAFT.match(title)
    return (title, False) if mark is None else (title[mark.end() :], True)


def user(url: str, row: User) -> dict[str, Any]:
    return {
        "id": row.id,
        "username": row.login,
        "name": row.login.title(),
        "state": "active",
        "locked": False,
        "avatar_url": None,
        "web_url": f"{url}/{row.login}",
    }


def project(url: str, row: RepositoryRow, level: int | None) -> dict[str, Any]:
    """`level` is None if access comes from a source that GitLab does not return here."""
    access = None if level is None else {"access_level": level, "notification_level": 3}
    return {
        "id": row.id,
        "name": row.name,
        "path": row.name,
        "path_with_namespace": row.full_name,
        # Also for an empty repository: the branch of a first commit.
        "default_branch": row.default_branch,
        "visibility": "private" if row.is_private else "public",
        "archived": row.is_archived,
        "empty_repo": row.is_empty,
        "web_url": f"{url}/{row.full_name}",
        "http_url_to_repo": f"{url}/{row.full_name}.git",
        "permissions": {"project_access": access, "group_access": None},
    }


def member(url: str, row: User, level: int) -> dict[str, Any]:
    body = user(url, row)
    fields = {name: body[name] for name in ("id", "username", "name", "state", "web_url")}
    more = {"access_level": level, "created_at": _MOMENT, "expires_at": None}
    return {**fields, **more, "membership_state": "active"}


def merge_request(
    url: str,
    repository: RepositoryRow,
    row: PullRow,
    commit: str,
    people: Mapping[str, User],
    source_id: int,
) -> dict[str, Any]:
    users = {login: user(url, person) for login, person in people.items()}
    state = {"open": "opened", "closed": "closed"}[row.state]
    return {
        "id": 100_000 + row.number,
        "iid": row.number,
        "project_id": repository.id,
        "title": f"Draft: {row.title}" if row.is_draft else row.title,
        "description": row.text,
        "state": "merged" if row.is_merged else state,
        "draft": row.is_draft,
        "work_in_progress": row.is_draft,
        "source_branch": row.head,
        "target_branch": row.base,
        "source_project_id": source_id,
        "target_project_id": repository.id,
        "sha": commit or None,
        "labels": sorted(row.labels),
        "author": users[row.author],
        "reviewers": [users[login] for login in row.reviewers],
        "web_url": f"{url}/{repository.full_name}/-/merge_requests/{row.number}",
    }


def issue(url: str, repository: RepositoryRow, row: IssueRow, author: User) -> dict[str, Any]:
    return {
        "id": 200_000 + row.number,
        "iid": row.number,
        "project_id": repository.id,
        "title": row.title,
        "description": row.text or None,
        "state": "opened" if row.state == "open" else "closed",
        "labels": row.labels,
        "author": user(url, author),
        "web_url": f"{url}/{repository.full_name}/-/issues/{row.number}",
    }


def note(url: str, row: IssueRow, comment: CommentRow, author: User) -> dict[str, Any]:
    body = {
        "id": comment.id,
        "type": "DiffNote" if isinstance(comment, LineRow) else None,
        "body": comment.text,
        "author": user(url, author),
        "created_at": _MOMENT,
        "updated_at": _MOMENT,
        "system": comment.is_system,
        "noteable_iid": row.number,
        "noteable_type": "MergeRequest" if isinstance(row, PullRow) else "Issue",
        "internal": False,
        "confidential": False,
    }
    return {**body, "position": _position(comment)} if isinstance(comment, LineRow) else body


def _position(row: LineRow) -> dict[str, Any]:
    commits = dict.fromkeys(("base_sha", "start_sha", "head_sha"), "5e2c7fd1" * 5)
    paths = {"position_type": "text", "new_path": row.path, "old_path": row.path}
    return {**commits, **paths, "new_line": row.line, "old_line": row.old_line}
