"""Targets: requests of clients and browsers, and responses of identity providers."""

import asyncio
import base64
import json
from contextlib import suppress
from datetime import UTC
from typing import Any

from starlette.requests import Request
from starlette.types import Message

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.validation import size_faults
from agentjobs.organizations.form_tokens import is_valid_token
from agentjobs.organizations.tokens import is_well_formed
from agentjobs.web.access_log import ClientAddresses
from agentjobs.web.api.headers import names_type
from agentjobs.web.api.idempotency import key_faults, read_claim
from agentjobs.web.api.job_list import _CURSORS, JobListQuery, _faults
from agentjobs.web.api.logs import EVENT_STREAM, _last_event_id
from agentjobs.web.api.query import read_query
from agentjobs.web.api.requests import check_content_type, null_character_faults, parse_object
from agentjobs.web.api.warnings import add_warnings, ignored_parts, keep_body
from agentjobs.web.basic_auth import read_token
from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.forms import Form, read_form
from agentjobs.web.dashboard.jobs.creation import _build_request
from agentjobs.web.dashboard.origins import safe_next
from agentjobs.web.dashboard.pulls.listing import _Query
from agentjobs.web.openid.exchange import ProviderResponse
from agentjobs.web.openid.id_token import Expected, UnknownKey, verify_claims
from agentjobs.web.openid.identity import build_identity
from agentjobs.web.openid.provider import Document, _is_valid_address, _Keys
from agentjobs_runtime.json_fields import find_faults
from agentjobs_runtime.problems import Fault, Problem
from tests.hostile.fuzz.documents import documents, json_documents, texts
from tests.hostile.fuzz.target import Target

# Our API

_JOB = {
    "repo": "acme/shop",
    "agent": "lint-fixer",
    "ticket_id": "ABC-1",
    "callback_url": "https://x.test/hook",
    "labels": {"team": "payments", "ci/run": ""},
    "config_override": {"prompt": "x", "draft": True, "timeout_seconds": 60, "labels": ["a"]},
}
_ADDRESSES = ClientAddresses(["10.0.0.0/8"])
_KEYED = {"headers": [(b"idempotency-key", b"a")]}


def _read_job(content: bytes) -> object:
    body = parse_object(content)
    faults = [*find_faults(body, CreateJobRequest), *null_character_faults(body)]
    if isinstance(override := body.get("config_override"), dict):
        faults += size_faults(override, "config_override")
    scope: Any = {"query_string": b""}
    keep_body(scope, body)
    warnings = ignored_parts(scope, None, CreateJobRequest)
    return faults, read_claim(_KEYED, body), add_warnings(b'{"warnings":[]}', warnings)


def _read_head(value: bytes) -> None:
    scope: Any = {
        "type": "http",
        "headers": [
            (b"authorization", value),
            (b"content-type", value),
            (b"idempotency-key", value),
            (b"accept", value),
            (b"last-event-id", value),
            (b"x-forwarded-for", value),
        ],
    }
    token = read_token(Request(scope))
    is_well_formed(token, "ajk_")
    is_valid_token("key", token)
    key_faults(scope)
    names_type(scope, EVENT_STREAM)
    _ADDRESSES.of({**scope, "client": ("10.0.0.1", 1)})
    with suppress(Problem):
        _last_event_id(scope)
    safe_next(value.decode("latin-1"))
    check_content_type(scope)


def _read_query(content: bytes) -> object:
    scope: Any = {"query_string": content}
    warnings = ignored_parts(scope, JobListQuery, None)
    query = read_query(scope, JobListQuery, _faults)
    return query.filter.parameters(None), add_warnings(b"{}", warnings)


def _read_form(content: bytes) -> object:
    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    kind = (b"content-type", b"application/x-www-form-urlencoded")
    request = Request({"type": "http", "headers": [kind]}, receive)
    form = asyncio.run(read_form(request))
    return form.raw("a"), form.all("a"), form.whole_number("b", "B")


_FORM_FIELDS = (
    *("more", "title", "prompt", "reviewers", "timeout_seconds", "max_cost_usd", "labels"),
)


def _read_page_values(any_text: str) -> object:
    # Forms and queries are decoded strictly, so no surrogate gets here.
    text = any_text.encode("utf-8", "replace").decode()
    faults: list[Fault] = []
    for name in _FORM_FIELDS:
        with suppress(Problem):
            body = _build_request(Form([("repo", "acme/shop"), (name, text)]), faults)
            faults += find_faults(body, CreateJobRequest)
            read_claim(_KEYED, body)
    with suppress(Problem):
        between_days(text, text, UTC)
    return faults, _Query.read(lambda _: text).position, safe_next(text)


# Identity providers

_DOCUMENT = {
    "issuer": "https://id.test",
    "authorization_endpoint": "https://id.test/a",
    "token_endpoint": "https://id.test/t",
    "jwks_uri": "https://id.test/k",
    "id_token_signing_alg_values_supported": ["RS256", "ES256"],
    "keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "1", "use": "sig"}],
    "sub": "1",
    "email": "ada@acme.test",
    "email_verified": "true",
    "name": "Ada",
}
_HEADER = {"alg": "RS256", "kid": "1", "crit": ["b64"]}


def _read_provider(content: bytes) -> object:
    response = ProviderResponse("https://id.test", 200, content)
    document = response.decode(Document)
    for address in document.addresses:
        _is_valid_address(address, "https://id.test")
    claims = response.decode(dict[str, Any])
    _verify(content, response.decode(_Keys).keys)
    if isinstance(claims.get("sub"), str):
        return build_identity("https://id.test", claims, claims)
    return None


def _verify(token: bytes, keys: tuple[dict[str, Any], ...]) -> None:
    expected = Expected(
        issuer="https://id.test",
        client_id="c",
        nonce="n",
        access_token="a",
        algorithms=["RS256", "ES256"],
        now_seconds=1,
    )
    with suppress(UnknownKey, Problem):
        verify_claims(token.decode("utf-8", "surrogateescape"), keys, expected)


def _verify_token(content: bytes) -> None:
    key = {"kty": "RSA", "n": "AQAB" * 100, "e": "AQAB", "kid": "1"}
    header = base64.urlsafe_b64encode(json.dumps(_HEADER).encode()).rstrip(b"=")
    claims = base64.urlsafe_b64encode(content).rstrip(b"=")
    _verify(header + b"." + claims + b".AAAA", (key,))
    _verify(claims + b"." + claims + b".AAAA", (key,))
    _verify(content, (key,))


_PULL_CURSOR = "1700000000000:7:acme/shop"

TARGETS = (
    Target(
        "API request",
        json_documents(_JOB),
        _read_job,
        (Problem,),
        frames=("{}", '{"a": {}', '{"{}": [{}"\\u0000"]}', '{"config_override": {}'),
        units=("0,", '"\\u0000",', '"a":0,', "[],"),
        max_bytes=64 * 1024,
    ),
    Target(
        "API headers",
        documents(
            b"Bearer ajk_" + b"a" * 38,
            b"Basic YTpi",
            b'application/json; charset="utf-8"',
            b"/a?b",
            b"10.0.0.2, ::1%a",
            b"12",
        ),
        _read_head,
        (Problem,),
        max_bytes=64 * 1024,
    ),
    Target(
        "API query",
        documents(
            b"limit=5&cursor=" + _CURSORS.encode("job_1").encode(),
            b"status=queued&repo=a%2Fb&limit=9",
            b"status=failed,queued&label.team=pay&created_after=2026-01-31T09:30:00%2B02:00",
            tokens=(b"&", b"%ff", b"+", b"limit=", b"cursor=", b";", b"label.", b","),
        ),
        _read_query,
        (Problem,),
        frames=("{}", "cursor={}", "limit={}", "status={}", "label.a={}", "label.{}=a"),
        units=("a&", "&", "%41", "a=b&"),
        max_bytes=64 * 1024,
    ),
    Target(
        "form",
        documents(b"a=b&b=12&a=%0D%0A+c", tokens=(b"&", b"%00", b"%ff", b"b=")),
        _read_form,
        (Problem,),
        frames=("{}", "a={}"),
        units=("a&", "a=b&", "%41"),
        max_bytes=512 * 1024,
    ),
    Target(
        "values of pages",
        texts(
            '{"depth": 2, "a": {"b": ["c", 1.5]}}', "2026-01-31", "2.50", _PULL_CURSOR, "/jobs?a=b"
        ),
        _read_page_values,
        frames=("{}", '{"a": {}', '{"a": "{}"}'),
        is_text=True,
        max_bytes=64 * 1024,
    ),
    Target(
        "identity provider",
        json_documents(_DOCUMENT),
        _read_provider,
        (Problem,),
        frames=("{}", '{"keys": [{}'),
    ),
    Target(
        "ID token",
        json_documents(
            {
                "iss": "https://id.test",
                "aud": ["c"],
                "sub": "1",
                "nonce": "n",
                "exp": 99,
                "iat": 1,
                "azp": "c",
                "at_hash": "x",
            },
            _HEADER,
        ),
        _verify_token,
    ),
)
