"""Settings, secrets: set, replaced and removed. A value goes in and never comes out again."""

import logging
from collections.abc import Iterable

import msgspec
from starlette.responses import Response

from agentjobs.agents.definitions import Agent
from agentjobs.organizations.secrets import Secret, list_secrets, remove_secret, set_secret
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest

_PATH = "/settings/secrets"
_log = logging.getLogger(__name__)


class _Needed(msgspec.Struct, frozen=True):
    """A secret that agents name, and that is not set."""

    name: str
    agents: list[Agent]


class _Line(msgspec.Struct, frozen=True):
    secret: Secret
    agents: list[Agent]


async def show(request: PageRequest) -> Response:
    return await _page(request, request.query_param("name"))


async def change(request: PageRequest) -> Response:
    # Spaces around a key were never part of it; they come along when it is copied.
    name, value = request.form.text("name"), request.form.raw("value").strip()
    try:
        if not value:
            raise Problem("invalid_secret", "Paste the secret's value; it cannot be empty.")
        secret = await set_secret(
            request.db, request.context.keys, request.organization, name, value
        )
    except Problem as problem:
        return await _page(request, name, problem=_for_people(problem))
    is_new = secret.created_at == secret.updated_at
    return request.redirect(_PATH, banner=f"{name} is {'set' if is_new else 'replaced'}.")


async def remove(request: PageRequest) -> Response:
    name = request.form.text("name")
    try:
        await remove_secret(request.db, request.organization, name)
    except Problem as problem:
        if problem.code != "secret_not_found":
            raise
        gone = Problem("not_found", "That secret is not there any more; nothing was removed.")
        return await _page(request, "", problem=gone)
    return request.redirect(_PATH, banner=f"{name} is removed.")


async def _page(request: PageRequest, name: str, *, problem: Problem | None = None) -> Response:
    secrets = await list_secrets(request.db, request.organization)
    users = _agents_by_secret(request.context.catalog.all())
    known = {secret.name for secret in secrets}
    return await request.render(
        "settings/secrets.html",
        problem=problem,
        name=name,
        is_known=name in known,
        lines=[_Line(secret, users.get(secret.name, [])) for secret in secrets],
        needed=[
            _Needed(each, agents)
            for each, agents in sorted(users.items())
            if each not in known and _one_is_allowed(request, agents)
        ],
    )


def _agents_by_secret(agents: Iterable[Agent]) -> dict[str, list[Agent]]:
    found: dict[str, list[Agent]] = {}
    for agent in agents:
        if agent.model is not None:
            found.setdefault(agent.model.secret, []).append(agent)
    return found


def _one_is_allowed(request: PageRequest, agents: Iterable[Agent]) -> bool:
    plans, plan = request.context.plans, request.viewer.plan
    return any(plans.allows(plan, agent.plan_required) for agent in agents)


def _for_people(problem: Problem) -> Problem:
    if "sealing_key" not in problem.code:
        return problem
    # Its words are for the operator: they name places on this host.
    _log.warning("a secret cannot be sealed: %s", problem.message)
    return Problem(
        "unavailable",
        "The service cannot seal secrets at the moment, so nothing was stored. Tell the operator; "
        "the service's log says why.",
    )


ROUTES: Routes = [
    PageRoute("GET", _PATH, "admin", show),
    PageRoute("POST", _PATH, "admin", change),
    PageRoute("POST", f"{_PATH}/remove", "admin", remove),
]
