"""Settings > Secrets: setting, replacing and removing them. Values are never shown."""

from collections.abc import Iterable

import msgspec
from starlette.responses import Response

from agentjobs.organizations.secrets import Secret, list_secrets, remove_secret, set_secret
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.sealing_problems import for_page
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.problems import Problem

_PATH = "/settings/secrets"


class _Needed(msgspec.Struct, frozen=True):
    """A secret that agents use and that is not set."""

    name: str
    agents: list[Agent]


class _Line(msgspec.Struct, frozen=True):
    secret: Secret
    agents: list[Agent]


async def show(request: PageRequest) -> Response:
    name = request.query_param("name")
    return await _page(request, name, is_open=bool(name))


async def change(request: PageRequest) -> Response:
    # Copying often adds whitespace around a key.
    name, value = request.form.text("name"), request.form.raw("value").strip()
    try:
        if not value:
            raise Problem("invalid_secret", "Enter a value for the secret.")
        secret = await set_secret(
            request.db, request.context.keys, request.organization, name, value
        )
    except Problem as problem:
        return await _page(request, name, is_open=True, problem=for_page(problem))
    is_new = secret.created_at == secret.updated_at
    return request.redirect(_PATH, banner=f"{name} was {'set' if is_new else 'replaced'}.")


async def remove(request: PageRequest) -> Response:
    name = request.form.text("name")
    try:
        await remove_secret(request.db, request.organization, name)
    except Problem as problem:
        if problem.code != "secret_not_found":
            raise
        missing = Problem("not_found", "That secret no longer exists. Nothing was removed.")
        return await _page(request, "", problem=missing)
    return request.redirect(_PATH, banner=f"{name} was removed.")


async def _page(
    request: PageRequest, name: str, *, is_open: bool = False, problem: Problem | None = None
) -> Response:
    """`is_open`: the form is shown, and the problem is its own."""
    secrets = await list_secrets(request.db, request.organization)
    agents_by_secret = _agents_by_secret(request.context.catalog.all())
    known = {secret.name for secret in secrets}
    return await request.render(
        "settings/secrets.html",
        problem=problem,
        name=name,
        is_open=is_open,
        is_known=name in known,
        lines=[_Line(secret, agents_by_secret.get(secret.name, [])) for secret in secrets],
        needed=[
            _Needed(name, agents)
            for name, agents in sorted(agents_by_secret.items())
            if name not in known and _is_any_allowed(request, agents)
        ],
    )


def _agents_by_secret(agents: Iterable[Agent]) -> dict[str, list[Agent]]:
    by_secret: dict[str, list[Agent]] = {}
    for agent in agents:
        if agent.model is not None:
            by_secret.setdefault(agent.model.secret, []).append(agent)
    return by_secret


def _is_any_allowed(request: PageRequest, agents: Iterable[Agent]) -> bool:
    plans, plan = request.context.plans, request.viewer.plan
    return any(plans.allows(plan, agent.plan_required) for agent in agents)


ROUTES: Routes = [
    PageRoute("GET", _PATH, "admin", show),
    PageRoute("POST", _PATH, "admin", change),
    PageRoute("POST", f"{_PATH}/remove", "admin", remove),
]
