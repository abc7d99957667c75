"""Webhooks from platforms: their signatures and the events they become."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentjobs.platforms.hooks import HookEvent, is_signed, parse_event, read_delivery_id

PLATFORMS = ("github", "gitlab", "gitea")
EVENT_HEADERS = {
    "github": "x-github-event",
    "gitlab": "x-gitlab-event",
    "gitea": "x-gitea-event",
}
GITHUB_COMMENT = {"action": "created", "issue": {"number": 7, "pull_request": {}}}
ON_SEVEN = {"issue": {"number": 7}}
PULL_7 = {"pull_request": {"number": 7}}
PUSH = {"object_kind": "push", "ref": "refs/heads/main", "project_id": 5}
MERGE_REQUEST = {"project": {"id": 5}, "object_attributes": {"id": 99, "iid": 7}}
NOTE = {"project_id": 5, "project": {"id": 5}, "merge_request": {"iid": 7}}
# GitHub publishes this example for testing a receiver.
GITHUB_SECRET = "It's a Secret to Everybody"
GITHUB_BODY = b"Hello, World!"
GITHUB_DIGEST = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def parse(platform: str, event: str, payload: object) -> HookEvent | None:
    return parse_event(platform, {EVENT_HEADERS[platform]: event}, json.dumps(payload).encode())


def test_the_documented_signature_of_github_is_accepted() -> None:
    headers = {"x-hub-signature-256": f"sha256={GITHUB_DIGEST}"}
    assert is_signed("github", GITHUB_SECRET, headers, GITHUB_BODY)
    assert is_signed("gitea", GITHUB_SECRET, {"x-gitea-signature": GITHUB_DIGEST}, GITHUB_BODY)
    assert is_signed("gitea", GITHUB_SECRET, {"x-forgejo-signature": GITHUB_DIGEST}, GITHUB_BODY)
    assert is_signed("gitea", GITHUB_SECRET, headers, GITHUB_BODY)
    assert is_signed("gitlab", "s3cret", {"x-gitlab-token": "s3cret"}, b"anything")


def test_a_wrong_secret_is_refused() -> None:
    wrong: list[dict[str, str]] = [
        {},
        {"x-hub-signature-256": f"sha256={GITHUB_DIGEST[:-1]}0"},
        {"x-hub-signature-256": ""},
        {"x-hub-signature-256": "sha256="},
        {"x-hub-signature-256": "\u00e4\udc80"},
        {"x-hub-signature": f"sha1={hashlib.sha1(GITHUB_BODY).hexdigest()}"},
        {"x-gitea-signature": GITHUB_DIGEST.upper()},
        {"x-gitlab-token": ""},
        {"x-gitlab-token": GITHUB_SECRET[:-1]},
        {"authorization": GITHUB_SECRET},
    ]
    accepted = [
        (platform, headers)
        for platform in (*PLATFORMS, "bitbucket", "")
        for headers in wrong
        if is_signed(platform, GITHUB_SECRET, headers, GITHUB_BODY)
    ]
    assert accepted == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_empty_secret_verifies_nothing(platform: str) -> None:
    digest = hmac.new(b"", b"{}", hashlib.sha256).hexdigest()
    headers = {"x-hub-signature-256": f"sha256={digest}", "x-gitea-signature": digest}
    assert not is_signed(platform, "", {**headers, "x-gitlab-token": ""}, b"{}")


@pytest.mark.parametrize(
    ("platform", "event", "payload", "expected"),
    [
        ("github", "push", {"ref": "refs/heads/main"}, HookEvent("push", "5")),
        ("github", "push", {"ref": "refs/tags/v1"}, None),
        ("github", "pull_request", {"action": "closed", "number": 7}, HookEvent("pull", "5", 7)),
        (
            "github",
            "pull_request_review",
            {"pull_request": {"number": 7}},
            HookEvent("comment", "5", 7),
        ),
        (
            "github",
            "pull_request_review",
            {"action": "submitted", **PULL_7},
            HookEvent("comment", "5", 7),
        ),
        ("github", "pull_request_review", {"action": "edited", **PULL_7}, None),
        (
            "github",
            "pull_request_review_comment",
            {"action": "created", **PULL_7},
            HookEvent("comment", "5", 7),
        ),
        ("github", "pull_request_review_comment", {"action": "deleted", **PULL_7}, None),
        ("github", "issue_comment", GITHUB_COMMENT, HookEvent("comment", "5", 7)),
        ("github", "issue_comment", {"action": "created", "issue": {"number": 7}}, None),
        ("github", "issue_comment", {**GITHUB_COMMENT, "action": "edited"}, None),
        ("github", "repository", {"action": "renamed"}, HookEvent("repository", "5")),
        ("github", "installation", {"action": "suspend"}, HookEvent("repository")),
        ("github", "ping", {"zen": "Keep it"}, None),
        ("github", "star", {}, None),
        ("gitea", "push", {"ref": "refs/heads/x/y"}, HookEvent("push", "5")),
        ("gitea", "pull_request", {"number": 7}, HookEvent("pull", "5", 7)),
        ("gitea", "pull_request_sync", {"number": 7}, HookEvent("pull", "5", 7)),
        (
            "gitea",
            "pull_request_approved",
            {"pull_request": {"number": 7}},
            HookEvent("pull", "5", 7),
        ),
        ("gitea", "issue_comment", {"is_pull": True, **ON_SEVEN}, HookEvent("comment", "5", 7)),
        ("gitea", "issue_comment", {"is_pull": False, "issue": {"number": 7}}, None),
        ("gitea", "pull_request_comment", {"issue": {"number": 7}}, HookEvent("comment", "5", 7)),
        (
            "gitea",
            "pull_request_comment",
            {"action": "reviewed", **PULL_7},
            HookEvent("comment", "5", 7),
        ),
        (
            "gitea",
            "pull_request_rejected",
            {"action": "reviewed", **PULL_7},
            HookEvent("pull", "5", 7),
        ),
        ("gitea", "repository", {"action": "deleted"}, HookEvent("repository", "5")),
        ("gitea", "wiki", {}, None),
    ],
)
def test_a_payload_becomes_an_event(
    platform: str, event: str, payload: dict[str, Any], expected: HookEvent | None
) -> None:
    repository = {"id": 5, "full_name": "acme/shop", "owner": {"login": "acme"}}
    assert parse(platform, event, {"repository": repository, **payload}) == expected


@pytest.mark.parametrize(
    ("event", "payload", "expected"),
    [
        ("Push Hook", PUSH, HookEvent("push", "5")),
        ("Tag Push Hook", {**PUSH, "ref": "refs/tags/v1"}, None),
        ("Merge Request Hook", MERGE_REQUEST, HookEvent("pull", "5", 7)),
        ("Note Hook", NOTE, HookEvent("comment", "5", 7)),
        ("Note Hook", {"project_id": 5, "issue": {"iid": 7}}, None),
        (
            "System Hook",
            {"event_name": "project_rename", "project_id": 5},
            HookEvent("repository", "5"),
        ),
        ("System Hook", {**PUSH, "event_name": "project_destroy"}, HookEvent("repository", "5")),
        ("System Hook", {**PUSH, "event_name": "push"}, HookEvent("push", "5")),
        (
            "System Hook",
            {**MERGE_REQUEST, "object_kind": "merge_request"},
            HookEvent("pull", "5", 7),
        ),
        ("System Hook", {"event_name": "user_create"}, None),
        ("Pipeline Hook", {"project": {"id": 5}}, None),
    ],
)
def test_a_gitlab_payload_becomes_an_event(
    event: str, payload: dict[str, Any], expected: HookEvent | None
) -> None:
    assert parse("gitlab", event, payload) == expected


_NUMBERS = st.integers() | st.floats() | st.booleans() | st.none() | st.text(max_size=5)
_NAMES = st.sampled_from(
    ["action", "id", "iid", "number", "ref", "repository", "project", "project_id", "issue",
     "pull_request", "merge_request", "object_attributes", "event_name", "object_kind", "is_pull"]
)  # fmt: skip
_VALUES = st.recursive(
    _NUMBERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4)
)
_EVENTS = st.sampled_from(
    ["push", "pull_request", "issue_comment", "pull_request_comment", "repository", "installation",
     "Push Hook", "Merge Request Hook", "Note Hook", "System Hook"]
)  # fmt: skip


@settings(max_examples=60)
@given(st.sampled_from(PLATFORMS), _EVENTS, st.dictionaries(_NAMES, _VALUES) | _VALUES)
def test_an_event_is_valid_or_none_whatever_types_a_payload_has(
    platform: str, event: str, payload: object
) -> None:
    hook_event = parse(platform, event, payload)
    if hook_event is None:
        return
    assert hook_event.external_id is None or 0 < int(hook_event.external_id) < 2**63
    assert hook_event.number is None or 0 < hook_event.number < 2**63
    assert (hook_event.kind in {"pull", "comment"}) == (hook_event.number is not None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"payload=%7B%7D",
        b"null",
        b"[" * 200_000,
        b'{"x":' * 100_000,
        b'{"repository":{"id":' + b"9" * 10_000 + b'},"ref":"refs/heads/main","number":1e999}',
        b'{"repository":{"id":5e0},"ref":"refs/heads/main"}',
        b'{"repository":[],"ref":"refs/heads/main"}',
        b'{"repository":{"id":true},"project_id":-1,"ref":"refs/heads/main"}',
        b'{"repository":{"id":5},"ref":"refs/heads/main"',
        b'{"ref":"\\ud800","repository":{"id":5}}',
    ],
)
def test_a_hostile_body_is_no_event_and_never_raises(body: bytes) -> None:
    for platform, header in EVENT_HEADERS.items():
        for event in ("push", "Push Hook"):
            assert parse_event(platform, {header: event}, body) is None, platform


def test_a_delivery_id_comes_from_the_platform_or_from_the_body() -> None:
    assert read_delivery_id("github", {"x-github-delivery": "72d3162e"}, b"") == "72d3162e"
    both = {"x-gitlab-event-uuid": "13792a34", "idempotency-key": "f5e5f430"}
    assert read_delivery_id("gitlab", both, b"") == "f5e5f430"
    assert read_delivery_id("gitea", {"x-forgejo-delivery": "f6266f16"}, b"") == "f6266f16"
    body_digest = f"sha256:{hashlib.sha256(b'one').hexdigest()}"
    for odd in ("", "x" * 500, "a b", "\u00e4"):
        assert read_delivery_id("github", {"x-github-delivery": odd}, b"one") == body_digest
    assert read_delivery_id("github", {}, b"two") != body_digest


def test_events_of_one_request_to_an_older_gitlab_are_told_apart() -> None:
    def id_of(request_id: str, body: bytes) -> str:
        return read_delivery_id("gitlab", {"x-gitlab-event-uuid": request_id}, body)

    assert id_of("13792a34", b"one note") == id_of("13792a34", b"one note")
    assert id_of("13792a34", b"one note") != id_of("13792a34", b"another note")
    # A branch that returns to an earlier commit causes the same body again.
    assert id_of("13792a34", b"one push") != id_of("f6266f16", b"one push")
