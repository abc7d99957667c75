"""Validates values that a platform returned: numbers, names, URLs, commits.

Pure functions. Texts that people wrote are cleaned; anything else is valid or refused.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from agentjobs.platforms.protocol import PlatformError
from agentjobs.platforms.text import truncate
from agentjobs_runtime.safe_text import replace_unstorable

MAX_COMMENT_BYTES = 16 * 1024
MAX_ISSUE_BYTES = 256 * 1024
MAX_URL_CHARACTERS = 2_000
_MAX_NAME_CHARACTERS = 1_000
_MAX_TITLE_CHARACTERS = 1_000
_MAX_NUMBER = 2**63
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})?")
_CONTROLS = re.compile(r"[\x00-\x20\x7f]")

Value = TypeVar("Value", bound=msgspec.Struct)


def validate(platform: str, value: Value) -> Value:
    """A value of the protocol that can be stored. Raises PlatformError."""
    cleaned: dict[str, str] = {}
    for name in value.__struct_fields__:
        content = getattr(value, name)
        title, is_valid = _CHECKS.get(name, ("", None))
        if is_valid is not None and not is_valid(content):
            raise PlatformError(
                f"{platform} returned an invalid {title}; check the connection's address.",
                "unusable",
            )
        if name in _CLEANERS:
            cleaned[name] = _CLEANERS[name](content)
    return msgspec.structs.replace(value, **cleaned)


def parse_count(text: str) -> int | None:
    """A count from a header; None if it is not a plausible number."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _is_number(value: int) -> bool:
    return 0 < value < _MAX_NUMBER


def _is_identifier(value: str) -> bool:
    number = parse_count(value) if len(value) < 19 else None
    return number is not None and number > 0


def _is_commit(value: str) -> bool:
    """May be empty."""
    return _COMMIT.fullmatch(value) is not None


def _is_name(value: str) -> bool:
    return _is_name_or_empty(value) and value != ""


def _is_name_or_empty(value: str) -> bool:
    """May be empty: the branch of a repository without commits, or a deleted author."""
    return len(value) <= _MAX_NAME_CHARACTERS and _CONTROLS.search(value) is None


def _is_url(value: str) -> bool:
    if len(value) > MAX_URL_CHARACTERS or not value.isprintable() or " " in value:
        return False
    try:
        parts = urlsplit(value)
        # GitHub Enterprise may use another host name for itself, so any host is accepted.
        return parts.scheme in {"https", "http"} and bool(parts.hostname) and not parts.username
    except ValueError:
        return False


# What messages call the field, and whether a value is valid.
_CHECKS: Mapping[str, tuple[str, Callable[..., bool]]] = {
    "number": ("number", _is_number),
    "id": ("number", _is_number),
    "external_id": ("number", _is_identifier),
    "full_name": ("repository name", _is_name),
    "login": ("login", _is_name),
    "author": ("author", _is_name_or_empty),
    "default_branch": ("default branch", _is_name_or_empty),
    "head_commit": ("commit", _is_commit),
    "url": ("URL", _is_url),
}
_CLEANERS: Mapping[str, Callable[[str], str]] = {
    "title": lambda title: replace_unstorable(title[:_MAX_TITLE_CHARACTERS]),
    "text": lambda text: truncate(text, MAX_ISSUE_BYTES),
}
