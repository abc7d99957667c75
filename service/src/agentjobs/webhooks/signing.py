"""Signs deliveries: webhook secrets, which of them sign at a given time, and signature headers.

A pending secret takes over by the clock, without a write, so no sender can be late.
"""

import base64
import binascii
import hashlib
import hmac
import secrets as randomness
from functools import lru_cache

from agentjobs.organizations.sealing import Sealed, SealingKeys
from agentjobs.store.database import Row
from agentjobs.webhooks.model import ClaimedDelivery, SealedSecrets, Secrets
from agentjobs_runtime.problems import Problem

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with

_SECRET_BYTES = 32
_CACHED_SECRETS = 4_096


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(randomness.token_bytes(_SECRET_BYTES)).decode()


def seal_secret(keys: SealingKeys, organization_id: str, endpoint_id: str, secret: str) -> Sealed:
    return keys.seal(secret, *sealing_context(organization_id, endpoint_id))


def sealed_secrets(row: Row) -> SealedSecrets:
    """Reads a row of `webhook_endpoints`."""
    pending = row["pending_sealed"]
    return SealedSecrets(
        bytes(row["sealed"]), None if pending is None else bytes(pending), row["promote_at"]
    )


def signing_at(sealed: SealedSecrets, at_ms: int) -> SealedSecrets:
    """The pending secret becomes the main one at `promote_at`."""
    if sealed.pending is None or sealed.promote_at is None or at_ms < sealed.promote_at:
        return sealed
    return SealedSecrets(sealed.pending)


class SecretOpener:
    """Decrypts endpoint secrets and caches them: a key may have to be read from disk."""

    def __init__(self, keys: SealingKeys) -> None:
        self._keys = keys
        # Keyed by the sealed bytes, so that a changed secret is opened again.
        self._open_cached = lru_cache(_CACHED_SECRETS)(self._open)

    def open(
        self, organization_id: str, endpoint_id: str, sealed: SealedSecrets, at_ms: int
    ) -> Secrets:
        """The secrets that sign at `at_ms`. Raises Problem if this machine cannot open them."""
        signing = signing_at(sealed, at_ms)
        main = self._open_cached(organization_id, endpoint_id, signing.main)
        if signing.pending is None:
            return Secrets(main)
        return Secrets(main, self._open_cached(organization_id, endpoint_id, signing.pending))

    def _open(self, organization_id: str, endpoint_id: str, sealed: bytes) -> str:
        try:
            return self._keys.open(sealed, *sealing_context(organization_id, endpoint_id))
        except Problem as problem:
            reason = f"The secret of {endpoint_id} cannot be decrypted. {problem.message}"
            raise Problem(problem.code, reason) from None


def signed_headers(delivery: ClaimedDelivery, secrets: Secrets, at_ms: int) -> dict[str, str]:
    """All headers that the service adds to an attempt made at `at_ms`."""
    timestamp = at_ms // 1_000
    headers = {
        "Content-Type": "application/json",
        "X-Service-Event": delivery.event,
        "X-Service-Delivery": delivery.id,
        "X-Service-Sequence": str(delivery.sequence),
        "X-Service-Signature-256": body_signature(secrets.main, delivery.body),
        "webhook-id": delivery.event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": timestamped_signature(secrets.main, delivery, timestamp),
    }
    if secrets.next is not None:
        headers["X-Service-Signature-256-Next"] = body_signature(secrets.next, delivery.body)
        headers["webhook-signature"] += " " + timestamped_signature(
            secrets.next, delivery, timestamp
        )
    return headers


def body_signature(secret: str, body: bytes) -> str:
    """The key is the whole text of the secret, prefix included; only the body is signed."""
    return "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()


def timestamped_signature(secret: str, delivery: ClaimedDelivery, timestamp: int) -> str:
    """Signs as Standard Webhooks defines it; the key is the base64-decoded secret."""
    signed = f"{delivery.event_id}.{timestamp}.".encode() + delivery.body
    key = binascii.a2b_base64(secret.removeprefix(SECRET_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def sealing_context(organization_id: str, endpoint_id: str) -> tuple[str, ...]:
    return ("webhook", organization_id, endpoint_id)
