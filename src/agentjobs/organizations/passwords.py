"""Passwords: whether one may be used, its argon2id hash, and whether a typed one is right.

Hashing takes much memory and time on purpose: in threads, two at once. Composing characters takes
time by the square of their number: never before the length is known. Refuses to know users.
"""

import asyncio
import functools
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from agentjobs.problems import Problem

LEAST_LENGTH = 10
MOST_LENGTH = 1_024

_MOST_AT_ONCE = 2
T = TypeVar("T")


def check_password(password: str, email: str) -> None:
    """Raise Problem unless it may be a password of the user with that e-mail address."""
    # As typed first: what is too long to be one would stop the event loop for seconds.
    if len(password) > MOST_LENGTH:
        raise _wrong_length()
    text = _normal(password)
    if not LEAST_LENGTH <= len(text) <= MOST_LENGTH:
        raise _wrong_length()
    if text.lower() in {email, email.partition("@")[0]}:
        raise _weak("The e-mail address is no password")
    if len(set(text)) == 1:
        raise _weak("One character over and over is no password")


async def hash_password(password: str) -> str:
    return await _in_thread(lambda: _hasher().hash(_encoded(password)))


async def verify_password(hashed: str | None, password: str) -> bool:
    """None, of somebody who has no password or is nobody, takes as long as any other."""
    if hashed is None or len(password) > MOST_LENGTH:
        await hash_password(password[:MOST_LENGTH])
        return False
    return await _in_thread(lambda: _is_right(hashed, password))


def needs_rehash(hashed: str) -> bool:
    """It was made with other costs than the library takes today."""
    return _hasher().check_needs_rehash(hashed)


def _is_right(hashed: str, password: str) -> bool:
    try:
        return _hasher().verify(hashed, _encoded(password))
    except (VerificationError, InvalidHashError):
        return False


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="passwords")


@functools.cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


def _normal(password: str) -> str:
    """The same letters are the same password, however a keyboard composes them."""
    return unicodedata.normalize("NFKC", password)


def _encoded(password: str) -> bytes:
    return _normal(password).encode("utf-8", "surrogatepass")


def _wrong_length() -> Problem:
    return _weak(f"A password has {LEAST_LENGTH} to {MOST_LENGTH:,} characters")


def _weak(reason: str) -> Problem:
    return Problem("weak_password", f"{reason}; choose another, such as four words of your own.")
