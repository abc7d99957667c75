"""Settings > Secrets of environments: for setup, the proxy and registries. Never shows values."""

from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.environments.secret_definition import PURPOSES, SecretInput, parse_secret
from agentjobs.environments.secrets import (
    list_environment_secrets,
    remove_environment_secret,
    set_environment_secret,
)
from agentjobs.repos.queries import find_repo
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.secret_forms import for_page, read_value
from agentjobs_runtime.environments.brokered_host import KINDS
from agentjobs_runtime.problems import Problem

_PATH = "/settings/secrets/environments"


class _FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the form, without the secret."""

    name: str = ""
    purpose: str = "setup"
    repo: str = ""
    host: str = ""
    header: str = ""
    path_prefix: str = ""
    methods: str = ""
    kind: str = ""
    username: str = ""


async def change(request: PageRequest) -> Response:
    entered, value = request.form.fill(_FormValues), read_value(request.form)
    texts: dict[str, str] = msgspec.structs.asdict(entered)
    repo_id = await _repo_id(request, texts.pop("repo"))
    definition = parse_secret(SecretInput(**texts, value=value), repo_id)
    secret = await set_environment_secret(
        request.db, request.context.keys, request.organization_id, definition, value
    )
    verb = "set" if secret.created_at == secret.updated_at else "replaced"
    return request.redirect(_PATH, banner=f"{entered.name} was {verb}.")


async def remove(request: PageRequest) -> Response:
    name = request.form.text("name")
    repo_id = await _repo_id(request, request.form.text("repo"))
    await remove_environment_secret(request.db, request.organization_id, repo_id, name)
    return request.redirect(_PATH, banner=f"{name} was removed.")


async def _repo_id(request: PageRequest, full_name: str) -> str:
    """Empty if no repository is named."""
    if not full_name:
        return ""
    try:
        return (await find_repo(request.db, request.organization_id, full_name)).id
    except Problem:
        raise Problem(
            "repo_not_connected",
            f"No repository {full_name} is connected; enter its name as OWNER/NAME.",
        ) from None


async def show(
    request: PageRequest, problem: Problem | None = None, *, is_open: bool = False
) -> Response:
    """`is_open`: the form is shown, and the problem is its own."""
    values: dict[str, Any] = {
        "entered": request.form.fill(_FormValues) if is_open else _FormValues(),
        "is_open": is_open,
        "secrets": await list_environment_secrets(request.db, request.organization_id),
        "purposes": [(purpose, purpose) for purpose in PURPOSES],
        "kinds": [("", "none"), *((kind, kind) for kind in KINDS)],
    }
    shown = problem and for_page(problem)
    return await request.render("settings/environment_secrets.html", problem=shown, **values)


ROUTES: Routes = [
    PageRoute("GET", _PATH, "admin", show),
    PageRoute("POST", _PATH, "admin", change, problem_page=partial(show, is_open=True)),
    PageRoute("POST", f"{_PATH}/remove", "admin", remove, problem_page=show),
]
