"""The types that senders and the delivery log share."""

from typing import Literal

import msgspec

from agentjobs.webhooks.events import is_test

DeliveryStatus = Literal["pending", "delivered", "failed"]
ErrorClass = Literal[
    "http_status", "redirect", "dns", "connect", "tls", "timeout", "protocol", "blocked_address"
]
DisabledReason = Literal["by_hand", "gone", "failing"]

Headers = tuple[tuple[str, str], ...]


class SealedSecrets(msgspec.Struct, frozen=True):
    """Encrypted, as stored. The pending secret replaces the main one at `promote_at`."""

    main: bytes
    pending: bytes | None = None
    promote_at: int | None = None


class Secrets(msgspec.Struct, frozen=True):
    """Decrypted: the secret that signs, and the pending one, which signs additional headers."""

    main: str
    next: str | None = None


class ClaimedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that one sender has leased; writes must name its `fence`."""

    id: str
    fence: int
    organization_id: str
    endpoint_id: str
    url: str
    secrets: SealedSecrets
    event_id: str
    event: str
    job_id: str
    sequence: int
    body: bytes
    # All attempts before this one; failed attempts since the event or the latest redelivery.
    attempts: int = 0
    failures: int = 0
    # Whether the endpoint's row recorded a recent success at the time of the claim.
    is_known_healthy: bool = False
    # The trace of the job.
    traceparent: str | None = None

    @property
    def is_test(self) -> bool:
        return is_test(self.event, self.sequence)

    @property
    def log_fields(self) -> dict[str, str | None]:
        return {"delivery_id": self.id, "endpoint_id": self.endpoint_id}


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt and its result; without an `error_class` it succeeded."""

    at: int
    duration_ms: int
    request_headers: Headers = ()
    address: str | None = None
    status_code: int | None = None
    response_headers: Headers = ()
    response_body: bytes = b""
    error_class: ErrorClass | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.error_class is None

    def response_header(self, name: str) -> str | None:
        lowered = name.lower()
        values = (value for header, value in self.response_headers if header.lower() == lowered)
        return next(values, None)
