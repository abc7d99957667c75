"""Whether an ID token is the provider's, for us, of this sign-in and of now.

Pure: it gets the keys. Only signatures with public keys count, of algorithms the provider declares.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]  # it has no types
from joserfc import jwk, jwt
from joserfc.jws import JWSRegistry

from agentjobs.web.openid.errors import unusable_answer
from agentjobs.web.openid.provider import PublishedKey

LEEWAY_SECONDS = 60

# With the kind of key each belongs to, and what a public key of that kind consists of.
_ALGORITHMS = {
    f"{family}{bits}": kind
    for family, kind in (("RS", "RSA"), ("PS", "RSA"), ("ES", "EC"))
    for bits in (256, 384, 512)
}
_PUBLIC_PARTS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}
# 16,384 bits, the most that OpenSSL takes.
_MOST_PART_CHARACTERS = 2_731


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    client_id: str
    nonce: str
    access_token: str
    algorithms: Sequence[str]
    now_seconds: int


class UnknownKey(Exception):
    """Signed with a key that is not among those given; newer ones may have it."""


def verified_claims(
    id_token: str, keys: Sequence[PublishedKey], expected: Expected
) -> dict[str, Any]:
    """Raises UnknownKey, or a Problem for whatever else is wrong."""
    allowed = [name for name in expected.algorithms if name in _ALGORITHMS]
    if not allowed:
        # An empty list would mean the library's own choice.
        raise unusable_answer("the provider declares no algorithm for ID tokens that is known here")
    try:
        token = jwt.decode(
            id_token,
            key=lambda signed: _key_for(signed.headers(), keys),
            registry=JWSRegistry(algorithms=allowed, strict_check_header=False),
        )
        claims = CodeIDToken(token.claims, token.header, _options(expected), _params(expected))
        claims.validate(now=expected.now_seconds, leeway=LEEWAY_SECONDS)
    except UnknownKey:
        raise
    except Exception as error:  # noqa: BLE001 - a token may be anything, and so may be what it breaks
        raise unusable_answer(f"the ID token is not acceptable: {error!r}") from None
    return dict(claims)


def _options(expected: Expected) -> dict[str, dict[str, Any]]:
    return {
        "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
        "sub": {"essential": True},
        "nonce": {"essential": True, "value": expected.nonce},
    }


def _params(expected: Expected) -> dict[str, str]:
    return {
        "client_id": expected.client_id,
        "nonce": expected.nonce,
        "access_token": expected.access_token,
    }


def _key_for(header: dict[str, Any], keys: Sequence[PublishedKey]) -> jwk.Key:
    """A token without a key id needs a provider with one key only."""
    algorithm, key_id = header["alg"], header.get("kid")
    kind = _ALGORITHMS[algorithm]
    fitting = [key for key in keys if _may_sign(key, kind, algorithm)]
    if key_id is not None:
        fitting = [key for key in fitting if key.get("kid") == key_id]
    if not fitting or (key_id is None and len(fitting) > 1):
        raise UnknownKey
    # Of its parts only the public ones: nothing else has a say, nor work to do.
    parts = {name: fitting[0][name] for name in _PUBLIC_PARTS[kind]}
    if any(len(part) > _MOST_PART_CHARACTERS for part in parts.values()):
        raise ValueError("the key is too long")
    return jwk.import_key(parts)


def _may_sign(key: PublishedKey, kind: str, algorithm: str) -> bool:
    return (
        key.get("kty") == kind
        and key.get("use") in (None, "sig")
        and key.get("alg") in (None, algorithm)
    )
