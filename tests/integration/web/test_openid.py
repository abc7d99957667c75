"""Signing in at a certified provider, all the way: from `begin` to who somebody is."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from agentjobs.clock import now_ms
from agentjobs.organizations.identities import Identity
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.web.openid import OpenId
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
def relying(provider, tmp_path):
    """`async with relying(client_id=…) as openid`."""

    @asynccontextmanager
    async def made(clock: Callable[[], int] = now_ms, **changed: str) -> AsyncIterator[OpenId]:
        values = {
            "oidc_issuer": provider.issuer,
            "oidc_client_id": "agentjobs",
            "oidc_client_secret": CLIENT["client_secret"],
        }
        settings = Settings(port=4321, data_dir=str(tmp_path), **(values | changed))
        openid = OpenId(settings, SealingKeys.load(settings), clock)
        try:
            yield openid
        finally:
            await openid.close()

    return made


async def test_somebody_signs_in(relying, provider):
    async with relying() as openid:
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
async def test_clients_of_other_kinds_sign_in_too(relying, client):
    async with relying(**client) as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, ADA["email"]))
    assert (finished.identity.subject, finished.invitation) == ("ada-1", None)


async def test_an_address_that_is_not_verified_is_not_called_so(relying):
    async with relying() as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, BOB["email"]))
    assert (finished.identity.email, finished.identity.email_verified) == (BOB["email"], False)


async def test_an_address_that_no_token_tells_is_asked_for(relying):
    async with relying() as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, SHY["email"]))
    assert (finished.identity.subject, finished.identity.email) == ("shy-1", "shy@example.com")
    assert finished.identity.email_verified


async def test_a_callback_counts_once(relying):
    async with relying() as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        await openid.finish(started.cookie, params)
        await _refused(openid, started.cookie, params, "Start again")


async def test_a_callback_of_another_browser_is_refused(relying):
    async with relying() as openid:
        mine, theirs = await openid.begin("/", None), await openid.begin("/", None)
        params = sign_in_at(theirs.url, ADA["email"])
        await _refused(openid, mine.cookie, params, "Start again")
        await _refused(openid, "", params, "Start again")
        # With my state and their code, the verifier does not fit.
        mixed = {**sign_in_at(mine.url, ADA["email"]), "code": params["code"]}
        await _refused(openid, mine.cookie, mixed, "Start again")


async def test_a_sign_in_that_took_too_long_is_refused(relying):
    now = now_ms()
    async with relying(clock=lambda: now) as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        now += 601_000
        await _refused(openid, started.cookie, params, "Start again")


async def test_who_cancels_is_told_what_the_provider_said(relying):
    async with relying() as openid:
        started = await openid.begin("/", None)
        params = cancel_at(started.url)
        assert params["error"] == "access_denied"
        await _refused(openid, started.cookie, params, "error: access_denied. Try again")


async def test_an_answer_must_say_that_it_is_of_this_provider(relying, provider):
    async with relying() as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        assert params["iss"] == provider.issuer
        for issuer in ("https://evil.example.com", provider.issuer + "/"):
            await _refused(openid, started.cookie, {**params, "iss": issuer}, "is not valid")
        del params["iss"]
        await _refused(openid, started.cookie, params, "is not valid")


async def test_a_wrong_secret_is_the_operators_matter(relying, caplog):
    async with relying(oidc_client_secret="wrong") as openid:
        started = await openid.begin("/", None)
        params = sign_in_at(started.url, ADA["email"])
        await _refused(openid, started.cookie, params, "error: invalid_client")
    assert "wrong" not in caplog.text
    assert params["code"] not in caplog.text


async def test_a_slash_at_the_end_of_the_issuer_does_not_matter(relying, provider):
    async with relying(oidc_issuer=provider.issuer + "/") as openid:
        started = await openid.begin("/", None)
        finished = await openid.finish(started.cookie, sign_in_at(started.url, ADA["email"]))
    assert finished.identity.issuer == provider.issuer


async def _refused(openid: OpenId, cookie: str, params: dict[str, str], words: str) -> None:
    with pytest.raises(Problem, match=words) as problem:
        await openid.finish(cookie, params)
    assert problem.value.code == "sign_in_failed"
