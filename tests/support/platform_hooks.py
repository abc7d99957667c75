"""Webhooks as GitHub, GitLab and Gitea send them: headers, body, signature."""

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.forge_servers.state import RepositoryRow

_COMMIT = "5e2c7fd1" * 5
_MOVED = {"ref": "refs/heads/main", "before": "0" * 40, "after": _COMMIT}


@dataclass(frozen=True)
class Delivery:
    headers: Mapping[str, str]
    body: bytes


def delivery(
    platform: str, secret: str, event: str, repository: RepositoryRow, number: int
) -> Delivery:
    """`event` is push, pull, comment, review or repository. Each call returns a new delivery."""
    signed = _MAKERS[platform](secret, event, repository, number)
    return Delivery({"Content-Type": "application/json", **signed.headers}, signed.body)


def _github(secret: str, event: str, repository: RepositoryRow, number: int) -> Delivery:
    name, more = {
        "push": ("push", _MOVED),
        "pull": ("pull_request", {"action": "edited", "number": number, **_pull(number)}),
        "comment": (
            "issue_comment",
            {
                "action": "created",
                "issue": {"number": number, "pull_request": {"url": "https://…"}},
            },
        ),
        "review": ("pull_request_review", {"action": "submitted", **_pull(number)}),
        "repository": ("repository", {"action": "edited"}),
    }[event]
    body = _encode({**more, "repository": _repository(repository), "sender": {"login": "ada"}})
    headers = {
        "X-GitHub-Event": name,
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": f"sha256={_signature(secret, body)}",
    }
    return Delivery(headers, body)


def _gitlab(secret: str, event: str, repository: RepositoryRow, number: int) -> Delivery:
    # GitLab sends reviews as notes.
    event = "comment" if event == "review" else event
    name, more = {
        "push": ("Push Hook", {"object_kind": "push", **_MOVED}),
        "pull": (
            "Merge Request Hook",
            {"object_kind": "merge_request", "object_attributes": {"iid": number, "id": 9}},
        ),
        "comment": (
            "Note Hook",
            {
                "object_kind": "note",
                "object_attributes": {"id": 9, "noteable_type": "MergeRequest"},
                "merge_request": {"iid": number, "id": 9},
            },
        ),
        "repository": ("System Hook", {"event_name": "project_update"}),
    }[event]
    project = {"id": repository.id, "path_with_namespace": repository.full_name}
    body = _encode({**more, "project_id": repository.id, "project": project})
    headers = {
        "X-Gitlab-Event": name,
        "X-Gitlab-Token": secret,
        "X-Gitlab-Event-UUID": str(uuid.uuid4()),
        "Idempotency-Key": str(uuid.uuid4()),
    }
    return Delivery(headers, body)


def _gitea(secret: str, event: str, repository: RepositoryRow, number: int) -> Delivery:
    name, more = {
        "push": ("push", _MOVED),
        "pull": ("pull_request", {"action": "edited", "number": number, **_pull(number)}),
        "comment": (
            "issue_comment",
            {"action": "created", "is_pull": True, "issue": {"number": number}},
        ),
        "review": ("pull_request_comment", {"action": "reviewed", **_pull(number)}),
        "repository": ("repository", {"action": "created"}),
    }[event]
    body = _encode({**more, "repository": _repository(repository), "sender": {"login": "ada"}})
    signature = _signature(secret, body)
    headers = {
        "X-Gitea-Event": name,
        "X-Gitea-Delivery": str(uuid.uuid4()),
        "X-Gitea-Signature": signature,
        "X-Hub-Signature-256": f"sha256={signature}",
    }
    return Delivery(headers, body)


_MAKERS: Mapping[str, Callable[[str, str, RepositoryRow, int], Delivery]] = {
    "github": _github,
    "gitlab": _gitlab,
    "gitea": _gitea,
}


def _pull(number: int) -> dict[str, Any]:
    return {"pull_request": {"id": 9, "number": number, "state": "open"}}


def _repository(row: RepositoryRow) -> dict[str, Any]:
    return {"id": row.id, "full_name": row.full_name, "private": row.is_private}


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _signature(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
