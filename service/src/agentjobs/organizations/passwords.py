"""Checks, hashes (argon2id) and verifies passwords. Knows nothing about users.

Hashing is deliberately expensive, so it runs in threads, at most two at a time. Unicode
normalization takes quadratic time, so the length is checked first.
"""

import asyncio
import functools
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from agentjobs_runtime.problems import Problem

MIN_LENGTH = 10
MAX_LENGTH = 1_024

_MAX_THREADS = 2
T = TypeVar("T")


def check_password(password: str, email: str) -> None:
    """Raise Problem unless the user with that email address may use the password."""
    # Before normalization, which would block the event loop for seconds on a huge text.
    if len(password) > MAX_LENGTH:
        raise _wrong_length()
    text = _normalize(password)
    if not MIN_LENGTH <= len(text) <= MAX_LENGTH:
        raise _wrong_length()
    if text.lower() in {email, email.partition("@")[0]}:
        raise _weak_password("The password must not be the email address")
    if len(set(text)) == 1:
        raise _weak_password("The password must not repeat a single character")


async def hash_password(password: str) -> str:
    return await _in_thread(lambda: _hasher().hash(_encode(password)))


async def verify_password(hashed: str | None, password: str) -> bool:
    """None, for an unknown user or one without a password, takes as long as a real hash."""
    if hashed is None or len(password) > MAX_LENGTH:
        await hash_password(password[:MAX_LENGTH])
        return False
    return await _in_thread(lambda: _matches(hashed, password))


def needs_rehash(hashed: str) -> bool:
    """The hash was created with other cost parameters than the library's current ones."""
    return _hasher().check_needs_rehash(hashed)


def _matches(hashed: str, password: str) -> bool:
    try:
        return _hasher().verify(hashed, _encode(password))
    except (VerificationError, InvalidHashError):
        return False


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="passwords")


@functools.cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


def _normalize(password: str) -> str:
    """Keyboards compose the same characters differently."""
    return unicodedata.normalize("NFKC", password)


def _encode(password: str) -> bytes:
    return _normalize(password).encode("utf-8", "surrogatepass")


def _wrong_length() -> Problem:
    return _weak_password(f"The password must have {MIN_LENGTH} to {MAX_LENGTH:,} characters")


def _weak_password(reason: str) -> Problem:
    return Problem("weak_password", f"{reason}. Choose another one, such as four random words.")
