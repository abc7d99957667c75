"""A GitHub App on the server: its key, its installation and the tokens issued to it."""

import secrets
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from tests.support.forge_servers.calls import Refusal

WANTED = {"contents": "write", "pull_requests": "write", "issues": "write", "metadata": "read"}
_LEVELS = ("read", "write", "admin")
_MAX_JWT_SECONDS = 600


@dataclass
class InstallationToken:
    """`repositories` is None for all repositories of the installation."""

    value: str
    permissions: Mapping[str, str]
    repositories: frozenset[int] | None
    issued_at: float
    expires_at: float

    def allows(self, permission: str, level: str) -> bool:
        granted = self.permissions.get(permission)
        return granted is not None and _LEVELS.index(granted) >= _LEVELS.index(level)


@dataclass
class App:
    """`permissions` are what the installation was granted; `repository_ids` are those it
    can access, None for all. A new token gets 401 in the first half of `replication_seconds`, and
    a token with chosen permissions 403 in the second half."""

    id: int = 4711
    slug: str = "agentjobs"
    installation_id: int = 815
    account: str = "acme"
    permissions: dict[str, str] = field(default_factory=lambda: dict(WANTED))
    repository_ids: set[int] | None = None
    is_suspended: bool = False
    # Where its webhook delivers to; empty without a webhook.
    hook_url: str = "https://agentjobs.example.org/hooks/github/fcn_1"
    # The status of each delivery, the latest first.
    deliveries: list[int] = field(default_factory=list)
    token_seconds: float = 3_600.0
    replication_seconds: float = 0.0
    tokens: dict[str, InstallationToken] = field(default_factory=dict)

    @property
    def private_key(self) -> str:
        return _key()[0]

    def verify(self, authorization: str, now: float) -> None:
        """Raises Refusal unless the JWT is signed by the App and valid for ten minutes at most."""
        scheme, _, signed = authorization.partition(" ")
        if scheme.lower() != "bearer" or not signed:
            raise Refusal(401, "A JSON web token could not be decoded")
        try:
            claims = jwt.decode(signed, _public_key(), ["RS256"]).claims
            issued, expires = int(claims["iat"]), int(claims["exp"])
        except (JoseError, KeyError, ValueError, TypeError):
            raise Refusal(401, "A JSON web token could not be decoded") from None
        if str(claims.get("iss")) != str(self.id):
            raise Refusal(401, "'Issuer' claim ('iss') must be an Integer or the client id")
        if issued > now + 5:
            raise Refusal(401, "'Issued at' claim ('iat') must be an Integer in the past")
        if expires <= now:
            raise Refusal(401, "'Expiration time' claim ('exp') must be in the future")
        if expires > now + _MAX_JWT_SECONDS + 5 or expires - issued > _MAX_JWT_SECONDS + 60:
            raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")

    def issue_token(
        self, options: Mapping[str, Any], known: Container[int], now: float
    ) -> InstallationToken:
        permissions = options.get("permissions") or self.permissions
        for name, level in permissions.items():
            granted = self.permissions.get(name)
            if granted is None or _LEVELS.index(level) > _LEVELS.index(granted):
                message = "The permissions requested are not granted to this installation."
                raise Refusal(422, message)
        ids: list[int] = options["repository_ids"]
        if not all(
            self._can_access(repository_id) and repository_id in known for repository_id in ids
        ):
            message = "There is at least one repository that does not exist or is not accessible"
            raise Refusal(422, f"{message} to the parent installation.")
        token = InstallationToken(
            f"ghs_{self.id}_eyJ{secrets.token_hex(18)}.{secrets.token_hex(150)}.{secrets.token_hex(80)}",
            dict(permissions),
            frozenset(ids) if ids else None,
            now,
            now + self.token_seconds,
        )
        self.tokens[token.value] = token
        return token

    def token_of(self, value: str, now: float) -> InstallationToken | None:
        token = self.tokens.get(value)
        return token if token is not None and token.expires_at > now else None

    def check_replicated(self, token: InstallationToken, now: float) -> None:
        age = now - token.issued_at
        if age < self.replication_seconds / 2:
            raise Refusal(401, "Bad credentials")
        if age < self.replication_seconds:
            raise Refusal(403, "Resource not accessible by integration")

    def can_read(self, token: InstallationToken, repository_id: int) -> bool:
        if not self._can_access(repository_id):
            return False
        return token.repositories is None or repository_id in token.repositories

    def _can_access(self, repository_id: int) -> bool:
        return self.repository_ids is None or repository_id in self.repository_ids


@lru_cache(maxsize=1)
def _key() -> tuple[str, str]:
    """The App's private key and the public key that GitHub stores, in PEM."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


@lru_cache(maxsize=1)
def _public_key() -> RSAKey:
    return RSAKey.import_key(_key()[1])
