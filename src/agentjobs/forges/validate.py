"""What a platform said, before anything here believes it: numbers, names, addresses, commits.

Pure. Words of people are mended; what the platform itself makes up is right or refused.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from agentjobs.forges.protocol import ForgeError
from agentjobs.forges.text import cut
from agentjobs.safe_text import replace_unstorable

MOST_COMMENT_BYTES = 16 * 1024
MOST_ISSUE_BYTES = 256 * 1024
MOST_ADDRESS_CHARACTERS = 2_000
_MOST_NAME_CHARACTERS = 1_000
_MOST_TITLE_CHARACTERS = 1_000
_MOST_NUMBER = 2**63
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})?")
_CONTROLS = re.compile(r"[\x00-\x20\x7f]")

Told = TypeVar("Told", bound=msgspec.Struct)


def plausible(platform: str, told: Told) -> Told:
    """A value of the protocol, as every store takes it. Raises ForgeError."""
    mended: dict[str, str] = {}
    for name in told.__struct_fields__:
        value = getattr(told, name)
        is_right = _CHECKS.get(name)
        if is_right is not None and not is_right(value):
            words = f"{platform} answered with something that makes no sense (its {_SAID[name]})"
            raise ForgeError(f"{words}; check the address.")
        if name in _MENDED:
            mended[name] = _MENDED[name](value)
    return msgspec.structs.replace(told, **mended)


def count_in(text: str) -> int | None:
    """A number in a header; None where there is none that could be meant."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _is_number(value: int) -> bool:
    return 0 < value < _MOST_NUMBER


def _is_identifier(value: str) -> bool:
    number = count_in(value) if len(value) < 19 else None
    return number is not None and number > 0


def _is_commit(value: str) -> bool:
    """Empty where the platform knows none."""
    return _COMMIT.fullmatch(value) is not None


def _is_name(value: str) -> bool:
    return _is_known_name(value) and value != ""


def _is_known_name(value: str) -> bool:
    """Empty where there is none: of a branch before the first commit, of somebody who is gone."""
    return len(value) <= _MOST_NAME_CHARACTERS and _CONTROLS.search(value) is None


def _is_address(value: str) -> bool:
    if len(value) > MOST_ADDRESS_CHARACTERS or not value.isprintable() or " " in value:
        return False
    try:
        parts = urlsplit(value)
        # GitHub Enterprise may call itself otherwise than we do, so any host will do.
        return parts.scheme in {"https", "http"} and bool(parts.hostname) and not parts.username
    except ValueError:
        return False


_CHECKS: Mapping[str, Callable[..., bool]] = {
    "number": _is_number,
    "id": _is_number,
    "external_id": _is_identifier,
    "full_name": _is_name,
    "login": _is_name,
    "author": _is_known_name,
    "default_branch": _is_known_name,
    "head_commit": _is_commit,
    "url": _is_address,
}
_SAID: Mapping[str, str] = {
    "number": "number",
    "id": "number",
    "external_id": "number",
    "full_name": "name",
    "login": "login",
    "author": "author",
    "default_branch": "default branch",
    "head_commit": "commit",
    "url": "address",
}
_MENDED: Mapping[str, Callable[[str], str]] = {
    "title": lambda title: replace_unstorable(title[:_MOST_TITLE_CHARACTERS]),
    "text": lambda text: cut(text, MOST_ISSUE_BYTES),
}
