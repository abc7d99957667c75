"""What may be a password, and what its hash says."""

import asyncio
import threading

import pytest
from argon2 import PasswordHasher

from agentjobs.organizations import passwords
from agentjobs.organizations.passwords import (
    check_password,
    hash_password,
    needs_rehash,
    verify_password,
)
from agentjobs_runtime.problems import Problem
from tests.support.users import make_passwords_cheap

EMAIL = "ada.lovelace@example.com"


@pytest.fixture
def cheap(monkeypatch):
    make_passwords_cheap(monkeypatch)


@pytest.mark.parametrize(
    "password",
    [
        "",
        "ninechars",
        "x" * 1_025,
        "a" * 20,
        EMAIL,
        EMAIL.upper(),
        "Ada.Lovelace",
        "ﬁ" * 12 * 512,
        "ﷺ" * 100,
    ],
)
def test_guessable_passwords_are_refused_with_advice(password):
    with pytest.raises(Problem) as caught:
        check_password(password, EMAIL)
    assert caught.value.code == "weak_password"
    assert "Choose another" in caught.value.message


@pytest.mark.parametrize("password", ["tencharact", "x1" * 512, "пароль из слов", " " * 9 + "x"])
def test_any_other_password_of_ten_characters_is_accepted(password):
    check_password(password, EMAIL)


async def test_only_the_password_itself_is_right(cheap):
    hashed = await hash_password("correct horse")
    assert hashed.startswith("$argon2id$")
    assert await verify_password(hashed, "correct horse")
    assert not await verify_password(hashed, "correct horsf")
    assert not await verify_password(hashed, "")
    assert not await verify_password(None, "correct horse")
    assert not await verify_password("no hash at all", "correct horse")


async def test_a_password_is_the_same_however_its_letters_are_composed(cheap):
    hashed = await hash_password("caf\u00e9 au lait")
    assert await verify_password(hashed, "cafe\u0301 au lait")


async def test_odd_or_huge_passwords_are_wrong_but_do_not_crash(cheap):
    hashed = await hash_password("correct horse")
    assert not await verify_password(hashed, "\udc80 \0")
    assert not await verify_password(hashed, "x" * 100_000)


async def test_a_hash_with_other_costs_needs_a_rehash():
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("correct horse")
    assert needs_rehash(cheap)
    assert await verify_password(cheap, "correct horse")
    assert not needs_rehash(await hash_password("correct horse"))


async def test_an_unknown_user_takes_as_long_as_a_known_one(monkeypatch):
    """By what is computed rather than by a clock, which is never the same twice."""
    hashes = []
    hasher = PasswordHasher()

    class Counting:
        def hash(self, password):
            hashes.append("argon2")
            return hasher.hash(password)

    monkeypatch.setattr(passwords, "_hasher", Counting)
    assert not await verify_password(None, "correct horse")
    assert hashes == ["argon2"]


@pytest.mark.parametrize("hashed", [None, "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$aGFzaA"])
async def test_passwords_are_normalized_only_after_their_length_is_checked(
    cheap, monkeypatch, hashed
):
    """Half a megabyte of combining marks takes many seconds, and tells who has an account."""
    composed = []

    def normalize(password):
        composed.append((len(password), threading.current_thread() is threading.main_thread()))
        return password

    monkeypatch.setattr(passwords, "_normalize", normalize)
    endless = "\u0345\u0301\u0316" * 170_000
    with pytest.raises(Problem, match="10 to 1,024 characters"):
        check_password(endless, EMAIL)
    assert composed == []
    assert not await verify_password(hashed, endless)
    assert not await verify_password(hashed, "correct horse")
    assert composed == [(1_024, False), (13, False)]


async def test_at_most_two_passwords_are_hashed_at_once(monkeypatch):
    at_once, seen, two_are_in = 0, [], threading.Barrier(2)
    lock = threading.Lock()

    class Slow:
        def hash(self, _password):
            nonlocal at_once
            with lock:
                at_once += 1
                seen.append(at_once)
            # Passes only if another one is under way as well.
            two_are_in.wait(10)
            with lock:
                at_once -= 1
            return ""

    monkeypatch.setattr(passwords, "_hasher", Slow)
    await asyncio.gather(*(hash_password("x") for _ in range(6)))
    assert max(seen) == 2
