"""A GitHub App: how it signs for itself, and the tokens it is given for an hour at a time.

Tokens live in this process's memory only. Knows no requests: whoever asks GitHub brings them here.
"""

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from agentjobs.forges.protocol import ForgeError

# A token is not used in its last minutes, so that what was begun with it can end with it.
SPARE_SECONDS = 300
LONGEST_TOKEN_SECONDS = 3_600
# GitHub takes ten minutes at most, and its clock may be behind ours.
SIGNATURE_SECONDS = 540
CLOCK_DRIFT_SECONDS = 60

TO_LIST: Mapping[str, str] = {"metadata": "read"}
TO_WORK: Mapping[str, str] = {
    "contents": "write",
    "pull_requests": "write",
    "issues": "write",
    "metadata": "read",
}
# Without it pull requests can be opened all the same.
_NOT_NEEDED_TO_WORK = "issues"
_TITLES = {
    "contents": "Contents",
    "pull_requests": "Pull requests",
    "issues": "Issues",
    "metadata": "Metadata",
}
_LEVELS = {"read": "read-only", "write": "read and write"}
_RANKS = ("none", "read", "write", "admin")


class Scope(NamedTuple):
    """One repository, by its number or else by its name; neither: all, only to list them."""

    repository_id: str = ""
    full_name: str = ""

    @property
    def permissions(self) -> Mapping[str, str]:
        return TO_WORK if self.full_name else TO_LIST

    @property
    def fields(self) -> dict[str, object]:
        """As a request for a token names it."""
        if self.repository_id:
            return {"repository_ids": [int(self.repository_id)]}
        return {"repositories": [self.full_name.rpartition("/")[2]]} if self.full_name else {}


class Granted(msgspec.Struct, frozen=True):
    """A token as GitHub gives it."""

    token: str
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)]

    def __repr__(self) -> str:
        return f"Granted(expires_at={self.expires_at})"


@dataclass(slots=True)
class _Kept:
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: str = field(default="", repr=False)
    good_until: float = 0.0


class TokenCache:
    """One for a process. Of those who want the same token one asks, and the others wait."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: dict[Hashable, _Kept] = {}

    async def token(self, key: Hashable, ask: Callable[[], Awaitable[Granted]]) -> str:
        kept = self._kept.setdefault(key, _Kept())
        async with kept.asking:
            if self._clock() >= kept.good_until:
                granted = await ask()
                longest = self._clock() + LONGEST_TOKEN_SECONDS
                ends_at = min(granted.expires_at.timestamp(), longest)
                kept.token, kept.good_until = granted.token, ends_at - SPARE_SECONDS
                self._forget_old()
            return kept.token

    def forget(self, key: Hashable) -> bool:
        """It was not accepted. Whether there was one that will be replaced now."""
        kept = self._kept.get(key)
        if kept is None or not kept.token:
            return False
        kept.token, kept.good_until = "", 0.0
        return True

    def _forget_old(self) -> None:
        now = self._clock()
        for key, kept in list(self._kept.items()):
            if now >= kept.good_until and not kept.asking.locked():
                del self._kept[key]


def signed_by_app(app_id: str, private_key: str, now: float) -> str:
    """What an App shows when it speaks for itself; `now` in seconds since the epoch."""
    issued_at = int(now) - CLOCK_DRIFT_SECONDS
    claims = {"iat": issued_at, "exp": int(now) + SIGNATURE_SECONDS, "iss": app_id}
    head = {"alg": "RS256", "typ": "JWT"}
    signed = f"{_coded(msgspec.json.encode(head))}.{_coded(msgspec.json.encode(claims))}"
    signature = _key(private_key).sign(signed.encode(), PKCS1v15(), SHA256())
    return f"{signed}.{_coded(signature)}"


def lacking(granted: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The permissions that are not granted as far as they are wanted."""
    return tuple(
        name for name, level in wanted.items() if _rank(granted.get(name, "none")) < _rank(level)
    )


def in_words(names: tuple[str, ...], wanted: Mapping[str, str] = TO_WORK) -> tuple[str, ...]:
    """As GitHub's own pages call them: "Pull requests: read and write"."""
    return tuple(f"{_TITLES[name]}: {_LEVELS[wanted[name]]}" for name in names)


def attainable(granted: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """What to ask for instead of all that is wanted. Raises ForgeError if it is too little."""
    missing = lacking(granted, wanted)
    needed = tuple(name for name in missing if name != _NOT_NEEDED_TO_WORK)
    if needed:
        named = ", ".join(f"“{words}”" for words in in_words(needed, wanted))
        words = f"The GitHub App was not granted the permission {named}"
        raise ForgeError(f"{words}; add it to the App and accept it in the installation.", "denied")
    less = {name: granted.get(name, "none") if name in missing else wanted[name] for name in wanted}
    return {name: level for name, level in less.items() if level != "none"}


def _rank(level: str) -> int:
    return _RANKS.index(level) if level in _RANKS else 0


def _key(private_key: str) -> RSAPrivateKey:
    try:
        # It was examined when it was given: that takes a fifth of a second, on the event loop.
        key = load_pem_private_key(private_key.encode(), None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The reason is left out: it may quote the key.
        key = None
    if not isinstance(key, RSAPrivateKey):
        words = "The private key of the GitHub App cannot be read; give the connection a new one."
        raise ForgeError(words, "unauthorized")
    return key


def _coded(part: bytes) -> str:
    return urlsafe_b64encode(part).rstrip(b"=").decode()
