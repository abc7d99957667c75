"""Proves that a webhook came from the service before it is read. Knows no web framework."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentjobs_client.errors import ClientError
from agentjobs_client.retry import Clock

DEFAULT_TOLERANCE_SECONDS = 300.0
# The second one is there only while a new secret waits for its turn.
_BODY_SIGNATURES = ("x-service-signature-256", "x-service-signature-256-next")
_TIMED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class InvalidSignature(ClientError):
    """Not from the service, changed on its way, or too old. Answer 401 and do nothing else."""


class UnknownPayload(ClientError):
    """Signed with the right secret, but not an event of this interface."""


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The five fields of the body, and what the headers add to them."""

    event: str
    job_id: str
    repo: str
    timestamp: str
    pr_url: str | None = None
    # Of the event: the same for every endpoint, on every retry and redelivery.
    event_id: str | None = None
    # Of this endpoint's copy of it, as the delivery log names it. Not signed.
    delivery_id: str | None = None
    # Counts the events of one job. Not signed.
    sequence: int | None = None


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str | bytes],
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float | None = DEFAULT_TOLERANCE_SECONDS,
    clock: Clock = time.time,
) -> WebhookEvent:
    """The event in a request, or InvalidSignature. `body` is the bytes as they were received.

    Give all secrets that are good at the moment while one replaces another. With
    `tolerance_seconds=None` only the body's signature is looked at, which an old copy of a
    delivery has as well.
    """
    secrets = _usable(secret)
    lowered = _readable(headers)
    _check_body_signature(body, lowered, secrets)
    if tolerance_seconds is not None:
        _check_timed_signature(body, lowered, secrets)
        _check_age(lowered["webhook-timestamp"], clock(), tolerance_seconds)
    return _event(body, lowered)


def _usable(secret: str | Sequence[str]) -> list[str]:
    given = [secret] if isinstance(secret, str) else list(secret)
    # A secret that was read from a file often ends with a newline.
    secrets = [each.strip() for each in given]
    # Anybody can sign with an empty key.
    if not secrets or not all(secrets):
        raise ValueError("verify_webhook needs the endpoint's secret, and it is empty")
    return secrets


def _readable(headers: Mapping[Any, Any]) -> dict[str, str]:
    """What frameworks hand on as bytes, too; a value of any other kind counts as absent."""
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
    made = [
        "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        for secret in secrets
    ]
    if not _any_equal(made, given):
        raise InvalidSignature(
            "X-Service-Signature-256 does not match: another secret, or a body that was changed. "
            "Verify the bytes as received, before any parsing."
        )


def _check_timed_signature(body: bytes, headers: Mapping[str, str], secrets: list[str]) -> None:
    missing = [name for name in _TIMED_HEADERS if name not in headers]
    if missing:
        raise InvalidSignature(f"The header {missing[0]} is missing.")
    event_id, timestamp, signatures = (headers[name] for name in _TIMED_HEADERS)
    content = b".".join((_bytes(event_id), _bytes(timestamp), body))
    keys = [key for key in map(_decoded, secrets) if key]
    made = [hmac.new(key, content, hashlib.sha256).digest() for key in keys]
    entries = ["v1," + base64.b64encode(digest).decode() for digest in made]
    if not _any_equal(entries, signatures.split()):
        raise InvalidSignature(
            "webhook-signature does not match: another secret, or webhook-id or "
            "webhook-timestamp was changed."
        )


def _check_age(timestamp: str, now: float, tolerance_seconds: float) -> None:
    try:
        age = now - int(timestamp)
    except ValueError:
        raise InvalidSignature("webhook-timestamp is not a number.") from None
    if abs(age) > tolerance_seconds:
        direction = "old" if age > 0 else "ahead"
        raise InvalidSignature(
            f"webhook-timestamp is {abs(age):.0f} s {direction}, more than the "
            f"{tolerance_seconds:g} s that are allowed; is the clock right?"
        )


def _decoded(secret: str) -> bytes | None:
    """The key of `webhook-signature`; none in a secret of another form."""
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return None


def _any_equal(made: list[str], given: list[str]) -> bool:
    # A list: every pair is compared, whichever is equal.
    return any([hmac.compare_digest(_bytes(a), _bytes(b)) for a in made for b in given])  # noqa: C419


def _bytes(text: str) -> bytes:
    # Web frameworks hand on bytes outside ASCII in forms that cannot always be encoded.
    return text.encode("utf-8", "backslashreplace")


def _event(body: bytes, headers: Mapping[str, str]) -> WebhookEvent:
    try:
        event = msgspec.json.decode(body, type=WebhookEvent)
    except msgspec.DecodeError as error:
        raise UnknownPayload(f"The signature is good, the body is not an event: {error}") from None
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
