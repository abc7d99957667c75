"""Verifies the signature of a webhook before parsing it. Works with any web framework."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentjobs_client.errors import ClientError
from agentjobs_client.models.base import Timestamp
from agentjobs_client.retry import Clock

DEFAULT_TOLERANCE_SECONDS = 300.0
# Far more than the five fields of an event take.
MAX_BODY_BYTES = 64 * 1024
# The second header exists only while a new secret is pending.
_BODY_SIGNATURES = ("x-service-signature-256", "x-service-signature-256-next")
_TIMED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class WebhookError(ClientError):
    """A delivery that a receiver refuses with `response_status`."""

    response_status = 400


class InvalidSignature(WebhookError):
    """Not from the service, modified in transit, or too old. Respond with 401."""

    response_status = 401


class UnknownPayload(WebhookError):
    """The signature is valid, but the body is not a known event. Respond with 400."""


class BodyTooLarge(WebhookError):
    """The body is larger than any event. Respond with 413."""

    response_status = 413

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The body is larger than {max_bytes} bytes.")


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The five fields of the body, and fields from the headers."""

    event: str
    job_id: str
    repo: str
    timestamp: Timestamp
    pr_url: str | None = None
    # The same for every endpoint, retry and redelivery.
    event_id: str | None = None
    # The delivery to this endpoint, as in the delivery log. Not signed.
    delivery_id: str | None = None
    # Numbers the events of one job. Not signed.
    sequence: int | None = None


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str | bytes],
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float | None = DEFAULT_TOLERANCE_SECONDS,
    clock: Clock = time.time,
) -> WebhookEvent:
    """Return the event, or raise InvalidSignature. `body` is the raw bytes as received.

    Pass all valid secrets while a secret is being rotated. With `tolerance_seconds=None` only the
    body's signature is verified, which does not protect against replays.
    """
    secrets = _parse_secrets(secret)
    lowered = _normalize_headers(headers)
    _check_body_signature(body, lowered, secrets)
    if tolerance_seconds is not None:
        _check_timed_signature(body, lowered, secrets)
        _check_age(lowered["webhook-timestamp"], clock(), tolerance_seconds)
    return _event(body, lowered)


def _parse_secrets(secret: str | Sequence[str]) -> list[str]:
    given = [secret] if isinstance(secret, str) else list(secret)
    # A secret from a file often ends with a newline.
    secrets = [value.strip() for value in given]
    # Anyone can sign with an empty key.
    if not secrets or not all(secrets):
        raise ValueError("verify_webhook requires the endpoint's secret, but it is empty")
    return secrets


def _normalize_headers(headers: Mapping[Any, Any]) -> dict[str, str]:
    """Accepts strings and bytes, since frameworks differ; ignores other values."""
    texts = {_text(name): _text(value) for name, value in headers.items()}
    return {
        name.lower(): value
        for name, value in texts.items()
        if name is not None and value is not None
    }


def _text(given: object) -> str | None:
    if isinstance(given, bytes):
        return given.decode("latin-1")
    return given if isinstance(given, str) else None


def _check_body_signature(body: bytes, headers: Mapping[str, str], secrets: list[str]) -> None:
    given = [headers[name] for name in _BODY_SIGNATURES if name in headers]
    if not given:
        raise InvalidSignature("The header X-Service-Signature-256 is missing.")
    expected = [
        "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        for secret in secrets
    ]
    if not _any_equal(expected, given):
        raise InvalidSignature(
            "X-Service-Signature-256 does not match: the secret differs or the body was modified. "
            "Verify the raw bytes before any parsing."
        )


def _check_timed_signature(body: bytes, headers: Mapping[str, str], secrets: list[str]) -> None:
    missing = [name for name in _TIMED_HEADERS if name not in headers]
    if missing:
        raise InvalidSignature(f"The header {missing[0]} is missing.")
    event_id, timestamp, signatures = (headers[name] for name in _TIMED_HEADERS)
    content = b".".join((_bytes(event_id), _bytes(timestamp), body))
    keys = [key for key in map(_decode_key, secrets) if key]
    expected = [hmac.new(key, content, hashlib.sha256).digest() for key in keys]
    entries = ["v1," + base64.b64encode(digest).decode() for digest in expected]
    if not _any_equal(entries, signatures.split()):
        raise InvalidSignature(
            "webhook-signature does not match: the secret differs, or webhook-id or "
            "webhook-timestamp was modified."
        )


def _check_age(timestamp: str, now: float, tolerance_seconds: float) -> None:
    try:
        age = now - int(timestamp)
    except ValueError:
        raise InvalidSignature("webhook-timestamp is not a number.") from None
    if abs(age) > tolerance_seconds:
        direction = "old" if age > 0 else "ahead"
        raise InvalidSignature(
            f"webhook-timestamp is {abs(age):.0f} s {direction}, more than the allowed "
            f"{tolerance_seconds:g} s; check the clocks of this machine and of the service."
        )


def _decode_key(secret: str) -> bytes | None:
    """The key of `webhook-signature`; None if the secret is not base64."""
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return None


def _any_equal(expected: list[str], given: list[str]) -> bool:
    # A list instead of a generator: compares every pair, in constant time.
    return any([hmac.compare_digest(_bytes(a), _bytes(b)) for a in expected for b in given])  # noqa: C419


def _bytes(text: str) -> bytes:
    # Some web frameworks pass non-ASCII bytes in forms that UTF-8 cannot encode.
    return text.encode("utf-8", "backslashreplace")


def _event(body: bytes, headers: Mapping[str, str]) -> WebhookEvent:
    try:
        event = msgspec.json.decode(body, type=WebhookEvent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"The signature is valid, but the body is not an event: {error}"
        raise UnknownPayload(message) from None
    return msgspec.structs.replace(
        event,
        event_id=headers.get("webhook-id"),
        delivery_id=headers.get("x-service-delivery"),
        sequence=_number(headers.get("x-service-sequence")),
    )


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
