"""What a page handler receives: the request, its form and viewer, and ways to respond."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentjobs.organizations.form_tokens import form_token, new_nonce, nonce_from
from agentjobs.organizations.memberships import allows
from agentjobs.organizations.sessions import Origin, Viewer
from agentjobs.store.database import Database
from agentjobs.web.api.errors import find_status
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.cookies import (
    BANNER,
    ZONE,
    Banner,
    Tone,
    cookie_name,
    delete_cookie,
    read_banner,
    read_cookie,
    set_banner,
)
from agentjobs.web.dashboard.forms import Form
from agentjobs.web.dashboard.notices import notices_for
from agentjobs.web.dashboard.pages import HEADERS, html_response, render
from agentjobs.web.dashboard.zones import shown_zone, zone_named
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings


@dataclass(slots=True)
class AnonymousRequest:
    """A request from anyone. `form` holds the parsed body of a POST."""

    context: WebContext
    http: Request
    origin: Origin
    form: Form

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def db(self) -> Database:
        return self.context.db

    @property
    def zone(self) -> tzinfo:
        """The viewer's. A stream names the one of the page it belongs to."""
        return zone_named(self.query_param("zone") or read_cookie(self.http, self.settings, ZONE))

    def path_param(self, name: str) -> str:
        value: str = self.http.path_params[name]
        return value

    def query_param(self, name: str) -> str:
        """The empty string if the parameter is missing."""
        return self.http.query_params.get(name, "").replace("\0", "").strip()

    async def render(
        self, template: str, *, problem: Problem | None = None, **values: Any
    ) -> Response:
        """A whole page. `problem` is the error of a form on it, and determines the status."""
        status = 200 if problem is None else find_status(problem)
        banner = read_banner(self.http, self.settings)
        shared = await self._layout_values()
        html = await render(template, {"problem": problem, "banner": banner, **shared, **values})
        response = html_response(html, status)
        if problem is not None and problem.retry_after_seconds is not None:
            response.headers["Retry-After"] = str(problem.retry_after_seconds)
        if banner:
            delete_cookie(response, self.settings, BANNER)
        return response

    async def fragment(self, template: str, **values: Any) -> str:
        """A part of a page, rendered exactly as the page renders it."""
        return await render(template, {**self._base_values(), **values})

    def part(self, html: str) -> Response:
        """The response to a script that fetched a part of a page."""
        return html_response(html)

    def address(self, path: str, query: Mapping[str, str]) -> str:
        """The address of a page of the dashboard, without empty parameters."""
        given = urlencode({name: value for name, value in query.items() if value})
        return self.settings.public_path + path + (f"?{given}" if given else "")

    def redirect(
        self, path: str, *, banner: str = "", tone: Tone = "good", **query: str
    ) -> Response:
        """Redirects to another page of the dashboard, which shows `banner` once."""
        address = self.address(path, query)
        response = RedirectResponse(address, status_code=303, headers=HEADERS)
        if banner:
            set_banner(response, self.settings, Banner(tone, banner))
        return response

    def _base_values(self) -> dict[str, Any]:
        return {
            "prefix": self.settings.public_path,
            "current_path": self.http.url.path,
            "viewer": None,
            "csrf": "",
            "form_nonce": "",
            "zone_cookie": cookie_name(self.settings, ZONE),
            **shown_zone(self.zone),
        }

    async def _layout_values(self) -> dict[str, Any]:
        return {**self._base_values(), "notices": []}


@dataclass(slots=True)
class PageRequest(AnonymousRequest):
    """A request from a signed-in user, or with an API key."""

    viewer: Viewer
    # Shared by all forms of a page. A live stream passes the nonce of its page, so that the parts
    # it sends equal those already shown.
    form_nonce: str = field(default_factory=new_nonce)
    # For a live stream: the parts to render instead of the page, and their HTML.
    parts: Sequence[str] | None = None
    rendered: Mapping[str, str] = field(default_factory=dict)
    # What a page says about its stream: what changes it, and whether nothing will change again.
    topics: tuple[str, ...] = ()
    is_settled: bool = False

    def __post_init__(self) -> None:
        self.form_nonce = nonce_from(self.query_param("form")) or self.form_nonce

    @property
    def organization_id(self) -> str:
        return self.viewer.organization_id

    @property
    def organization(self) -> str:
        return self.viewer.organization

    @property
    def is_operator(self) -> bool:
        """Whether the viewer may see and manage the whole service."""
        return self.viewer.is_operator

    def may(self, role: str) -> bool:
        return self.is_operator if role == "operator" else allows(self.viewer.role, role)

    async def render(
        self, template: str, *, problem: Problem | None = None, **values: Any
    ) -> Response:
        if self.parts is None:
            values["live_attribute"] = "" if problem else self._live_attribute()
            return await AnonymousRequest.render(self, template, problem=problem, **values)
        if problem is not None:
            raise problem
        self.rendered = {part: await self.fragment(f"{part}.html", **values) for part in self.parts}
        return Response()

    def _live_attribute(self) -> Markup | str:
        """Names the stream of the page, for its first part that is live. Empty for the response to
        a form, and for all pages of a list but the first."""
        if self.http.method == "POST" or {"before", "after"} & {*self.http.query_params}:
            return ""
        path, query = quote(self.http.scope["path"].rstrip("/")), self.http.url.query
        address = f"{self.settings.public_path}{path}/stream{'?' if query else ''}{query}"
        return Markup(' data-live="{}"').format(address)

    def _base_values(self) -> dict[str, Any]:
        return {
            **AnonymousRequest._base_values(self),
            "viewer": self.viewer,
            "csrf": form_token(self.viewer.csrf, self.form_nonce),
            "form_nonce": self.form_nonce,
            "may": self.may,
            "is_operator": self.is_operator,
        }

    async def _layout_values(self) -> dict[str, Any]:
        notices = await notices_for(self.db, self.viewer)
        return {**self._base_values(), "notices": notices}
