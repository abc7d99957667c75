"""Webhooks that platforms send: verifying their signature and parsing what they name.

Pure functions for untrusted bodies: none of them raises. An event only names what to sync; its
state is always read from the platform.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Literal

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


# Fields are kept as raw JSON: those that are not needed are never decoded.
_Field = msgspec.Raw
_NULL = msgspec.Raw(b"null")
_MAX_FIELD_BYTES = 4096


class _Part(msgspec.Struct, frozen=True):
    """The fields of any object of a payload that matter."""

    id: _Field = _NULL
    number: _Field = _NULL
    iid: _Field = _NULL
    pull_request: _Field = _NULL


class _Payload(msgspec.Struct, frozen=True):
    action: _Field = _NULL
    event_name: _Field = _NULL
    object_kind: _Field = _NULL
    ref: _Field = _NULL
    number: _Field = _NULL
    is_pull: _Field = _NULL
    project_id: _Field = _NULL
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


def delivery_id_of(platform: str, headers: Mapping[str, str], body: bytes) -> str:
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
    match event, _text(payload.event_name) or _text(payload.object_kind):
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
    is_branch = _text(payload.ref).startswith("refs/heads/")
    return _event("push", repository) if is_branch else None


def _new_comment(
    repository: _Part | None, payload: _Payload, *, is_on_pull: bool
) -> HookEvent | None:
    """Comments are handled once, so edits and deletions are ignored."""
    if not is_on_pull or _text(payload.action) in {"edited", "deleted"}:
        return None
    return _event("comment", repository, _number_in(payload))


def _event(kind: HookEventKind, repository: _Part | None, *numbers: _Field) -> HookEvent | None:
    """`numbers` has one element for kinds that need a number."""
    external_id = None if repository is None else _positive(repository.id)
    parsed = [_positive(number) for number in numbers]
    if external_id is None or None in parsed:
        return None
    return HookEvent(kind, str(external_id), *parsed)


def _is_pull(payload: _Payload) -> bool:
    on_issue = payload.issue is not None and _is_given(payload.issue.pull_request)
    return _value(payload.is_pull) is True or on_issue


def _number_in(payload: _Payload) -> _Field:
    places = (payload.pull_request, payload.issue, payload)
    numbers = (place.number for place in places if place is not None)
    return next(filter(_is_given, numbers), _NULL)


def _is_given(field: _Field) -> bool:
    return bytes(field) != b"null"


def _positive(field: _Field) -> int | None:
    value = _value(field)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value <= _MAX_ID else None


def _text(field: _Field) -> str:
    value = _value(field)
    return value if isinstance(value, str) else ""


def _value(field: _Field) -> Any:
    """None if the field is too large to be a value we use."""
    raw = bytes(field)
    return msgspec.json.decode(raw) if len(raw) <= _MAX_FIELD_BYTES else None


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )
