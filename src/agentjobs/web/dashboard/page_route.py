"""An address of the dashboard: what may be done there, and by whom at least."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from agentjobs.web.dashboard.request_context import Guest, Visit

Role = Literal["viewer", "member", "admin"]
GuestHandler = Callable[[Guest], Awaitable[Response]]
VisitHandler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Place:
    """For people who are signed in. `takes_keys`: an API key may read it, too."""

    method: Literal["GET", "POST"]
    path: str
    role: Role
    handler: VisitHandler
    takes_keys: bool = False


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """For anybody: it has to see for itself who comes."""

    method: Literal["GET", "POST"]
    path: str
    handler: GuestHandler
