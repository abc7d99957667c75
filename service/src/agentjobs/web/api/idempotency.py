"""Reads the `Idempotency-Key` header; `jobs/idempotency` decides what a repeated key means."""

import hashlib
import re
from typing import Any

import msgspec
from starlette.types import Scope

from agentjobs.jobs.operations.idempotency import IdempotencyClaim
from agentjobs.web.api.headers import all_headers
from agentjobs_runtime.problems import Fault

HEADER = "Idempotency-Key"
PATTERN = "^[ -~]{1,255}$"
FAULT: Fault = {
    "field": HEADER,
    "message": "must be 1 to 255 printable ASCII characters, given once",
}

_is_key = re.compile(PATTERN.encode()).fullmatch
# Requests are equal regardless of the order of keys and of whitespace.
_CANONICAL = msgspec.json.Encoder(order="sorted")


def has_key(scope: Scope) -> bool:
    return bool(all_headers(scope, b"idempotency-key"))


def key_faults(scope: Scope) -> list[Fault]:
    values = all_headers(scope, b"idempotency-key")
    is_valid = len(values) < 2 and all(_is_key(value) for value in values)
    return [] if is_valid else [FAULT]


def read_claim(scope: Scope, body: dict[str, Any]) -> IdempotencyClaim | None:
    """For a request without `key_faults`."""
    values = all_headers(scope, b"idempotency-key")
    if not values:
        return None
    digest = hashlib.sha256(_CANONICAL.encode(body)).digest()
    return IdempotencyClaim(values[0].decode("ascii"), digest)
