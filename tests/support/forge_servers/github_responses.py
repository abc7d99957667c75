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
        "name": row.name or None,
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
        # GitHub returns a default branch even if nothing was pushed yet; `size` is 0 then.
        "default_branch": row.default_branch,
        "size": 0 if row.is_empty else 42,
        "pushed_at": row.pushed_at,
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


def full_pull(body: dict[str, Any], row: PullRow) -> dict[str, Any]:
    """As returned for a single pull request."""
    more = {"merged": row.is_merged, "comments": len(row.comments), "commits": 1}
    return {**body, **more}


def issue(url: str, repo: RepositoryRow, row: IssueRow, author: User) -> dict[str, Any]:
    repository_url = f"{url}/{repo.full_name}"
    kind = "pull" if isinstance(row, PullRow) else "issues"
    body = {
        "id": repo.id * 1_000 + row.number,
        "number": row.number,
        "title": row.title,
        # An empty description is null.
        "body": row.text or None,
        "state": row.state,
        "html_url": f"{repository_url}/{kind}/{row.number}",
        "user": user(url, author),
        "labels": [{"id": 1, "name": name, "color": "ededed"} for name in row.labels],
        "comments": len(row.comments),
        "created_at": _DAY,
        "updated_at": _DAY,
    }
    if isinstance(row, PullRow):
        body["pull_request"] = {"html_url": f"{repository_url}/pull/{row.number}"}
    return body


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
    body = {
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
    return body if row.is_pending else {**body, "submitted_at": row.written_at}


def line_comment(
    url: str, repo: RepositoryRow, pull_row: PullRow, row: LineRow, author: User
) -> dict[str, Any]:
    """A line that no longer exists has no number, as the description requires."""
    api = f"{url}/api/v3/repos/{repo.full_name}/pulls"
    line = row.old_line if row.line is None else row.line
    body = {
        "url": f"{api}/comments/{row.id}",
        "pull_request_review_id": next(
            review.id for review in pull_row.reviews if row in review.lines
        ),
        "id": row.id,
        "node_id": f"PRRC_{row.id}",
        "diff_hunk": "@@ -1 +1 @@",
        "path": row.path,
        "commit_id": "5e2c7fd1" * 5,
        "original_commit_id": "5e2c7fd1" * 5,
        "user": user(url, author),
        "body": row.text,
        # The time of creation, even if it was submitted later.
        "created_at": _DAY,
        "updated_at": row.written_at,
        "html_url": f"{url}/{repo.full_name}/pull/{pull_row.number}#discussion_r{row.id}",
        "pull_request_url": f"{api}/{pull_row.number}",
        "author_association": "MEMBER",
        "side": "RIGHT" if row.old_line is None else "LEFT",
    }
    return body if line is None else {**body, "line": line}


def git_commit(
    url: str, repo: RepositoryRow, sha: str, body: dict[str, Any], reason: str
) -> dict[str, Any]:
    """A commit object, as it was just made."""
    page = f"{url}/{repo.full_name}"
    person = {"name": "GitHub", "email": "noreply@github.com", "date": _DAY}
    parents = [{"sha": name, "url": page, "html_url": page} for name in body["parents"]]
    is_signed = reason == "valid"
    verification = {
        "verified": is_signed,
        "reason": reason,
        "signature": "-----BEGIN …" if is_signed else None,
        "payload": "tree …" if is_signed else None,
        "verified_at": _DAY if is_signed else None,
    }
    return {
        "sha": sha,
        "node_id": f"C_{sha}",
        "url": page,
        "html_url": f"{page}/commit/{sha}",
        "author": person,
        "committer": person,
        "message": body["message"],
        "tree": {"sha": body["tree"], "url": page},
        "parents": parents,
        "verification": verification,
    }
