"""Identifiers: a type prefix and a body that sorts by time (ULID). Opaque to clients."""

import os
import re
import threading
from collections.abc import Callable

from agentjobs_runtime.clock import now_ms

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Two digits at a time: every job has several identifiers.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
# The digits that `int` reads.
_TO_NUMBER = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_BODY_LENGTH = 26
_RANDOM_BITS = 80
_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """A new identifier such as `job_01jd…`. Identifiers of one process sort by creation."""
    return f"{prefix}_{_encode(_reserve(1))}"


def new_id_start(prefix: str) -> str:
    """A new identifier without its last two digits, for a statement that adds them."""
    return f"{prefix}_{_encode(_reserve(32**2))[:-2]}"


def _reserve(count: int) -> int:
    """The first of so many numbers, which is a multiple of their count."""
    global _last  # noqa: PLW0603 - identifiers are ordered across the whole process
    with _lock:
        fresh = (now_ms() << _RANDOM_BITS) | int.from_bytes(os.urandom(_RANDOM_BITS // 8))
        first = -(-max(fresh, _last + 1) // count) * count
        _last = first + count - 1
    return first


def id_pattern(prefix: str) -> str:
    """A regular expression for identifiers, anchored for JSON Schema."""
    return f"^{prefix}_[0-9a-hjkmnp-tv-z]{{{_BODY_LENGTH}}}$"


def id_matcher(prefix: str) -> Callable[[str], object]:
    """A predicate for texts that have the form of an identifier."""
    return re.compile(id_pattern(prefix)).fullmatch


def first_id_at(prefix: str, at_ms: int) -> str:
    """The smallest identifier of that time, as a bound in queries by identifier."""
    return f"{prefix}_{_encode(at_ms << _RANDOM_BITS)}"


def creation_time_ms(identifier: str) -> int:
    """The creation time in milliseconds."""
    return int(identifier[-_BODY_LENGTH:].translate(_TO_NUMBER), 32) >> _RANDOM_BITS


def _encode(value: int) -> str:
    return "".join([_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)])


def is_secret_name(text: str) -> bool:
    return _SECRET_NAME.fullmatch(text) is not None
