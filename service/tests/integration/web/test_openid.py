"""Sign-in through a certified provider, from `begin` to the user's identity."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from agentjobs.organizations.identities import Identity
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.web.openid import OpenId
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings
from tests.support.openid_provider import (
    ADA,
    CLIENT,
    Provider,
    cancel_at,
    openid_provider,
    sign_in_at,
)

BOB = {"sub": "bob-1", "email": "bob@example.com", "email_verified": False, "name": "Bob"}
SHY = {**ADA, "sub": "shy-1", "email": "shy@example.com", "name": "Shy", "hides_email": True}
PUBLIC = {**CLIENT, "client_id": "public", "token_endpoint_auth_method": "none"}
ELLIPTIC = {**CLIENT, "client_id": "elliptic", "id_token_signed_response_alg": "ES256"}
OTHER_ALGORITHM = {**CLIENT, "client_id": "pss", "id_token_signed_response_alg": "PS256"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    public = {name: value for name, value in PUBLIC.items() if name != "client_secret"}
    with openid_provider((ADA, BOB, SHY), (CLIENT, public, ELLIPTIC, OTHER_ALGORITHM)) as running:
        yield running


@pytest.fixture
def openid_client(provider, tmp_path):
    """Opens a client of the provider: `async with openid_client() as openid`."""

    @asynccontextmanager
    async def connect(clock: Callable[[], int] = now_ms, **overrides: str) -> AsyncIterator[OpenId]:
        values = {
            "oidc_issuer": provider.issuer,
            "oidc_client_id": "agentjobs",
            "oidc_client_secret": CLIENT["client_secret"],
        }
        settings = Settings(port=4321, data_dir=str(tmp_path), **(values | overrides))
        openid = OpenId(settings, SealingKeys.load(settings), clock)
        try:
            yield openid
        finally:
            await openid.close()

    return connect


async def test_a_user_signs_in(openid_client, provider):
    async with openid_client() as openid:
        started = await openid.begin("/jobs?status=failed", "inv_1")
        finished = await openid.finish(started.cookie, sign_in_at(started.url, ADA["email"]))
    assert finished.identity == Identity(
        issuer=provider.issuer,
        subject="ada-1",
        email="ada@example.com",
        email_verified=True,
        name="Ada",
    )
    assert (finished.next, finished.invitation) == ("/jobs?status=failed", "inv_1")


@pytest.mark.parametrize(
    "client",
    [
        {"oidc_client_id": "public", "oidc_client_secret": ""},
        {"oidc_client_id": "elliptic"},
        {"oidc_client_id": "pss"},
    ],
    ids=lambda client: client["oidc_client_id"],
)
async def test_clients_of_other_kinds_sign_in_too(openid_client, client):
    async with openid_client(**client) as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, ADA["email"]))
    assert (finished.identity.subject, finished.invitation) == ("ada-1", None)


async def test_an_unverified_email_stays_unverified(openid_client):
    async with openid_client() as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, BOB["email"]))
    assert (finished.identity.email, finished.identity.email_verified) == (BOB["email"], False)


async def test_an_email_missing_from_the_token_is_read_from_userinfo(openid_client):
    async with openid_client() as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, SHY["email"]))
    assert (finished.identity.subject, finished.identity.email) == ("shy-1", "shy@example.com")
    assert finished.identity.email_verified


async def test_a_callback_is_accepted_once(openid_client):
    async with openid_client() as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        await openid.finish(started.cookie, params)
        await _assert_refused(openid, started.cookie, params, "Start again")


async def test_a_callback_of_another_browser_is_refused(openid_client):
    async with openid_client() as openid:
        mine, other = await openid.begin("/", None), await openid.begin("/", None)
        params = sign_in_at(other.url, ADA["email"])
        await _assert_refused(openid, mine.cookie, params, "Start again")
        await _assert_refused(openid, "", params, "Start again")
        # This browser's state with the other's code: the verifier does not match.
        mixed = {**sign_in_at(mine.url, ADA["email"]), "code": params["code"]}
        await _assert_refused(openid, mine.cookie, mixed, "Start again")


async def test_a_sign_in_that_took_too_long_is_refused(openid_client):
    now = now_ms()
    async with openid_client(clock=lambda: now) as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        now += 601_000
        await _assert_refused(openid, started.cookie, params, "Start again")


async def test_a_cancelled_sign_in_shows_the_providers_error(openid_client):
    async with openid_client() as openid:
        started = await openid.begin("/", None)
        params = cancel_at(started.url)
        assert params["error"] == "access_denied"
        await _assert_refused(openid, started.cookie, params, "error: access_denied. Try again")


async def test_a_callback_must_name_this_provider_as_issuer(openid_client, provider):
    async with openid_client() as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        assert params["iss"] == provider.issuer
        for issuer in ("https://evil.example.com", provider.issuer + "/"):
            await _assert_refused(openid, started.cookie, {**params, "iss": issuer}, "is not valid")
        del params["iss"]
        await _assert_refused(openid, started.cookie, params, "is not valid")


async def test_a_wrong_client_secret_fails_the_sign_in_and_is_not_logged(openid_client, caplog):
    async with openid_client(oidc_client_secret="wrong") as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        await _assert_refused(openid, started.cookie, params, "error: invalid_client")
    assert "wrong" not in caplog.text
    assert params["code"] not in caplog.text


async def test_a_trailing_slash_of_the_issuer_is_ignored(openid_client, provider):
    async with openid_client(oidc_issuer=provider.issuer + "/") as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, ADA["email"]))
    assert finished.identity.issuer == provider.issuer


async def _assert_refused(
    openid: OpenId, cookie: str, params: dict[str, str], message: str
) -> None:
    with pytest.raises(Problem, match=message) as problem:
        await openid.finish(cookie, params)
    assert problem.value.code == "sign_in_failed"
