"""GitHub Apps: the JWT that an App signs, and a cache of its installation tokens.

Tokens are cached in this process's memory only. Sends no requests.
"""

import asyncio
import math
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

from agentjobs.platforms.protocol import PlatformError

# A token is not used in its last minutes, so that operations can finish with it.
SPARE_SECONDS = 300
MAX_TOKEN_SECONDS = 3_600
# Servers of GitHub that have not received a new token yet answer 401; those that have not received
# its permissions yet answer 403 (github.com/octokit/auth-app.js, issues 65 and 589).
REPLICATION_SECONDS = 10
# GitHub accepts ten minutes at most, and its clock may be behind.
SIGNATURE_SECONDS = 540
CLOCK_DRIFT_SECONDS = 60

LIST_PERMISSIONS: Mapping[str, str] = {"metadata": "read"}
WORK_PERMISSIONS: Mapping[str, str] = {
    "contents": "write",
    "pull_requests": "write",
    "issues": "write",
    "metadata": "read",
}
# Asked for if the installation grants them.
EXTRA_PERMISSIONS: Mapping[str, str] = {
    "workflows": "write",
    "members": "read",
    "repository_hooks": "write",
    "checks": "write",
    "statuses": "write",
}
# Pull requests can be opened without it.
_OPTIONAL_PERMISSION = "issues"
# How GitHub's pages name them, and what they are needed for.
_PERMISSIONS = {
    "contents": ("Contents", "to fetch and push"),
    "pull_requests": ("Pull requests", "to open and follow pull requests"),
    "issues": ("Issues", "for labels, tickets and comments on issues"),
    "metadata": ("Metadata", "to list repositories"),
    "workflows": ("Workflows", "to change .github/workflows after `agentjobs repos lift`"),
    "members": ("Organization members", "to request reviews from teams"),
    "repository_hooks": ("Webhooks", "to register webhooks, because the App has none"),
    "checks": ("Checks", "to report the results of jobs on pull requests"),
    "statuses": ("Commit statuses", "to report the results of jobs on pull requests"),
}
# How long the permissions of an installation are not asked for again.
_GRANT_SECONDS = 300
_LEVELS = {"read": "read-only", "write": "read and write"}
_RANKS = {"none": 0, "read": 1, "write": 2, "admin": 3}


class Scope(NamedTuple):
    """One repository, by its ID or else its name; neither means all, only for listing them."""

    repository_id: str = ""
    full_name: str = ""

    @property
    def permissions(self) -> Mapping[str, str]:
        """What is required."""
        return WORK_PERMISSIONS if self.full_name else LIST_PERMISSIONS

    @property
    def fields(self) -> dict[str, object]:
        """The fields of a request for a token."""
        if self.repository_id:
            return {"repository_ids": [int(self.repository_id)]}
        return {"repositories": [self.full_name.rpartition("/")[2]]} if self.full_name else {}


class InstallationToken(msgspec.Struct, frozen=True):
    """A token as GitHub returns it."""

    token: str
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)]
    permissions: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"InstallationToken(expires_at={self.expires_at})"


@dataclass(slots=True)
class _CachedToken:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: InstallationToken | None = None
    issued_at: float = 0.0
    usable_until: float = 0.0


class TokenCache:
    """One per process. Concurrent callers that need the same token share one request."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._tokens: dict[Hashable, _CachedToken] = {}
        self._grants: dict[Hashable, tuple[float, Mapping[str, str]]] = {}

    async def token(
        self, key: Hashable, request: Callable[[], Awaitable[InstallationToken]]
    ) -> InstallationToken:
        cached = self._tokens.setdefault(key, _CachedToken())
        async with cached.lock:
            if cached.token is None or self._clock() >= cached.usable_until:
                cached.token = await request()
                cached.issued_at = self._clock()
                latest = cached.issued_at + MAX_TOKEN_SECONDS
                ends_at = min(cached.token.expires_at.timestamp(), latest)
                cached.usable_until = ends_at - SPARE_SECONDS
                self._remove_expired()
            return cached.token

    def granted(self, key: Hashable) -> Mapping[str, str] | None:
        """The permissions of an installation; None if they have to be asked for."""
        asked_at, permissions = self._grants.get(key, (-math.inf, {}))
        return permissions if self._clock() < asked_at + _GRANT_SECONDS else None

    def put_granted(self, key: Hashable, permissions: Mapping[str, str]) -> None:
        self._grants[key] = (self._clock(), permissions)

    def forget_granted(self, key: Hashable) -> None:
        self._grants.pop(key, None)

    def is_fresh(self, key: Hashable) -> bool:
        """Whether GitHub issued the token so recently that it may not be replicated yet."""
        cached = self._tokens.get(key)
        if cached is None or cached.token is None:
            return False
        return self._clock() < cached.issued_at + REPLICATION_SECONDS

    def forget(self, key: Hashable) -> bool:
        """Drop a token that was not accepted; False if none was cached."""
        cached = self._tokens.get(key)
        if cached is None or cached.token is None:
            return False
        cached.token, cached.usable_until = None, 0.0
        return True

    def _remove_expired(self) -> None:
        now = self._clock()
        for key, cached in list(self._tokens.items()):
            if now >= cached.usable_until and not cached.lock.locked():
                del self._tokens[key]


def app_jwt(app_id: str, private_key: str, now: float) -> str:
    """The JWT with which an App authenticates; `now` is in seconds since the epoch."""
    issued_at = int(now) - CLOCK_DRIFT_SECONDS
    claims = {"iat": issued_at, "exp": int(now) + SIGNATURE_SECONDS, "iss": app_id}
    header = {"alg": "RS256", "typ": "JWT"}
    signed = f"{_base64url(msgspec.json.encode(header))}.{_base64url(msgspec.json.encode(claims))}"
    signature = _key(private_key).sign(signed.encode(), PKCS1v15(), SHA256())
    return f"{signed}.{_base64url(signature)}"


def missing_permissions(granted: Mapping[str, str], required: Mapping[str, str]) -> tuple[str, ...]:
    """The permissions that are not granted at the required level."""
    ranks = {name: _RANKS.get(granted.get(name, "none"), 0) for name in required}
    return tuple(name for name, level in required.items() if ranks[name] < _RANKS[level])


def permission_titles(
    names: tuple[str, ...], required: Mapping[str, str] = WORK_PERMISSIONS
) -> tuple[str, ...]:
    """Names permissions as GitHub's pages do: "Pull requests: read and write"."""
    return tuple(f"{_PERMISSIONS[name][0]}: {_LEVELS[required[name]]}" for name in names)


def missing_features(granted: Mapping[str, str], required: Mapping[str, str]) -> tuple[str, ...]:
    """The missing permissions and what they are needed for."""
    missing = missing_permissions(granted, required)
    titles = permission_titles(missing, required)
    return tuple(
        f"{title} ({_PERMISSIONS[name][1]})" for name, title in zip(missing, titles, strict=True)
    )


def choose_permissions(granted: Mapping[str, str], required: Mapping[str, str]) -> dict[str, str]:
    """What to ask for: the required permissions, and others that work needs if they are granted.

    Raises PlatformError if one is missing.
    """
    missing = missing_permissions(granted, required)
    needed = tuple(name for name in missing if name != _OPTIONAL_PERMISSION)
    if needed:
        titles = ", ".join(f"“{title}”" for title in permission_titles(needed, required))
        raise PlatformError(
            f"The GitHub App was not granted the permission {titles}; add it to the App and accept"
            " it in the installation.",
            "denied",
        )
    wanted = required if required != WORK_PERMISSIONS else {**required, **EXTRA_PERMISSIONS}
    lacking = missing_permissions(granted, wanted)
    chosen = {name: level for name, level in wanted.items() if name not in lacking}
    if _OPTIONAL_PERMISSION in missing and granted.get(_OPTIONAL_PERMISSION, "none") != "none":
        chosen[_OPTIONAL_PERMISSION] = granted[_OPTIONAL_PERMISSION]
    return chosen


def _key(private_key: str) -> RSAPrivateKey:
    try:
        # It was validated when it was stored; that takes 0.2 s on the event loop.
        key = load_pem_private_key(private_key.encode(), None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The exception is not shown: it may quote the key.
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise PlatformError(
            "The private key of the GitHub App cannot be read; replace it.", "unauthorized"
        )
    return key


def _base64url(part: bytes) -> str:
    return urlsafe_b64encode(part).rstrip(b"=").decode()
