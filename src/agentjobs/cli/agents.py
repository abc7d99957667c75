"""`agentjobs agents`: the agent types that the settings enable, and whether they can run here."""

from typing import TYPE_CHECKING, Any

import typer

from agentjobs.cli.admin import Admin, load_settings, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer_json, answer_table

if TYPE_CHECKING:
    from agentjobs.agents.definitions import Agent
    from agentjobs.agents.readiness import Readiness

NOT_READY = 1

agents = typer.Typer(no_args_is_help=True, help="Agent types.")


@agents.callback()
def agents_noun() -> None:
    """Agent types."""


@agents.command("list")
def list_agents(data_dir: DataDir = None, json: Json = False) -> None:
    """List the agent types: those built in, and those of agentjobs.toml."""
    settings = load_settings(data_dir)
    from agentjobs.agents.catalog import build_catalog

    found = sorted(build_catalog(settings).all(), key=lambda agent: agent.id)
    if json:
        answer_json(
            {
                "agents": [
                    {
                        "id": agent.id,
                        "name": agent.name,
                        "plan_required": agent.plan_required,
                        "command": agent.command,
                        "timeout_seconds": agent.timeout_seconds,
                        "network": agent.network,
                        "preset": agent.preset,
                        "model_api": None if agent.model is None else agent.model.api,
                        "model": None if agent.model is None else agent.model.name or None,
                    }
                    for agent in found
                ]
            }
        )
        return
    answer_table(
        ("id", "name", "plan", "timeout"),
        [
            (agent.id, agent.name, agent.plan_required, f"{agent.timeout_seconds} s")
            for agent in found
        ],
    )


@agents.command("doctor")
def examine_agents(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """Say for each agent type whether this machine can run it for an organization, and what to do.

    Exits with 1 if one is not ready.
    """
    # First, so that a fault in the file is told without making a store.
    settings = load_settings(data_dir)
    from agentjobs.agents.catalog import build_catalog

    catalog = build_catalog(settings)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from agentjobs.agents.readiness import check_readiness

        found = []
        for agent in sorted(catalog.all(), key=lambda agent: agent.id):
            seen = await check_readiness(agent, in_sandbox=settings.has_sandbox)
            found.append(_finding(agent, seen, await _why_no_key(admin, agent, org)))
        return found

    found = with_store(data_dir, work)
    if json:
        answer_json({"agents": found})
    else:
        columns = ("id", "installed", "version", "key", "key_present", "ready", "to_do")
        rows = [[each[column] for column in columns] for each in found]
        answer_table([column.replace("_", " ") for column in columns], rows)
    if not all(each["ready"] for each in found):
        raise typer.Exit(NOT_READY)


async def _why_no_key(admin: Admin, agent: "Agent", org: str) -> str | None:
    """None when it needs none, or has one that opens here."""
    from agentjobs.organizations.organizations import find_organization
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.organizations.secrets import open_secret
    from agentjobs.problems import Problem

    owner = await find_organization(admin.db, org)
    if agent.model is None:
        return None
    keys, name = SealingKeys.load(admin.settings), agent.model.secret
    try:
        if await open_secret(admin.db, keys, owner.id, name) is not None:
            return None
    except Problem as problem:
        return problem.message
    return f"store its key: `agentjobs secrets set {name} --org {org}`"


def _finding(agent: "Agent", seen: "Readiness", why_no_key: str | None) -> dict[str, Any]:
    key = None if agent.model is None else agent.model.secret
    steps = [step for step in (seen.reason, why_no_key) if step]
    return {
        "id": agent.id,
        "installed": seen.installed,
        "version": seen.version,
        "key": key,
        "key_present": None if key is None else why_no_key is None,
        "ready": not steps,
        "to_do": "; ".join(steps) or None,
    }
