"""Identifiers: a type prefix and a body that sorts by time (ULID). Opaque to clients."""

import os
import re
import threading
from collections.abc import Callable
from functools import lru_cache

from agentjobs_runtime.clock import now_ms

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_BODY_LENGTH = 26
_RANDOM_BITS = 80
# Two digits at a time: every job has several identifiers.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_TIME_SHIFTS = range(40, -1, -10)

_RANDOM_BYTES = _RANDOM_BITS // 8
_STOCK_SIZE = 64
_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

_lock = threading.Lock()
_last = 0
_stock: list[int] = []
# A forked process must not repeat the identifiers of its parent.
os.register_at_fork(after_in_child=_stock.clear)


def new_id(prefix: str) -> str:
    """A new identifier such as `job_01jd…`. Identifiers of one process sort by creation."""
    global _last  # noqa: PLW0603 - identifiers are ordered across the whole process
    with _lock:
        fresh = (now_ms() << _RANDOM_BITS) | _random_bits()
        _last = max(fresh, _last + 1)
        value = _last
    return f"{prefix}_{_encode(value)}"


def _random_bits() -> int:
    """Takes bits from a stock, so that one system call serves many identifiers."""
    if not _stock:
        random = os.urandom(_RANDOM_BYTES * _STOCK_SIZE)
        ends = range(_RANDOM_BYTES, len(random) + 1, _RANDOM_BYTES)
        _stock.extend(int.from_bytes(random[end - _RANDOM_BYTES : end]) for end in ends)
    return _stock.pop()


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
    value = 0
    for digit in identifier[-_BODY_LENGTH:]:
        value = value << 5 | _ALPHABET.index(digit)
    return value >> _RANDOM_BITS


def _encode(value: int) -> str:
    # Two numbers of 40 bits, because shifting a number of 128 bits takes several times as long.
    high, low = (value >> 40) & 0xFF_FFFF_FFFF, value & 0xFF_FFFF_FFFF
    return (
        f"{_encode_time(value >> _RANDOM_BITS)}"
        f"{_PAIRS[high >> 30]}{_PAIRS[high >> 20 & 1023]}"
        f"{_PAIRS[high >> 10 & 1023]}{_PAIRS[high & 1023]}"
        f"{_PAIRS[low >> 30]}{_PAIRS[low >> 20 & 1023]}"
        f"{_PAIRS[low >> 10 & 1023]}{_PAIRS[low & 1023]}"
    )


@lru_cache(maxsize=16)
def _encode_time(at_ms: int) -> str:
    return "".join([_PAIRS[(at_ms >> shift) & 1023] for shift in _TIME_SHIFTS])


def is_secret_name(text: str) -> bool:
    return _SECRET_NAME.fullmatch(text) is not None
