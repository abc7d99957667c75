"""A GitHub App's signature, the lifetime of its tokens, and its missing permissions."""

import asyncio
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey

from agentjobs.platforms.github.access import api_url
from agentjobs.platforms.github.app import (
    EXTRA_PERMISSIONS,
    LIST_PERMISSIONS,
    WORK_PERMISSIONS,
    InstallationToken,
    Scope,
    TokenCache,
    app_jwt,
    choose_permissions,
    missing_features,
    missing_permissions,
    permission_titles,
)
from agentjobs.platforms.protocol import PlatformError
from tests.support.manual_clock import ManualClock


@pytest.fixture(scope="module")
def private_key() -> str:
    # As GitHub gives it to download.
    return (
        rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        .decode()
    )


class Desk:
    """Issues tokens that are valid for an hour."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.given = 0
        self.fails = False

    async def ask(self) -> InstallationToken:
        await asyncio.sleep(0)
        if self.fails:
            raise PlatformError("GitHub is out of order.", "away")
        self.given += 1
        ends_at = datetime.fromtimestamp(self.clock.now + 3_600, UTC)
        return InstallationToken(f"ghs_{self.given}", ends_at)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def desk(clock: ManualClock) -> Desk:
    return Desk(clock)


def test_an_app_signs_for_less_than_ten_minutes_with_its_key(private_key: str) -> None:
    signed = app_jwt("4711", private_key, 1_800_000_000.7)
    token = jwt.decode(signed, RSAKey.import_key(private_key), ["RS256"])
    assert token.header["alg"] == "RS256"
    assert token.claims == {"iat": 1_799_999_940, "exp": 1_800_000_540, "iss": "4711"}


@pytest.mark.parametrize("key", ["", "no key", "-----BEGIN RSA PRIVATE KEY-----\nabcd\n-----END"])
def test_a_key_that_cannot_be_read_is_not_quoted(key: str) -> None:
    with pytest.raises(PlatformError, match="private key") as caught:
        app_jwt("4711", key, 0)
    assert caught.value.fault == "unauthorized"
    assert "abcd" not in repr((caught.value, caught.value.__cause__))


async def test_a_token_is_replaced_five_minutes_before_it_ends(
    clock: ManualClock, desk: Desk
) -> None:
    cache = TokenCache(clock)
    assert (await cache.token("a", desk.ask)).token == "ghs_1"
    clock.now += 3_299
    assert (await cache.token("a", desk.ask)).token == "ghs_1"
    clock.now += 1
    assert (await cache.token("a", desk.ask)).token == "ghs_2"
    assert (await cache.token("b", desk.ask)).token == "ghs_3"


async def test_concurrent_callers_share_one_token_request(clock: ManualClock, desk: Desk) -> None:
    cache = TokenCache(clock)
    wanted = [cache.token("a", desk.ask) for _ in range(20)]
    assert {token.token for token in await asyncio.gather(*wanted)} == {"ghs_1"}


async def test_a_cancelled_token_request_is_left_to_the_next_caller(
    clock: ManualClock, desk: Desk
) -> None:
    cache = TokenCache(clock)
    first = asyncio.ensure_future(cache.token("a", asyncio.Event().wait))  # type: ignore[arg-type]
    second = asyncio.ensure_future(cache.token("a", desk.ask))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).token == "ghs_1"
    desk.fails = True
    with pytest.raises(PlatformError):
        await cache.token("b", desk.ask)
    desk.fails = False
    assert (await cache.token("b", desk.ask)).token == "ghs_2"


async def test_a_token_that_was_not_accepted_is_replaced_once(
    clock: ManualClock, desk: Desk
) -> None:
    cache = TokenCache(clock)
    assert not cache.forget("a")
    await cache.token("a", desk.ask)
    assert cache.forget("a")
    assert not cache.forget("a")
    assert (await cache.token("a", desk.ask)).token == "ghs_2"


async def test_expired_tokens_are_removed(clock: ManualClock, desk: Desk) -> None:
    cache = TokenCache(clock)
    for number in range(50):
        await cache.token(number, desk.ask)
    clock.now += 3_600
    await cache.token("new", desk.ask)
    assert len(cache._tokens) == 1


def test_no_token_is_shown_by_what_holds_it(clock: ManualClock) -> None:
    assert "ghs_" not in repr(InstallationToken("ghs_secret", datetime.fromtimestamp(0, UTC)))


def test_a_token_is_limited_to_one_repository_and_the_needed_permissions() -> None:
    assert Scope("7", "acme/shop").fields == {"repository_ids": [7]}
    assert Scope(full_name="acme/shop").fields == {"repositories": ["shop"]}
    assert Scope("7", "acme/shop").permissions == WORK_PERMISSIONS
    assert (Scope().fields, Scope().permissions) == ({}, LIST_PERMISSIONS)


def test_missing_permissions_are_named_as_on_github() -> None:
    granted = {"contents": "read", "pull_requests": "write", "metadata": "read"}
    missing = missing_permissions(granted, WORK_PERMISSIONS)
    assert permission_titles(missing) == ("Contents: read and write", "Issues: read and write")
    assert missing_permissions({"contents": "admin"}, {"contents": "write"}) == ()
    with pytest.raises(PlatformError, match="“Contents: read and write”") as caught:
        choose_permissions(granted, WORK_PERMISSIONS)
    assert caught.value.fault == "denied"


def test_granted_permissions_that_work_needs_are_asked_for() -> None:
    extra = {"workflows": "write", "repository_hooks": "write", "checks": "write"}
    extra["statuses"] = "write"
    granted = {**WORK_PERMISSIONS, **extra, "administration": "write"}
    assert choose_permissions(granted, WORK_PERMISSIONS) == {**WORK_PERMISSIONS, **extra}
    assert choose_permissions(granted, LIST_PERMISSIONS) == LIST_PERMISSIONS
    (missing,) = missing_features(granted, EXTRA_PERMISSIONS)
    assert missing == "Organization members: read-only (to request reviews from teams)"


@pytest.mark.parametrize("issues", ["none", "read"])
def test_an_app_without_issues_works_without_them(issues: str) -> None:
    granted = {"contents": "write", "pull_requests": "write", "metadata": "read", "issues": issues}
    wanted = choose_permissions(granted, WORK_PERMISSIONS)
    assert wanted.get("issues", "none") == issues
    assert wanted["contents"] == "write"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://github.com", "https://api.github.com"),
        ("https://acme.ghe.com", "https://api.acme.ghe.com"),
        ("https://git.acme.test", "https://git.acme.test/api/v3"),
        ("https://git.acme.test:8443/hub", "https://git.acme.test:8443/hub/api/v3"),
        ("https://notgithub.com", "https://notgithub.com/api/v3"),
    ],
)
def test_the_api_url_depends_on_the_kind_of_github(url: str, address: str) -> None:
    assert api_url(url) == address
