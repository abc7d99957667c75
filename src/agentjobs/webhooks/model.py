"""What passes between the parts of the sender: a delivery in its hands, what an attempt saw."""

from typing import Literal

import msgspec

DeliveryStatus = Literal["pending", "delivered", "failed"]
ErrorClass = Literal[
    "http_status", "redirect", "dns", "connect", "tls", "timeout", "protocol", "blocked_address"
]
DisabledReason = Literal["by_hand", "gone", "failing"]

Headers = tuple[tuple[str, str], ...]


class SealedSecrets(msgspec.Struct, frozen=True):
    """As they lie in the store; the pending one takes over at `promote_at`."""

    main: bytes
    pending: bytes | None = None
    promote_at: int | None = None


class Secrets(msgspec.Struct, frozen=True):
    """Opened: the one that signs, and the one that will."""

    main: str
    next: str | None = None


class ClaimedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery in one sender's hands; `fence` is the proof."""

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
    # Made before this one, ever; failed ones since it was first, or again, to be delivered.
    attempts: int = 0
    failures: int = 0
    # As its endpoint was when it was claimed.
    is_known_healthy: bool = False

    @property
    def names(self) -> dict[str, str | None]:
        """For a line in the service's log."""
        return {"delivery_id": self.id, "endpoint_id": self.endpoint_id}


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt saw; without an `error_class` it succeeded."""

    at: int
    duration_ms: int
    request_headers: Headers
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
        found = (value for each, value in self.response_headers if each.lower() == lowered)
        return next(found, None)
