"""Request headers straight from the scope, without building a mapping for one look-up."""

from starlette.types import Scope


def all_headers(scope: Scope, name: bytes) -> list[bytes]:
    """`name` in lower case, as the server hands them over."""
    return [value for key, value in scope["headers"] if key == name]


def header(scope: Scope, name: bytes) -> str | None:
    """The first of that name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return None


def media_type(value: str | None) -> str:
    """`application/json` of `Application/JSON; charset=utf-8`; empty when there is none."""
    return (value or "").partition(";")[0].strip().lower()
