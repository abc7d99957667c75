"""A person's request on its way to a page: who asks, what was sent, and how to answer."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentjobs.organizations.form_tokens import form_token, new_nonce, nonce_from
from agentjobs.organizations.memberships import allows
from agentjobs.organizations.sessions import Origin, Viewer
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.web.api.errors import status_of
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.cookies import (
    SAID,
    Banner,
    Tone,
    drop_cookie,
    said_before,
    say_next,
)
from agentjobs.web.dashboard.forms import Form
from agentjobs.web.dashboard.notices import notices_for
from agentjobs.web.dashboard.pages import HEADERS, html_response, prefix_of, render


@dataclass(slots=True)
class Guest:
    """Whoever it is. `form` is what a POST sent, already read."""

    context: WebContext
    request: Request
    origin: Origin
    form: Form

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def db(self) -> Database:
        return self.context.db

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        return value

    def query(self, name: str) -> str:
        """Of the address; the empty text when it is missing."""
        return self.request.query_params.get(name, "").replace("\0", "").strip()

    async def page(
        self,
        template: str,
        *,
        status: int = 200,
        problem: Problem | None = None,
        **values: Any,
    ) -> Response:
        """`problem` is what came in the way of a form on this page; it decides the status."""
        status = status if problem is None else status_of(problem)
        said = said_before(self.request, self.settings)
        shown = {"problem": problem, "said": said, **await self._surroundings(), **values}
        response = html_response(await render(template, shown), status)
        if problem is not None and problem.retry_after_seconds is not None:
            response.headers["Retry-After"] = str(problem.retry_after_seconds)
        if said:
            drop_cookie(response, self.settings, SAID)
        return response

    async def fragment(self, template: str, **values: Any) -> str:
        """A part of a page, as the page itself shows it."""
        return await render(template, {**self._self(), **values})

    def part(self, html: str) -> Response:
        """A part of a page that the script asked for."""
        return html_response(html)

    def redirect(self, path: str, *, said: str = "", tone: Tone = "good", **query: str) -> Response:
        """To a page of ours, which shows `said` once in a banner of this tone."""
        address = prefix_of(self.settings) + path
        if query:
            address += f"?{urlencode(query)}"
        response = RedirectResponse(address, status_code=303, headers=HEADERS)
        if said:
            say_next(response, self.settings, Banner(tone, said))
        return response

    def _self(self) -> dict[str, Any]:
        place = self.request.url.path
        return {
            "prefix": prefix_of(self.settings),
            "place": place,
            "viewer": None,
            "csrf": "",
            "form_nonce": "",
        }

    async def _surroundings(self) -> dict[str, Any]:
        return {**self._self(), "notices": []}


@dataclass(slots=True)
class Visit(Guest):
    """Of somebody who is signed in."""

    viewer: Viewer
    # All forms of a page share one. A stream names that of the page it belongs to, so that the
    # parts it sends stay the same.
    form_nonce: str = field(default_factory=new_nonce)

    def __post_init__(self) -> None:
        self.form_nonce = nonce_from(self.query("form")) or self.form_nonce

    @property
    def organization_id(self) -> str:
        return self.viewer.organization_id

    @property
    def organization(self) -> str:
        return self.viewer.organization

    def may(self, role: str) -> bool:
        return allows(self.viewer.role, role)

    def _self(self) -> dict[str, Any]:
        return {
            **Guest._self(self),
            "viewer": self.viewer,
            "csrf": form_token(self.viewer.csrf, self.form_nonce),
            "form_nonce": self.form_nonce,
            "may": self.may,
        }

    async def _surroundings(self) -> dict[str, Any]:
        notices = await notices_for(self.db, self.viewer) if self.may("member") else []
        return {**self._self(), "notices": notices}
