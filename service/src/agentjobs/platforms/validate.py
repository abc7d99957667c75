"""Validates values that a platform returned, by the types of their fields.

Pure functions. Texts that people wrote are cleaned; anything else is valid or refused.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from agentjobs.platforms.protocol import PlatformError
from agentjobs.platforms.text import truncate
from agentjobs_runtime.safe_text import replace_unstorable

MAX_COMMENT_BYTES = 16 * 1024
MAX_ISSUE_BYTES = 256 * 1024
_MAX_TITLE_CHARACTERS = 1_000

Value = TypeVar("Value", bound=msgspec.Struct)
_CLEANERS: Mapping[str, Callable[[str], str]] = {
    "title": lambda title: replace_unstorable(title[:_MAX_TITLE_CHARACTERS]),
    "text": lambda text: truncate(text, MAX_ISSUE_BYTES),
}


def validate(platform: str, value: Value) -> Value:
    """A value of the protocol that can be stored. Raises PlatformError."""
    fields = msgspec.structs.asdict(value)
    for name, clean in _CLEANERS.items():
        if name in fields:
            fields[name] = clean(fields[name])
    try:
        return msgspec.convert(fields, type(value))
    except msgspec.ValidationError as error:
        field = str(error).rpartition("`$.")[2].rstrip("`").replace("_", " ")
        raise PlatformError(
            f"{platform} returned an invalid {field}; check the connection's address.", "unusable"
        ) from None


def parse_count(text: str) -> int | None:
    """A count from a header; None if it is not a plausible number."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None
