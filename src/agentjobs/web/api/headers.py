"""Reads request headers from the scope, which keeps them by name after the first use."""

from collections.abc import Sequence

from starlette.types import Scope

_BY_NAME = "agentjobs.headers"


def all_headers(scope: Scope, name: bytes) -> Sequence[bytes]:
    """All values of the header; `name` must be lowercase."""
    by_name: dict[bytes, list[bytes]] | None = scope.get(_BY_NAME)
    if by_name is None:
        by_name = scope[_BY_NAME] = {}
        for key, value in scope["headers"]:
            by_name.setdefault(key, []).append(value)
    return by_name.get(name, ())


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of the header."""
    values = all_headers(scope, name)
    return values[0].decode("latin-1") if values else None


def media_type(value: str | None) -> str:
    """`application/json` for `Application/JSON; charset=utf-8`; empty without a value."""
    return (value or "").partition(";")[0].strip().lower()
