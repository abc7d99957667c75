"""The state of a pending sign-in: its cookie, contents and lifetime."""

import base64
import logging

import pytest

from agentjobs.organizations.sealing import SealingKeys
from agentjobs.web.openid.errors import provider_error
from agentjobs.web.openid.pending import (
    MAX_AGE_MS,
    MAX_COOKIE_CHARACTERS,
    new_pending,
    open_pending,
    seal_pending,
)
from agentjobs.web.openid.provider import MAX_AGE_MS as REMEMBERED_MS
from agentjobs.web.openid.provider import MIN_REFRESH_INTERVAL_MS, CachedDocument
from agentjobs_runtime.problems import Problem

ISSUER = "https://id.example.com"
NOW = 1_800_000_000_000


@pytest.fixture
def keys(tmp_path):
    return SealingKeys([], tmp_path / "encryption.key")


def assert_refused(keys, cookie, issuer=ISSUER, now=NOW) -> None:
    with pytest.raises(Problem) as problem:
        open_pending(keys, cookie, issuer, now)
    assert problem.value.code == "sign_in_failed"
    assert "Start again" in problem.value.message


def test_a_sealed_sign_in_is_valid_for_ten_minutes(keys):
    pending = new_pending("/jobs?page=2", "inv_token", NOW)
    cookie = seal_pending(keys, pending, ISSUER)
    assert open_pending(keys, cookie, ISSUER, NOW + MAX_AGE_MS) == pending
    assert_refused(keys, cookie, now=NOW + MAX_AGE_MS + 1)


def test_a_cookie_belongs_to_one_provider_and_one_service(keys, tmp_path):
    cookie = seal_pending(keys, new_pending("/", None, NOW), ISSUER)
    assert_refused(keys, cookie, issuer="https://other.example.com")
    assert_refused(SealingKeys([], tmp_path / "another.key"), cookie)


def test_other_sealed_values_are_not_accepted_as_a_sign_in(keys):
    sealed = keys.seal('{"state": "s"}', "secret", ISSUER).data
    assert_refused(keys, base64.urlsafe_b64encode(sealed).decode())


@pytest.mark.parametrize(
    "cookie", ["", "=", "x", "A" * 40, "A" * 10_000, "🙂", "\ud800", "a b", "AAAA\n", "%00"]
)
def test_an_unknown_cookie_is_refused(keys, cookie):
    assert_refused(keys, cookie)


def test_a_changed_cookie_is_refused(keys):
    cookie = seal_pending(keys, new_pending("/", None, NOW), ISSUER)
    for place in range(0, len(cookie), 7):
        changed = "A" if cookie[place] != "A" else "B"
        assert_refused(keys, cookie[:place] + changed + cookie[place + 1 :])


def test_every_sign_in_has_its_own_secrets():
    pairs = [new_pending("/", None, NOW) for _ in range(3)]
    assert (
        len({secret for pair in pairs for secret in (pair.state, pair.nonce, pair.verifier)}) == 9
    )


def test_an_invalid_or_too_long_return_path_is_dropped(keys):
    for place in ("/" + "x" * 1_500, "/\r\nSet-Cookie: a=b", "/\ud800", "/" + "🙂" * 400):
        assert new_pending(place, None, NOW).next == "/"
    fullest = new_pending("/" + '"' * 748, '"' * 249, NOW)
    assert len(fullest.next) == 749
    assert len(seal_pending(keys, fullest, ISSUER)) <= MAX_COOKIE_CHARACTERS


def test_an_invalid_invitation_is_refused():
    for invitation in ("x" * 501, "a\nb", "\ud800"):
        with pytest.raises(Problem) as problem:
            new_pending("/", invitation, NOW)
        assert problem.value.code == "sign_in_failed"


def test_an_unusable_key_is_reported_to_the_operator(tmp_path, caplog):
    path = tmp_path / "encryption.key"
    path.write_text("x")
    path.chmod(0o644)
    with pytest.raises(Problem) as problem:
        seal_pending(SealingKeys([], path), new_pending("/", None, NOW), ISSUER)
    assert problem.value.code == "sign_in_failed"
    assert str(path) not in problem.value.message
    assert "chmod 600" in caplog.text


def test_the_providers_error_is_truncated_and_printable(caplog):
    with caplog.at_level(logging.WARNING):
        problem = provider_error("a\x1b[31m\u202e" + "b" * 9_999, "c\n" * 9_999)
    assert problem.message.startswith("The sign-in provider returned an error: a?[31m?bbb")
    assert len(problem.message) < 350
    assert "\n" not in caplog.messages[0]
    assert len(caplog.messages[0]) < 250


class Source:
    """Counts its fetches; `now` is the clock."""

    def __init__(self):
        self.fetch_count = 0
        self.now = NOW

    async def fetch(self):
        self.fetch_count += 1
        return self.fetch_count


async def test_a_fetched_document_is_cached_for_an_hour():
    source = Source()
    remembered = CachedDocument(source.fetch, lambda: source.now)
    assert [await remembered.value(), await remembered.value()] == [1, 1]
    source.now += REMEMBERED_MS - 1
    assert await remembered.value() == 1
    source.now += 1
    assert await remembered.value() == 2
    source.now -= 10 * REMEMBERED_MS
    assert await remembered.value() == 3


async def test_a_document_is_refreshed_at_most_once_a_minute():
    source = Source()
    remembered = CachedDocument(source.fetch, lambda: source.now)
    assert await remembered.value() == 1
    assert [await remembered.refresh(), await remembered.refresh()] == [2, 2]
    source.now += MIN_REFRESH_INTERVAL_MS
    assert [await remembered.refresh(), await remembered.value()] == [3, 3]
