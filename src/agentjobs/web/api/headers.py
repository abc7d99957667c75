"""Reads request headers from the scope without building a mapping."""

from starlette.types import Scope


def all_headers(scope: Scope, name: bytes) -> list[bytes]:
    """All values of the header; `name` must be lowercase."""
    return [value for key, value in scope["headers"] if key == name]


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of the header."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return None


def media_type(value: str | None) -> str:
    """`application/json` for `Application/JSON; charset=utf-8`; empty without a value."""
    return (value or "").partition(";")[0].strip().lower()
