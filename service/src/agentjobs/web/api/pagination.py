"""Pagination with opaque cursors that contain the key of the last item of a page."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from agentjobs_runtime.json_fields import CONTROL_CHARACTERS, NULL_CHARACTERS, Rule, doc, text
from agentjobs_runtime.problems import Fault

_BAD_CURSOR = "must be a `next_cursor` of this listing, unchanged"

Item = TypeVar("Item")

CursorText = Annotated[
    str,
    text(
        max_length=512,
        matching=Rule("^[A-Za-z0-9_-]+$", _BAD_CURSOR),
        without=CONTROL_CHARACTERS,
    ),
]
Cursor = Annotated[
    CursorText | None, doc("A `next_cursor` of this listing; the page after it is returned.")
]
NextCursor = Annotated[str | None, doc("The `cursor` of the next page; null on the last page.")]
FilterText = Annotated[str, text(min_length=1, max_length=255, without=NULL_CHARACTERS)]


class PageQuery(msgspec.Struct, frozen=True):
    """For listings that the specification defines without pages: the default returns all items."""

    limit: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)] | None, doc("At most this many; by default all.")
    ] = None
    cursor: Cursor = None


class Cursors(NamedTuple):
    """The cursors of one listing; those of another listing are refused."""

    kind: str
    is_key: Callable[[str], object]

    def encode(self, key: str) -> str:
        return base64.urlsafe_b64encode(f"{self.kind} {key}".encode()).rstrip(b"=").decode()

    def decode(self, cursor: str | None) -> str | None:
        """The key in a cursor of this listing; None for any other text."""
        if cursor is None:
            return None
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            return None
        kind, _, key = decoded.partition(" ")
        if kind != self.kind or not self.is_key(key) or self.encode(key) != cursor:
            return None
        return key

    def faults(self, query: Mapping[str, Any]) -> list[Fault]:
        cursor = query.get("cursor")
        if cursor is None or self.decode(cursor) is not None:
            return []
        return [{"field": "cursor", "message": _BAD_CURSOR}]

    def cut(
        self, items: list[Item], limit: int | None, key: Callable[[Item], str]
    ) -> tuple[list[Item], str | None]:
        """The first `limit` items, and the cursor of the next page if there is one."""
        if limit is None or len(items) <= limit:
            return items, None
        return items[:limit], self.encode(key(items[limit - 1]))
