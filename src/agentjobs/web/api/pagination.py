"""Pages: opaque cursors that hold the key of the last item sent. Knows not what is listed."""

import base64
import binascii
from collections.abc import Callable
from typing import TypeVar

import msgspec

from agentjobs.web.api.query import Query

MOST_CURSOR_LENGTH = 512
BAD_CURSOR = "must be a `next_cursor` of this listing, unchanged"

Item = TypeVar("Item")


class Page(msgspec.Struct, frozen=True):
    """Where to go on and how far; None: from the start, to the end."""

    after: str | None
    limit: int | None


def read_page(query: Query, kind: str, is_key: Callable[[str], object], *, most: int) -> Page:
    limit = query.number("limit", least=1, most=most)
    cursor = query.text("cursor", most=MOST_CURSOR_LENGTH)
    after = None if cursor is None else decode_cursor(kind, cursor)
    if cursor is not None and (after is None or not is_key(after)):
        query.refuse("cursor", BAD_CURSOR)
    return Page(after, limit)


def cut(
    items: list[Item], limit: int | None, kind: str, key: Callable[[Item], str]
) -> tuple[list[Item], str | None]:
    """The first `limit` of them, and the cursor that leads to the rest, if there is a rest."""
    if limit is None or len(items) <= limit:
        return items, None
    return items[:limit], encode_cursor(kind, key(items[limit - 1]))


def encode_cursor(kind: str, key: str) -> str:
    return base64.urlsafe_b64encode(f"{kind} {key}".encode()).rstrip(b"=").decode()


def decode_cursor(kind: str, cursor: str) -> str | None:
    """None for anything but a cursor of that kind."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    found, _, key = text.partition(" ")
    return key if found == kind and encode_cursor(kind, key) == cursor else None
