"""Settings > Secrets: setting, replacing and removing them. Values are never shown."""

from collections.abc import Iterable
from functools import partial

from starlette.responses import Response

from agentjobs.organizations.secrets import list_secrets, remove_secret, set_secret
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.secret_forms import for_page, read_value
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.problems import Problem

_PATH = "/settings/secrets"


async def change(request: PageRequest) -> Response:
    name, value = request.form.text("name"), read_value(request.form)
    secret = await set_secret(request.db, request.context.keys, request.organization, name, value)
    is_new = secret.created_at == secret.updated_at
    return request.redirect(_PATH, banner=f"{name} was {'set' if is_new else 'replaced'}.")


async def remove(request: PageRequest) -> Response:
    name = request.form.text("name")
    await remove_secret(request.db, request.organization, name)
    return request.redirect(_PATH, banner=f"{name} was removed.")


async def show(
    request: PageRequest, problem: Problem | None = None, *, is_open: bool = False
) -> Response:
    """`is_open`: the form is shown, and the problem is its own."""
    name = request.form.text("name") if is_open else request.query_param("name")
    secrets = await list_secrets(request.db, request.organization)
    agents_by_secret = _agents_by_secret(request.context.catalog.all())
    known = {secret.name for secret in secrets}
    return await request.render(
        "settings/secrets.html",
        problem=problem and for_page(problem),
        name=name,
        is_open=is_open or bool(name),
        is_known=name in known,
        secrets=secrets,
        agents_by_secret=agents_by_secret,
        # Secrets that agents use and that are not set.
        needed=[
            name
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
    PageRoute("POST", _PATH, "admin", change, problem_page=partial(show, is_open=True)),
    PageRoute("POST", f"{_PATH}/remove", "admin", remove, problem_page=show),
]
