"""Targets: responses and webhooks of platforms, and tickets."""

import json
from typing import Any

import msgspec
from multidict import CIMultiDict

from agentjobs.platforms import hooks
from agentjobs.platforms.gitea import responses as gitea
from agentjobs.platforms.github import responses as github
from agentjobs.platforms.gitlab import responses as gitlab
from agentjobs.platforms.http.responses import (
    Response,
    decode_as,
    error_from,
    link_url,
)
from agentjobs.platforms.protocol import PlatformError
from agentjobs.platforms.text import one_line, truncate
from agentjobs.platforms.validate import parse_count, validate
from agentjobs.tickets.bounds import build_ticket
from agentjobs.tickets.issues import parse_issue
from agentjobs.tickets.jira import _Issue, parse_key
from agentjobs.tickets.markdown_text import visible_text
from tests.hostile.fuzz.documents import documents, json_documents, texts
from tests.hostile.fuzz.target import Target

_USER = {"login": "ada", "id": 1, "username": "ada", "name": "Ada"}
_REPOSITORY = {
    "id": 1,
    "full_name": "acme/shop",
    "path_with_namespace": "acme/shop",
    "default_branch": "main",
    "permissions": {"push": True, "project_access": {"access_level": 30}},
    "size": 0,
    "pushed_at": "2024-01-01T00:00:00Z",
}
_PULL = {
    "number": 1,
    "iid": 1,
    "title": "[WIP] wip: Draft: a",
    "state": "open",
    "html_url": "https://x.test/1",
    "web_url": "https://x.test/1",
    "head": {"ref": "b", "sha": "0" * 40, "label": "b", "repo_id": 1},
    "base": {"ref": "main", "label": "main", "repo_id": 1},
    "labels": [{"id": 1, "name": "a"}],
    "requested_reviewers": [_USER],
    "user": _USER,
}
_COMMENT = {
    "id": 7,
    "body": "x",
    "html_url": "https://x.test/1#7",
    "user": _USER,
    "author": _USER,
    "state": "APPROVED",
    "submitted_at": "2024-01-01T00:00:00Z",
    "created_at": "2024-01-01T00:00:00+02:00",
    "path": "a.py",
    "line": 3,
    "side": "LEFT",
    "position": {"new_path": "a.py", "new_line": 3, "old_path": "b.py", "old_line": 4},
}
_ISSUE = {
    "number": 1,
    "iid": 1,
    "title": "a",
    "body": "b",
    "description": "c",
    "html_url": "https://x.test/1",
    "web_url": "https://x.test/1",
    "labels": ["a", {"name": "b", "id": 1}],
    "repository_url": "https://x.test/repos/acme/shop",
    "repository": {"full_name": "acme/shop"},
}
_SHAPES: tuple[Any, ...] = (
    *(github.Repository, github.Pull, github.IssueComment, github.Review, github.LineComment),
    *(github.IssueResponse, github.Role, list[github.Pull], github.RepositoryPage),
    *(gitlab.Project, gitlab.MergeRequest, gitlab.Note, gitlab.IssueResponse, gitlab.Token),
    *(gitea.Repository, gitea.Pull, gitea.CommentResponse, gitea.CommentTime, gitea.IssueResponse),
    *(gitea.Access, gitea.Team, list[gitea.Label], gitea.ONE_OR_MORE_REFERENCES),
)
_REVIEW = github.Review(1, "APPROVED", "https://x.test")


def _read_response(content: bytes) -> object:
    response = Response(200, CIMultiDict(), content)
    values = []
    for shape in _SHAPES:
        try:
            values.append(decode_as("GitHub", response, shape))
        except PlatformError:
            continue
    return [_use(value) for value in values]


def _use(value: Any) -> object:
    """What the adapters do with a response."""
    shown: list[object] = []
    match value:
        case github.Repository() | gitlab.Project():
            shown.append(value.to_remote(may_push=True))
        case gitlab.Note():
            shown.append(value.comment("https://x.test"))
        case gitea.CommentResponse():
            shown.append(value.comment("https://x.test"))
        case github.LineComment():
            shown.append(value.comment_in(_REVIEW))
        case github.IssueResponse() | gitlab.IssueResponse():
            shown.append(value.issue("acme/shop"))
        case gitea.IssueResponse():
            shown.append(value.issue("acme/shop", "https://x.test"))
        case gitea.Pull():
            shown.append(value.remote_pull("https://x.test"))
    for name, attribute in vars(type(value)).items():
        if isinstance(attribute, property):
            shown.append(getattr(value, name))
    for item in shown:
        if isinstance(item, msgspec.Struct):
            try:
                validate("GitHub", item)  # type: ignore[type-var]  # whatever it validates
            except (PlatformError, KeyError):
                continue
    return shown


def _read_error(content: bytes) -> object:
    text = content[:2_000].decode("latin-1")
    headers = CIMultiDict(
        {
            "Retry-After": text,
            "x-ratelimit-reset": text,
            "x-ratelimit-remaining": "0",
            "Link": text,
            "Content-Type": text,
        }
    )
    shown = [link_url(Response(200, headers, content), "next"), parse_count(text)]
    for status in (301, 401, 403, 404, 422, 429, 500, 503):
        error = error_from("GitHub", Response(status, headers, content), "a", 1_700_000_000.0)
        assert error.retry_after_seconds >= 0
        assert len(str(error)) < 2_000
        shown.append(str(error))
    return shown


_HOOK = {
    "action": "created",
    "ref": "refs/heads/main",
    "number": 1,
    "is_pull": True,
    "object_kind": "push",
    "project_id": 1,
    "repository": {"id": 1},
    "project": {"id": 1},
    "issue": {"number": 1, "pull_request": {}},
    "pull_request": {"number": 1},
    "object_attributes": {"iid": 1},
    "merge_request": {"iid": 1},
}
_EVENTS = {
    "github": ("push", "repository", "installation", "issue_comment", "pull_request"),
    "gitlab": ("Push Hook", "Merge Request Hook", "Note Hook", "System Hook"),
    "gitea": ("push", "repository", "issue_comment", "pull_request_review", "pull_request"),
}


def _read_hook(content: bytes) -> object:
    text = content[:500].decode("utf-8", "surrogateescape")
    events = []
    for platform, names in _EVENTS.items():
        signature = {"x-gitlab-token": text, "x-hub-signature-256": text, "x-gitea-delivery": text}
        hooks.is_signed(platform, "secret", signature, content)
        hooks.lacks_signature(platform, "secret", signature)
        hooks.read_delivery_id(platform, signature, content)
        for name in names:
            headers = {f"x-{platform}-event": name}
            events.append(hooks.parse_event(platform, headers, content))
    return events


_JIRA = {"key": "ABC-1", "fields": {"summary": "a", "description": "h2. A", "labels": ["a"]}}


def _read_jira(content: bytes) -> object:
    issue = decode_as("Jira", Response(200, CIMultiDict(), content), _Issue)
    description = issue.fields.description or ""
    labels = issue.fields.labels or ()
    return build_ticket(
        issue.key, issue.fields.summary or "", description, labels, "https://x.test"
    )


def _read_issue(text: str) -> object:
    shown = visible_text(text)
    parse_issue(text, "acme/shop")
    parse_key(text, "https://x.test")
    one_line(text)
    gitlab.escape_quick_actions(text)
    gitea.DRAFT_MARK.remove(text)
    gitlab.DRAFT_MARK.remove(text)
    ticket = build_ticket("A-1", text, shown, text.split(",", 50), text)
    return ticket, truncate(text, 1_000)


TARGETS = (
    Target(
        "platform response",
        json_documents(
            _REPOSITORY, _PULL, _COMMENT, _ISSUE, [_PULL], {"repositories": [_REPOSITORY]}
        ),
        _read_response,
        (PlatformError,),
        frames=("{}", "[{}", '{"title": "{}"}'),
    ),
    Target(
        "platform error",
        documents(
            json.dumps({"message": "a", "errors": [{"base": ["b", {"c": "d"}]}]}).encode(),
            b"Mon, 01 Jan 2024 00:00:00 GMT",
            b"1700000000",
            b'<a>; rel="next", <b>; rel=last',
            b"<html>",
            tokens=(b"Mon, ", b" GMT", b"+9999", b"-2400", b"1e300", b"inf", b":", b"99"),
        ),
        _read_error,
        frames=("{}", '{"message": "{}"}', '{"errors": [{}'),
        units=('"a",', '["a"],'),
    ),
    Target("platform webhook", json_documents(_HOOK), _read_hook, frames=("{}", '{"issue": {}')),
    Target(
        "Jira issue",
        json_documents(_JIRA),
        _read_jira,
        (PlatformError,),
        frames=("{}", '{"key": "A-1", "fields": {"description": "{}"}}'),
    ),
    Target(
        "issue text",
        texts(
            "# a\n<!-- b\n-->c `<!--` d\n```py\n<!-- e -->\n```\n/close\nDraft: [WIP] x",
            "acme/shop#12",
            "https://x.test/browse/ABC-1?x#y",
            tokens=("<!--", "-->", "`", "```", "~~~", "wip:", "[draft]", "\n/"),
        ),
        _read_issue,
        frames=("{}", "<!--{}", "`{}", "wip:{}"),
        units=("<!--", "-->", "<!-- -->", "`<!--", "```\n", "wip:", "[wip]", "draft: ", "/a\n"),
        is_text=True,
    ),
)
