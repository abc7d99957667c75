"""The dashboard's own route types: an address, its handler, and the role it requires."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from agentjobs.web.dashboard.request_context import AnonymousRequest, PageRequest
from agentjobs_runtime.problems import Problem

Method = Literal["GET", "POST"]
Role = Literal["viewer", "member", "admin", "operator"]
PageHandler = Callable[[PageRequest], Awaitable[Response]]
ProblemPage = Callable[[PageRequest, Problem], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """Requires a signed-in user with at least `role`. With `takes_keys`, an API key can read it.

    `operator` is no role of an organization: those pages do not exist for other users.
    `problem_page` shows the form again when its handler raises a Problem other than `not_found`.
    """

    method: Method
    path: str
    role: Role
    handler: PageHandler
    takes_keys: bool = False
    problem_page: ProblemPage | None = None


@dataclass(frozen=True, slots=True)
class PublicRoute:
    """Open to everyone; the handler checks who is asking."""

    method: Method
    path: str
    handler: Callable[[AnonymousRequest], Awaitable[Response]]


# A repository's name in a path: two segments, or more for nested groups.
REPO = "{full_name:path}"
Routes = list[PageRoute | PublicRoute]
