"""How a delivery proves where it comes from: secrets, signatures and the headers that carry them.

Pure: knows neither the store nor the network, and which secret signs is decided elsewhere.
"""

import base64
import binascii
import hashlib
import hmac
import secrets as randomness

from agentjobs.webhooks.model import ClaimedDelivery, Secrets

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with

_SECRET_BYTES = 32


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(randomness.token_bytes(_SECRET_BYTES)).decode()


def signed_headers(delivery: ClaimedDelivery, secrets: Secrets, at_ms: int) -> dict[str, str]:
    """All headers of ours for an attempt made at that moment."""
    timestamp = at_ms // 1_000
    headers = {
        "Content-Type": "application/json",
        "X-Service-Event": delivery.event,
        "X-Service-Delivery": delivery.id,
        "X-Service-Sequence": str(delivery.sequence),
        "X-Service-Signature-256": body_signature(secrets.main, delivery.body),
        "webhook-id": delivery.event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": timed_signature(secrets.main, delivery, timestamp),
    }
    if secrets.next is not None:
        headers["X-Service-Signature-256-Next"] = body_signature(secrets.next, delivery.body)
        headers["webhook-signature"] += " " + timed_signature(secrets.next, delivery, timestamp)
    return headers


def body_signature(secret: str, body: bytes) -> str:
    """Keyed on the text of the secret, all of it, over nothing but the body."""
    return "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()


def timed_signature(secret: str, delivery: ClaimedDelivery, timestamp: int) -> str:
    """As Standard Webhooks has it: keyed on what the secret's text decodes to."""
    signed = f"{delivery.event_id}.{timestamp}.".encode() + delivery.body
    digest = hmac.digest(_decoded(secret), signed, hashlib.sha256)
    return "v1," + base64.b64encode(digest).decode()


def _decoded(secret: str) -> bytes:
    return binascii.a2b_base64(secret.removeprefix(SECRET_PREFIX))
