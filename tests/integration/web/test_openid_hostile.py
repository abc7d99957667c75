"""A provider, or somebody between, that does not keep to the rules; and browsers that do not."""

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

from agentjobs.clock import now_ms
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.settings import Settings, SettingsError
from agentjobs.web.openid import OpenId, exchange
from tests.support.hostile_openid import DISCOVERY, HostileProvider, basic, hostile_provider

SECRET = "s3cret"
ENDPOINTS = (DISCOVERY, "/token", "/jwks", "/userinfo")


@pytest.fixture
async def provider():
    async with hostile_provider() as running:
        yield running


@pytest.fixture
async def relying(tmp_path):
    """`relying(issuer)` is an OpenId of that provider."""
    made: list[OpenId] = []

    def make(issuer, clock=now_ms, **changed) -> OpenId:
        values = {"oidc_client_id": "us", "oidc_client_secret": SECRET, "data_dir": str(tmp_path)}
        settings = Settings(oidc_issuer=issuer, **(values | changed))
        made.append(OpenId(settings, SealingKeys.load(settings), clock))
        return made[-1]

    yield make
    for openid in made:
        await openid.close()


class Clock:
    """Ahead of the real one; `skip` lets everything end that is remembered."""

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
def openid(provider, relying, clock) -> OpenId:
    return relying(provider.issuer, clock)


async def sign_in(openid: OpenId, provider: HostileProvider, **params):
    started = await openid.begin("/", None)
    return await openid.finish(started.cookie, provider.callback(started.url) | params)


async def refused(doing, code="sign_in_failed") -> str:
    with pytest.raises(Problem) as problem:
        await doing
    assert problem.value.code == code
    assert problem.value.message.isprintable()
    assert len(problem.value.message) < 400
    return problem.value.message


async def test_as_long_as_it_keeps_to_the_rules_it_is_believed(openid, provider):
    finished = await sign_in(openid, provider)
    assert (finished.identity.subject, finished.identity.email) == ("1", "ada@example.com")
    await sign_in(openid, provider)
    # The document and the keys are asked for once, userinfo never: the token has the address.
    assert sorted(provider.asked) == [DISCOVERY, "/jwks", "/token", "/token"]
    assert provider.headers[-1]["Authorization"] == basic("us", SECRET)


async def test_the_address_it_names_keeps_its_own_parameters(openid, provider):
    assert (await openid.begin("/", None)).url.startswith(f"{provider.issuer}/auth?kept=1&")


async def test_a_provider_that_knows_only_forms_gets_the_secret_in_one(openid, provider):
    provider.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await sign_in(openid, provider)
    assert provider.forms[0].items() >= {"client_id": "us", "client_secret": SECRET}.items()
    assert "Authorization" not in provider.headers[1]


async def test_a_token_that_is_not_for_this_sign_in_is_refused(openid, provider):
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
        await refused(sign_in(openid, provider))
    provider.claims = honest
    await sign_in(openid, provider)


async def test_an_old_token_does_not_count_again(openid, provider):
    kept: list[str] = []
    provider.sign = lambda claims: (kept.append(provider.signed(claims)), kept[0])[1]
    await sign_in(openid, provider)
    await refused(sign_in(openid, provider))


def _by_hand(header, claims, key: bytes = b"") -> str:
    def written(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    told = ".".join(written(json.dumps(part).encode()) for part in (header, claims))
    return f"{told}.{written(hmac.digest(key, told.encode(), 'sha256')) if key else ''}"


async def test_a_token_that_anybody_could_have_made_is_refused(openid, provider):
    public = provider.key.as_pem(private=False)
    provider.sign = lambda claims: _by_hand({"alg": "none"}, claims)
    await refused(sign_in(openid, provider))
    for known in (SECRET.encode(), public):
        provider.sign = lambda claims, known=known: _by_hand(
            {"alg": "HS256", "kid": "one"}, claims, known
        )
        await refused(sign_in(openid, provider))
    stranger = jwk.ECKey.generate_key("P-256")
    header = {"alg": "ES256", "kid": "one", "jwk": stranger.as_dict(private=False)}
    provider.sign = lambda claims: jwt.encode(header, claims, stranger)
    await refused(sign_in(openid, provider))


async def test_new_keys_are_asked_for_once_a_minute(provider, relying):
    now = now_ms()
    openid = relying(provider.issuer, lambda: now)
    await sign_in(openid, provider)
    provider.key = jwk.ECKey.generate_key("P-256", {"kid": "two"})
    await sign_in(openid, provider)
    assert provider.asked.count("/jwks") == 2
    provider.sign = lambda claims: jwt.encode({"alg": "ES256", "kid": "?"}, claims, provider.key)
    for _ in range(3):
        await refused(sign_in(openid, provider))
    assert provider.asked.count("/jwks") == 2
    now += 60_000
    await refused(sign_in(openid, provider))
    assert provider.asked.count("/jwks") == 3


async def test_userinfo_about_somebody_else_is_refused(openid, provider):
    provider.claims = {"sub": "1"}
    assert (await sign_in(openid, provider)).identity.email == "ada@example.com"
    assert provider.headers[-1]["Authorization"] == "Bearer at"
    provider.userinfo["sub"] = "2"
    await refused(sign_in(openid, provider))


def _saying(body: bytes, status: int = 200):
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, content_type="application/json")

    return handler


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_no_answer_of_any_kind_is_a_traceback(provider, openid, clock, path):
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
        provider.answers = {path: _saying(body, status)}
        if path in (DISCOVERY, "/jwks"):
            clock.skip()
        await refused(sign_in(openid, provider))


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_an_endless_answer_is_not_read_to_its_end(provider, openid, path):
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        while not request.transport.is_closing():
            await response.write(b" " * 65_536)
            written += 65_536
        return response

    provider.claims = {"sub": "1"}
    provider.answers = {path: endless}
    await refused(sign_in(openid, provider))
    assert written < 32 * exchange.MAX_BYTES


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_nobody_is_sent_on_to_elsewhere(provider, openid, path):
    async def elsewhere(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"{provider.issuer}/elsewhere"})

    provider.claims = {"sub": "1"}
    provider.answers = {path: elsewhere}
    await refused(sign_in(openid, provider))
    assert "/elsewhere" not in provider.asked


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_provider_in_trouble_is_said_to_be_unavailable(
    provider, openid, clock, path, monkeypatch
):
    is_over = asyncio.Event()

    async def silent(_: web.Request) -> web.Response:
        await is_over.wait()
        return web.Response()

    async def cut(request: web.Request) -> web.Response:
        request.transport.abort()
        return web.Response()

    monkeypatch.setattr(exchange, "TIMEOUT_SECONDS", 0.2)
    provider.claims = {"sub": "1"}
    for handler in (_saying(b"", 500), _saying(b"", 429), cut, silent):
        provider.answers = {path: handler}
        if path in (DISCOVERY, "/jwks"):
            clock.skip()
        await refused(sign_in(openid, provider), "provider_unavailable")
    is_over.set()


async def test_a_provider_that_is_down_is_not_asked_by_everybody(relying):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        issuer = f"http://127.0.0.1:{taken.getsockname()[1]}"
    openid = relying(issuer)
    everybody = (openid.begin("/", None) for _ in range(50))
    found = await asyncio.gather(*everybody, return_exceptions=True)
    assert {each.code for each in found} == {"provider_unavailable"}


async def test_a_document_that_leads_astray_is_refused(openid, provider, clock):
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
        await refused(openid.begin("/", None))
    provider.document = {}
    clock.skip()
    await openid.begin("/", None)


async def test_a_provider_cannot_send_us_to_a_cloud_metadata_service(openid, provider, caplog):
    provider.document = {"token_endpoint": "https://169.254.169.254/latest"}
    await refused(sign_in(openid, provider), "provider_unavailable")
    assert "is a link-local address" in caplog.text


async def test_algorithms_must_be_of_the_good_kind(openid, provider):
    provider.document = {"id_token_signing_alg_values_supported": ["none", "HS256"]}
    await refused(sign_in(openid, provider))


async def test_no_callback_of_any_kind_is_a_traceback(openid, provider):
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
        await refused(sign_in(openid, provider, **params))
    await sign_in(openid, provider)


async def test_what_a_link_says_is_not_shown_before_the_state_is_right(openid, provider):
    started = await openid.begin("/", None)
    params = {"error": "call this number", "state": "guessed"}
    assert "number" not in await refused(openid.finish(started.cookie, params))
    assert "/token" not in provider.asked


async def test_https_needs_a_certificate_that_the_operator_trusts(relying, tmp_path):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    async with hostile_provider(context) as provider:
        await refused(relying(provider.issuer).begin("/", None), "provider_unavailable")
        openid = relying(provider.issuer, ca_file=str(ca_file))
        assert (await sign_in(openid, provider)).identity.subject == "1"
        # From https there is no way back.
        provider.document = {"token_endpoint": "http://127.0.0.1/token"}
        await refused(relying(provider.issuer, ca_file=str(ca_file)).begin("/", None))
        await openid.close()


async def test_a_ca_file_that_cannot_be_read_is_said_at_the_start(relying, tmp_path):
    with pytest.raises(SettingsError, match="CA_FILE"):
        relying("https://id.example.com", ca_file=str(tmp_path / "missing.pem"))
