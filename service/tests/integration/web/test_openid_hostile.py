"""Sign-in through hostile providers and with forged callbacks."""

import asyncio
import base64
import hmac
import json
import socket
import ssl

import pytest
import trustme
from aiohttp import web
from joserfc import jwk, jwt

from agentjobs.organizations.sealing import SealingKeys
from agentjobs.web.openid import OpenId, exchange
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, SettingsError
from tests.support.hostile_openid import DISCOVERY, HostileProvider, basic, hostile_provider

SECRET = "s3cret"
ENDPOINTS = (DISCOVERY, "/token", "/jwks", "/userinfo")


@pytest.fixture
async def provider():
    async with hostile_provider() as running:
        yield running


@pytest.fixture
async def openid_client(tmp_path):
    """Creates clients of a provider: `openid_client(issuer)`."""
    clients: list[OpenId] = []

    def make(issuer, clock=now_ms, **changed) -> OpenId:
        values = {"oidc_client_id": "us", "oidc_client_secret": SECRET, "data_dir": str(tmp_path)}
        settings = Settings(oidc_issuer=issuer, **(values | changed))
        clients.append(OpenId(settings, SealingKeys.load(settings), clock))
        return clients[-1]

    yield make
    for openid in clients:
        await openid.close()


class Clock:
    """A clock that `skip` moves past the expiry of every cached document."""

    def __init__(self):
        self.ahead_ms = 0

    def __call__(self) -> int:
        return now_ms() + self.ahead_ms

    def skip(self) -> None:
        self.ahead_ms += 7_200_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def openid(provider, openid_client, clock) -> OpenId:
    return openid_client(provider.issuer, clock)


async def sign_in(openid: OpenId, provider: HostileProvider, **params):
    started = await openid.begin("/", None)
    return await openid.finish(started.cookie, provider.callback(started.url) | params)


async def assert_refused(operation, code="sign_in_failed") -> str:
    with pytest.raises(Problem) as problem:
        await operation
    assert problem.value.code == code
    assert problem.value.message.isprintable()
    assert len(problem.value.message) < 400
    return problem.value.message


async def test_a_valid_sign_in_succeeds(openid, provider):
    finished = await sign_in(openid, provider)
    assert (finished.identity.subject, finished.identity.email) == ("1", "ada@example.com")
    await sign_in(openid, provider)
    # Document and keys are fetched once, userinfo never: the token contains the email.
    assert sorted(provider.requests) == [DISCOVERY, "/jwks", "/token", "/token"]
    assert provider.headers[-1]["Authorization"] == basic("us", SECRET)


async def test_the_authorization_url_keeps_its_own_parameters(openid, provider):
    assert (await openid.begin("/", None)).url.startswith(f"{provider.issuer}/auth?kept=1&")


async def test_a_provider_that_only_accepts_client_secret_post_gets_the_secret_in_the_form(
    openid, provider
):
    provider.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await sign_in(openid, provider)
    assert provider.forms[0].items() >= {"client_id": "us", "client_secret": SECRET}.items()
    assert "Authorization" not in provider.headers[1]


async def test_a_token_for_another_sign_in_is_refused(openid, provider):
    honest = provider.claims
    for claims in (
        {"nonce": "another"},
        {"aud": "others"},
        {"aud": ["us", "others"]},
        {"iss": "https://evil.example.com"},
        {"exp": 1},
        {"iat": 99_999_999_999},
        {"sub": ""},
    ):
        provider.claims = honest | claims
        await assert_refused(sign_in(openid, provider))
    provider.claims = honest
    await sign_in(openid, provider)


async def test_a_replayed_token_is_refused(openid, provider):
    tokens: list[str] = []
    provider.sign = lambda claims: (tokens.append(provider.sign_correctly(claims)), tokens[0])[1]
    await sign_in(openid, provider)
    await assert_refused(sign_in(openid, provider))


def _encode_token(header, claims, key: bytes = b"") -> str:
    def base64url(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    signing_input = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))
    signature = hmac.digest(key, signing_input.encode(), "sha256") if key else b""
    return f"{signing_input}.{base64url(signature)}"


async def test_a_token_signed_with_a_public_or_foreign_key_is_refused(openid, provider):
    public = provider.key.as_pem(private=False)
    provider.sign = lambda claims: _encode_token({"alg": "none"}, claims)
    await assert_refused(sign_in(openid, provider))
    for key in (SECRET.encode(), public):
        provider.sign = lambda claims, key=key: _encode_token(
            {"alg": "HS256", "kid": "one"}, claims, key
        )
        await assert_refused(sign_in(openid, provider))
    foreign_key = jwk.ECKey.generate_key("P-256")
    header = {"alg": "ES256", "kid": "one", "jwk": foreign_key.as_dict(private=False)}
    provider.sign = lambda claims: jwt.encode(header, claims, foreign_key)
    await assert_refused(sign_in(openid, provider))


async def test_new_keys_are_fetched_at_most_once_a_minute(provider, openid_client):
    now = now_ms()
    openid = openid_client(provider.issuer, lambda: now)
    await sign_in(openid, provider)
    provider.key = jwk.ECKey.generate_key("P-256", {"kid": "two"})
    await sign_in(openid, provider)
    assert provider.requests.count("/jwks") == 2
    provider.sign = lambda claims: jwt.encode({"alg": "ES256", "kid": "?"}, claims, provider.key)
    for _ in range(3):
        await assert_refused(sign_in(openid, provider))
    assert provider.requests.count("/jwks") == 2
    now += 60_000
    await assert_refused(sign_in(openid, provider))
    assert provider.requests.count("/jwks") == 3


async def test_userinfo_about_another_subject_is_refused(openid, provider):
    provider.claims = {"sub": "1"}
    assert (await sign_in(openid, provider)).identity.email == "ada@example.com"
    assert provider.headers[-1]["Authorization"] == "Bearer at"
    provider.userinfo["sub"] = "2"
    await assert_refused(sign_in(openid, provider))


def _json_response(body: bytes, status: int = 200):
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, content_type="application/json")

    return handler


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_no_malformed_response_raises_an_unexpected_error(provider, openid, clock, path):
    provider.claims = {"sub": "1"}
    for body, status in [
        (b"<!doctype html><title>Welcome</title>", 200),
        (b"<!doctype html><title>Not found</title>", 404),
        (b"", 200),
        (b"null", 200),
        (b"[]", 400),
        (b'{"keys": {}, "id_token": {}, "access_token": 7}', 200),
        (b'{"id_token": "x", "access_token": "\\n", "keys": [{}]}', 200),
        (b"[" * 500_000, 200),
        (b'{"a":' * 100_000, 200),
        (b"\xff\xfe", 200),
        (b'{"error": "\\u001b[31m<script>"}', 400),
    ]:
        provider.handlers = {path: _json_response(body, status)}
        if path in (DISCOVERY, "/jwks"):
            clock.skip()
        await assert_refused(sign_in(openid, provider))


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_an_endless_response_is_not_read_completely(provider, openid, path):
    sent_bytes = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent_bytes
        response = web.StreamResponse()
        await response.prepare(request)
        while not request.transport.is_closing():
            await response.write(b" " * 65_536)
            sent_bytes += 65_536
        return response

    provider.claims = {"sub": "1"}
    provider.handlers = {path: endless}
    await assert_refused(sign_in(openid, provider))
    assert sent_bytes < 32 * exchange.MAX_BYTES


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_redirects_are_not_followed(provider, openid, path):
    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"{provider.issuer}/redirected"})

    provider.claims = {"sub": "1"}
    provider.handlers = {path: redirect}
    await assert_refused(sign_in(openid, provider))
    assert "/redirected" not in provider.requests


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_failing_provider_is_reported_as_unavailable(
    provider, openid, clock, path, monkeypatch
):
    finished = asyncio.Event()

    async def silent(_: web.Request) -> web.Response:
        await finished.wait()
        return web.Response()

    async def abort(request: web.Request) -> web.Response:
        request.transport.abort()
        return web.Response()

    monkeypatch.setattr(exchange, "TIMEOUT_SECONDS", 0.2)
    provider.claims = {"sub": "1"}
    for handler in (_json_response(b"", 500), _json_response(b"", 429), abort, silent):
        provider.handlers = {path: handler}
        if path in (DISCOVERY, "/jwks"):
            clock.skip()
        await assert_refused(sign_in(openid, provider), "provider_unavailable")
    finished.set()


async def test_concurrent_sign_ins_report_an_unreachable_provider(openid_client):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        issuer = f"http://127.0.0.1:{unused.getsockname()[1]}"
    openid = openid_client(issuer)
    requests = (openid.begin("/", None) for _ in range(50))
    errors = await asyncio.gather(*requests, return_exceptions=True)
    assert {error.code for error in errors} == {"provider_unavailable"}


async def test_an_invalid_discovery_document_is_refused(openid, provider, clock):
    for document in (
        {"issuer": "https://evil.example.com"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://user:password@evil.example.com/"},
        {"authorization_endpoint": "https://evil.example.com/\r\nSet-Cookie: a=b"},
        {"authorization_endpoint": "https://[evil/"},
        {"authorization_endpoint": "https:///auth"},
        {"token_endpoint": "http://evil.example.com/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": 7},
        {"jwks_uri": None},
        {"id_token_signing_alg_values_supported": "RS256"},
    ):
        provider.document = document
        clock.skip()
        await assert_refused(openid.begin("/", None))
    provider.document = {}
    clock.skip()
    await openid.begin("/", None)


async def test_a_provider_cannot_send_us_to_a_cloud_metadata_service(openid, provider, caplog):
    provider.document = {"token_endpoint": "https://169.254.169.254/latest"}
    await assert_refused(sign_in(openid, provider), "provider_unavailable")
    assert "is a link-local address" in caplog.text


async def test_only_asymmetric_algorithms_are_accepted(openid, provider):
    provider.document = {"id_token_signing_alg_values_supported": ["none", "HS256"]}
    await assert_refused(sign_in(openid, provider))


async def test_no_malformed_callback_raises_an_unexpected_error(openid, provider):
    for params in (
        {"state": ""},
        {"state": "🙂"},
        {"state": "\ud800"},
        {"state": "x" * 1_000_000},
        {"code": ""},
        {"code": "unknown"},
        {"code": "\x00\r\n"},
        {"code": "\ud800"},
        {"code": "x" * 1_000_000},
        {"iss": "https://evil.example.com"},
        {"iss": "\ud800"},
        {"error": "\x1b[31m" + "x" * 1_000_000, "error_description": "\r\n" * 1_000_000},
        {"error": "\ud800"},
    ):
        await assert_refused(sign_in(openid, provider, **params))
    await sign_in(openid, provider)


async def test_the_error_in_a_callback_is_not_shown_unless_the_state_matches(openid, provider):
    started = await openid.begin("/", None)
    params = {"error": "call this number", "state": "guessed"}
    assert "number" not in await assert_refused(openid.finish(started.cookie, params))
    assert "/token" not in provider.requests


async def test_https_needs_a_certificate_that_the_operator_trusts(openid_client, tmp_path):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    async with hostile_provider(context) as provider:
        await assert_refused(
            openid_client(provider.issuer).begin("/", None), "provider_unavailable"
        )
        openid = openid_client(provider.issuer, ca_file=str(ca_file))
        assert (await sign_in(openid, provider)).identity.subject == "1"
        # An https provider cannot fall back to http.
        provider.document = {"token_endpoint": "http://127.0.0.1/token"}
        await assert_refused(openid_client(provider.issuer, ca_file=str(ca_file)).begin("/", None))
        await openid.close()


async def test_an_unreadable_ca_file_is_reported_at_startup(openid_client, tmp_path):
    with pytest.raises(SettingsError, match="CA_FILE"):
        openid_client("https://id.example.com", ca_file=str(tmp_path / "missing.pem"))
