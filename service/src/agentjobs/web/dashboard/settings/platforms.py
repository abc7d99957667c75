"""Settings > Platforms: the connections, and adding one."""

import msgspec
from starlette.responses import Response

from agentjobs.connections.connections import NewConnection, list_connections
from agentjobs.connections.verify import verify_and_add
from agentjobs.platform_sync.state import count_by_connection
from agentjobs.web.dashboard.forms import Form
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.platform import PATH, detail_page
from agentjobs.web.dashboard.settings.platform_access import (
    page_retry_budget,
    page_timeout,
    require_platforms,
)
from agentjobs.web.dashboard.settings.platform_text import PLATFORMS, errors_by_field
from agentjobs_runtime.problems import Problem


class _FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the form, without the credential."""

    platform: str = "github"
    url: str = ""
    name: str = ""
    app_id: str = ""
    installation_id: str = ""

    @property
    def is_app(self) -> bool:
        return bool(self.app_id or self.installation_id)


async def add(request: PageRequest) -> Response:
    form_values = request.form.fill(_FormValues)
    new = _new(form_values, request.form)
    async with page_timeout(PLATFORMS[new.platform], "Nothing was connected. Try again later."):
        checked = await verify_and_add(
            request.db,
            request.context.keys,
            require_platforms(request),
            request.organization,
            new,
            page_retry_budget(),
        )
    # Not a redirect, because only this response shows the secret.
    return await detail_page(
        request, checked.added.connection, secret=checked.added.hook_secret, account=checked.account
    )


def _is_app(form: Form) -> bool:
    return bool(form.text("app_id") or form.text("installation_id") or form.text("private_key"))


def _new(form_values: _FormValues, form: Form) -> NewConnection:
    if form_values.platform not in PLATFORMS:
        raise Problem("invalid_platform", "Choose a platform.")
    token, private_key = form.text("token"), form.text("private_key")
    if token and private_key:
        raise Problem(
            "invalid_credential",
            "Enter a token or the private key of a GitHub App, not both. Nothing was stored.",
        )
    if private_key and not form_values.is_app:
        raise Problem(
            "invalid_app",
            "Enter the App ID and the installation ID as well.",
        )
    return NewConnection(
        platform=form_values.platform,
        credential=f"{private_key}\n" if form_values.is_app else token,
        url=form_values.url,
        name=form_values.name,
        app_id=form_values.app_id or None,
        installation_id=form_values.installation_id or None,
    )


async def show_list(request: PageRequest, problem: Problem | None = None) -> Response:
    is_app = _is_app(request.form)
    return await request.render(
        "settings/platforms.html",
        problem=problem,
        field_errors=errors_by_field(problem, is_app=is_app),
        connections=await list_connections(request.db, request.organization),
        counts=await count_by_connection(request.db, request.organization_id),
        platforms=PLATFORMS,
        platform_options=list(PLATFORMS.items()),
        form_values=request.form.fill(_FormValues) if problem else _FormValues(),
        is_app=is_app,
    )


ROUTES: Routes = [
    PageRoute("GET", PATH, "member", show_list),
    PageRoute("POST", PATH, "admin", add, problem_page=show_list),
]
