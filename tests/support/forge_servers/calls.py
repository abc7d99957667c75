"""A request to a contract server that keeps to the description, and what may be answered."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

NOTHING: Any = object()


@dataclass(frozen=True)
class Call:
    """A request that keeps to the description. `name` is "GET /repos/{owner}/{repo}"."""

    name: str
    values: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str] = field(repr=False)
    path: str = ""

    def page(self, usual: int = 30, most: int = 100, size: str = "per_page") -> tuple[int, int]:
        """Which page is asked for, counted from 1, and how much stands on it."""
        per_page = min(int(self.query.get(size, usual)), most)
        return int(self.query.get("page", 1)), per_page


@dataclass(frozen=True)
class Answer:
    """`content` NOTHING: no body at all."""

    content: Any = NOTHING
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """An answer of the platform's error shape; `more` are further fields of it."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        /,
        **more: object,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.more = more


Handler = Callable[[Any, Call], Awaitable[Answer]]


def answers(name: str) -> Callable[[Handler], Handler]:
    """Marks the method of a server that answers the operation, such as "GET /user"."""

    def mark(handler: Handler) -> Handler:
        handler.__dict__.setdefault("operations", []).append(name)
        return handler

    return mark


def handlers_of(kind: type) -> dict[str, Handler]:
    found: dict[str, Handler] = {}
    for owner in reversed(kind.__mro__):
        for handler in vars(owner).values():
            for name in getattr(handler, "operations", ()):
                found[name] = handler
    return found
