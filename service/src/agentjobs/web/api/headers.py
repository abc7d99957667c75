"""Reads request headers from the scope, which keeps them by name after the first use."""

from collections.abc import Sequence

from starlette.types import Scope

_BY_NAME = "agentjobs.headers"


def all_headers(scope: Scope, name: bytes) -> Sequence[bytes]:
    """All values of the header; `name` must be lowercase."""
    by_name: dict[bytes, Sequence[bytes]] | None = scope.get(_BY_NAME)
    if by_name is None:
        by_name = scope[_BY_NAME] = _by_name(scope["headers"])
    return by_name.get(name, ())


def _by_name(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, Sequence[bytes]]:
    by_name: dict[bytes, Sequence[bytes]] = {name: (value,) for name, value in headers}
    if len(by_name) < len(headers):
        for name in by_name:
            by_name[name] = [value for other, value in headers if other == name]
    return by_name


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of the header."""
    values = all_headers(scope, name)
    return values[0].decode("latin-1") if values else None


def media_type(value: str | None) -> str:
    """`application/json` for `Application/JSON; charset=utf-8`; empty without a value."""
    return (value or "").partition(";")[0].strip().lower()


def names_type(scope: Scope, name: str) -> bool:
    """Whether the client names this type itself in its Accept header, with any quality."""
    accepted = b",".join(all_headers(scope, b"accept")).decode("latin-1").split(",")
    return any(media_type(text) == name for text in accepted)
