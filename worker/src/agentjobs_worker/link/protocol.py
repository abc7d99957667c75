"""What a worker needs of its connection to the service, whatever carries it."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol, TypeVar

from agentjobs_runtime.protocol.messages import Request

T = TypeVar("T")


class Signal(Protocol):
    """A wake-up that is remembered: announcements between two waits are not missed."""

    def clear(self) -> None:
        """Forget announcements until now."""

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """True once something was announced since the last wait, False after the timeout."""


class Changes(Protocol):
    """What the service announces, by topic."""

    def listen(self, *topics: str, takes_work: bool = False) -> AbstractContextManager[Signal]: ...

    def poll_seconds(self, seconds: float, max_seconds: float = ...) -> float:
        """How long to wait for an announcement: longer in a large fleet."""


class Link(Protocol):
    @property
    def changes(self) -> Changes: ...

    async def call(self, request: Request[T]) -> T:
        """Raises ServiceUnavailable, ServiceError, and ClaimLost for a claim that is not held."""

    def open_another(self) -> AbstractAsyncContextManager["Link"]:
        """One of its own, for the event loop of another thread."""
