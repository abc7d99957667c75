"""Verifies an ID token: issuer, audience, nonce, times and signature.

Pure. Accepts only public-key algorithms that the provider declares.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]  # it has no types
from joserfc import jwk, jwt
from joserfc.jws import JWSRegistry

from agentjobs.web.openid.errors import invalid_response
from agentjobs.web.openid.provider import PublishedKey

LEEWAY_SECONDS = 60

# Algorithms by key type, and the parameters of a public key of each type.
_ALGORITHMS = {
    f"{family}{bits}": kind
    for family, kind in (("RS", "RSA"), ("PS", "RSA"), ("ES", "EC"))
    for bits in (256, 384, 512)
}
_PUBLIC_PARAMETERS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}
# 16,384 bits, the maximum of OpenSSL.
_MAX_PARAMETER_CHARACTERS = 2_731


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    client_id: str
    nonce: str
    access_token: str
    algorithms: Sequence[str]
    now_seconds: int


class UnknownKey(Exception):
    """The signing key is not among the given keys; it may be new."""


def verify_claims(
    id_token: str, keys: Sequence[PublishedKey], expected: Expected
) -> dict[str, Any]:
    """Raises UnknownKey, or a Problem for an invalid token."""
    allowed = [name for name in expected.algorithms if name in _ALGORITHMS]
    if not allowed:
        # With an empty list the library would choose.
        raise invalid_response("the provider declares no supported algorithm for ID tokens")
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
    except Exception as error:  # noqa: BLE001 - arbitrary input may raise anything
        raise invalid_response(f"the ID token is not valid: {error!r}") from None
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
    """A token without a key id requires a provider with a single key."""
    algorithm, key_id = header["alg"], header.get("kid")
    kind = _ALGORITHMS[algorithm]
    candidates = [key for key in keys if _may_sign(key, kind, algorithm)]
    if key_id is not None:
        candidates = [key for key in candidates if key.get("kid") == key_id]
    if not candidates or (key_id is None and len(candidates) > 1):
        raise UnknownKey
    # Only the public parameters; others are ignored.
    parameters = {name: candidates[0][name] for name in _PUBLIC_PARAMETERS[kind]}
    if any(len(part) > _MAX_PARAMETER_CHARACTERS for part in parameters.values()):
        raise ValueError("the key is too long")
    return jwk.import_key(parameters)


def _may_sign(key: PublishedKey, kind: str, algorithm: str) -> bool:
    return (
        key.get("kty") == kind
        and key.get("use") in (None, "sig")
        and key.get("alg") in (None, algorithm)
    )
