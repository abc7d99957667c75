"""Valid requests to a contract server, and its responses."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

NO_BODY: Any = object()


@dataclass(frozen=True)
class Call:
    """A request that matches the description. `name` is "GET /repos/{owner}/{repo}"."""

    name: str
    values: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str] = field(repr=False)
    path: str = ""

    def page(self, usual: int = 30, maximum: int = 100, size: str = "per_page") -> tuple[int, int]:
        """The requested page, counted from 1, and its length."""
        per_page = min(int(self.query.get(size, usual)), maximum)
        return int(self.query.get("page", 1)), per_page


@dataclass(frozen=True)
class Response:
    """`content` is NO_BODY for a response without a body."""

    content: Any = NO_BODY
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """An error response in the platform's format; `more` are additional fields."""

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


Handler = Callable[[Any, Call], Awaitable[Response]]


def handles(name: str) -> Callable[[Handler], Handler]:
    """Marks the method of a server that handles an operation such as "GET /user"."""

    def mark(handler: Handler) -> Handler:
        handler.__dict__.setdefault("operations", []).append(name)
        return handler

    return mark


def find_handlers(kind: type) -> dict[str, Handler]:
    handlers: dict[str, Handler] = {}
    for owner in reversed(kind.__mro__):
        for handler in vars(owner).values():
            for name in getattr(handler, "operations", ()):
                handlers[name] = handler
    return handlers
