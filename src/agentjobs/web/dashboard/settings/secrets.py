"""Settings, secrets: set, replaced and removed. A value goes in and never comes out again."""

import logging
from collections.abc import Iterable

import msgspec
from starlette.responses import Response

from agentjobs.agents.definitions import Agent
from agentjobs.organizations.secrets import Secret, list_secrets, remove_secret, set_secret
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit

_PATH = "/settings/secrets"
_log = logging.getLogger(__name__)


class _Needed(msgspec.Struct, frozen=True):
    """A secret that agents name, and that is not set."""

    name: str
    agents: list[Agent]


class _Line(msgspec.Struct, frozen=True):
    secret: Secret
    agents: list[Agent]


async def show(visit: Visit) -> Response:
    return await _page(visit, visit.query("name"))


async def change(visit: Visit) -> Response:
    # Spaces around a key were never part of it; they come along when it is copied.
    name, value = visit.form.text("name"), visit.form.raw("value").strip()
    try:
        if not value:
            raise Problem("invalid_secret", "Paste the secret's value; it cannot be empty.")
        secret = await set_secret(visit.db, visit.context.keys, visit.organization, name, value)
    except Problem as problem:
        return await _page(visit, name, problem=_for_people(problem))
    is_new = secret.created_at == secret.updated_at
    return visit.redirect(_PATH, said=f"{name} is {'set' if is_new else 'replaced'}.")


async def remove(visit: Visit) -> Response:
    name = visit.form.text("name")
    try:
        await remove_secret(visit.db, visit.organization, name)
    except Problem as problem:
        if problem.code != "secret_not_found":
            raise
        gone = Problem("not_found", "That secret is not there any more; nothing was removed.")
        return await _page(visit, "", problem=gone)
    return visit.redirect(_PATH, said=f"{name} is removed.")


async def _page(visit: Visit, name: str, *, problem: Problem | None = None) -> Response:
    secrets = await list_secrets(visit.db, visit.organization)
    users = _agents_by_secret(visit.context.catalog.all())
    known = {secret.name for secret in secrets}
    return await visit.page(
        "settings/secrets.html",
        problem=problem,
        name=name,
        is_known=name in known,
        lines=[_Line(secret, users.get(secret.name, [])) for secret in secrets],
        needed=[
            _Needed(each, agents)
            for each, agents in sorted(users.items())
            if each not in known and _one_is_allowed(visit, agents)
        ],
    )


def _agents_by_secret(agents: Iterable[Agent]) -> dict[str, list[Agent]]:
    found: dict[str, list[Agent]] = {}
    for agent in agents:
        if agent.model is not None:
            found.setdefault(agent.model.secret, []).append(agent)
    return found


def _one_is_allowed(visit: Visit, agents: Iterable[Agent]) -> bool:
    plans, plan = visit.context.plans, visit.viewer.plan
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


PLACES: list[Place | OpenPlace] = [
    Place("GET", _PATH, "admin", show),
    Place("POST", _PATH, "admin", change),
    Place("POST", f"{_PATH}/remove", "admin", remove),
]
