"""Webhooks that platforms send: verifying their signature and parsing what they name.

Pure functions for untrusted bodies: none of them raises. An event only names what to sync; its
state is always read from the platform.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

HookEventKind = Literal["push", "pull", "comment", "repository"]

_MAX_ID = 2**63 - 1
_DELIVERY_ID = re.compile(r"[\x21-\x7e]{1,200}")
_DELIVERY_HEADERS: Mapping[str, tuple[str, ...]] = {
    "github": ("x-github-delivery",),
    "gitlab": ("idempotency-key", "webhook-id"),
    "gitea": ("x-gitea-delivery", "x-forgejo-delivery", "x-github-delivery"),
}
_SIGNATURE_HEADERS: Mapping[str, tuple[str, ...]] = {
    "github": ("x-hub-signature-256",),
    "gitea": ("x-gitea-signature", "x-forgejo-signature", "x-hub-signature-256"),
}
_GITHUB_COMMENTS = ("issue_comment", "pull_request_review", "pull_request_review_comment")
_GITEA_EVENTS = ("x-gitea-event", "x-forgejo-event", "x-github-event")


class HookEvent(msgspec.Struct, frozen=True):
    """`external_id` is the repository, None for all of them; `number` is the pull request."""

    kind: HookEventKind
    external_id: str | None = None
    number: int | None = None


class _AnyObject(msgspec.Struct, frozen=True):
    """The event alone matters, not its fields."""


class _Part(msgspec.Struct, frozen=True):
    """The fields of any object of a payload that matter."""

    id: int | None = None
    number: int | None = None
    iid: int | None = None
    pull_request: _AnyObject | None = None


class _Payload(msgspec.Struct, frozen=True):
    action: str | None = None
    event_name: str | None = None
    object_kind: str | None = None
    ref: str | None = None
    number: int | None = None
    is_pull: bool | None = None
    project_id: int | None = None
    repository: _Part | None = None
    project: _Part | None = None
    issue: _Part | None = None
    pull_request: _Part | None = None
    merge_request: _Part | None = None
    object_attributes: _Part | None = None


_decode = msgspec.json.Decoder(_Payload).decode


def is_signed(platform: str, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the sender knows the secret; the names of `headers` are in lower case."""
    if not secret:
        return False
    if platform == "gitlab":
        return _equal(headers.get("x-gitlab-token", ""), secret)
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return any(
        _equal(headers[name].removeprefix("sha256="), expected)
        for name in _SIGNATURE_HEADERS.get(platform, ())
        if name in headers
    )


def lacks_signature(platform: str, secret: str, headers: Mapping[str, str]) -> bool:
    """Whether the request is refused whatever its body is, so the body need not be read."""
    if platform == "gitlab":
        return not is_signed(platform, secret, headers, b"")
    return not any(name in headers for name in _SIGNATURE_HEADERS.get(platform, ()))


def read_delivery_id(platform: str, headers: Mapping[str, str], body: bytes) -> str:
    """The platform's ID of this delivery, or a hash."""
    for name in _DELIVERY_HEADERS.get(platform, ()):
        if _DELIVERY_ID.fullmatch(headers.get(name, "")):
            return headers[name]
    # All that GitLab had before 17.4: events which the same request causes have the same one.
    request_id = headers.get("x-gitlab-event-uuid", "").encode(errors="replace")
    return f"sha256:{hashlib.sha256(request_id + body).hexdigest()}"


def parse_event(platform: str, headers: Mapping[str, str], body: bytes) -> HookEvent | None:
    """None if the event is irrelevant or invalid."""
    try:
        return _event_in(platform, headers, _decode(body))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _event_in(platform: str, headers: Mapping[str, str], payload: _Payload) -> HookEvent | None:
    match platform:
        case "github":
            return _github_event(headers.get("x-github-event", ""), payload)
        case "gitlab":
            return _gitlab_event(headers.get("x-gitlab-event", ""), payload)
        case "gitea":
            events = (headers[name] for name in _GITEA_EVENTS if name in headers)
            return _gitea_event(next(events, ""), payload)
    return None


def _github_event(event: str, payload: _Payload) -> HookEvent | None:
    repository = payload.repository
    if event == "push":
        return _push(repository, payload)
    if event == "repository":
        return _event("repository", repository)
    if event == "installation":
        # Suspended, restored or granted other permissions: this affects all repositories.
        return HookEvent("repository")
    if event in _GITHUB_COMMENTS:
        is_on_pull = event != "issue_comment" or _is_pull(payload)
        return _new_comment(repository, payload, is_on_pull=is_on_pull)
    return _event("pull", repository, _number_in(payload)) if event == "pull_request" else None


def _gitlab_event(event: str, payload: _Payload) -> HookEvent | None:
    project = _Part(id=payload.project_id) if payload.project is None else payload.project
    # A system hook has the event's name in its body.
    match event, payload.event_name or payload.object_kind:
        case ("Push Hook", _) | ("System Hook", "push"):
            return _push(project, payload)
        case ("Merge Request Hook", _) | ("System Hook", "merge_request"):
            attributes = payload.object_attributes or _Part()
            return _event("pull", project, attributes.iid)
        case "Note Hook", _:
            request = payload.merge_request or _Part()
            return _event("comment", project, request.iid)
        case (
            "System Hook",
            "project_rename" | "project_destroy" | "project_transfer" | "project_update",
        ):
            return _event("repository", project)
    return None


def _gitea_event(event: str, payload: _Payload) -> HookEvent | None:
    repository = payload.repository
    if event == "push":
        return _push(repository, payload)
    if event == "repository":
        return _event("repository", repository)
    if event in {"issue_comment", "pull_request_comment"}:
        is_on_pull = event != "issue_comment" or _is_pull(payload)
        return _new_comment(repository, payload, is_on_pull=is_on_pull)
    if event.startswith("pull_request_review"):
        return _event("comment", repository, _number_in(payload))
    if event.startswith("pull_request"):
        return _event("pull", repository, _number_in(payload))
    return None


def _push(repository: _Part | None, payload: _Payload) -> HookEvent | None:
    is_branch = (payload.ref or "").startswith("refs/heads/")
    return _event("push", repository) if is_branch else None


def _new_comment(
    repository: _Part | None, payload: _Payload, *, is_on_pull: bool
) -> HookEvent | None:
    """Comments are handled once, so edits and deletions are ignored."""
    if not is_on_pull or payload.action in {"edited", "deleted"}:
        return None
    return _event("comment", repository, _number_in(payload))


def _event(kind: HookEventKind, repository: _Part | None, *numbers: int | None) -> HookEvent | None:
    """`numbers` has one element for kinds that need a number."""
    external_id = None if repository is None else repository.id
    if not all(_is_id(value) for value in (external_id, *numbers)):
        return None
    return HookEvent(kind, str(external_id), *numbers)


def _is_pull(payload: _Payload) -> bool:
    on_issue = payload.issue is not None and payload.issue.pull_request is not None
    return payload.is_pull is True or on_issue


def _number_in(payload: _Payload) -> int | None:
    places = (payload.pull_request, payload.issue, payload)
    numbers = (place.number for place in places if place is not None)
    return next((number for number in numbers if number is not None), None)


def _is_id(value: int | None) -> bool:
    return value is not None and 0 < value <= _MAX_ID


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )
