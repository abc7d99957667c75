"""`agentjobs agents`: the configured agent types, and whether they can run on this machine."""

from typing import TYPE_CHECKING, Any

import typer

from agentjobs.cli.admin import Admin, load_settings, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import print_json, print_table

if TYPE_CHECKING:
    from agentjobs.agents.definitions import Agent
    from agentjobs.agents.readiness import Readiness

NOT_READY = 1

agents = typer.Typer(no_args_is_help=True, help="List and check agent types.")


@agents.callback()
def agents_group() -> None:
    """List and check agent types."""


@agents.command("list")
def list_agents(data_dir: DataDir = None, json: Json = False) -> None:
    """List the built-in agent types and those defined in agentjobs.toml."""
    settings = load_settings(data_dir)
    from agentjobs.agents.catalog import build_catalog

    catalog = sorted(build_catalog(settings).all(), key=lambda agent: agent.id)
    if json:
        print_json(
            {
                "agents": [
                    {
                        "id": agent.id,
                        "name": agent.name,
                        "description": agent.description,
                        "plan_required": agent.plan_required,
                        "command": agent.command,
                        "timeout_seconds": agent.timeout_seconds,
                        "network": agent.network,
                        "tags": agent.tags,
                        "max_concurrent_jobs": agent.max_concurrent_jobs,
                        "preset": agent.preset,
                        "model_api": None if agent.model is None else agent.model.api,
                        "model": None if agent.model is None else agent.model.name or None,
                    }
                    for agent in catalog
                ]
            }
        )
        return
    print_table(
        ("id", "name", "plan", "timeout", "tags", "max jobs"),
        [
            (
                agent.id,
                agent.name,
                agent.plan_required,
                f"{agent.timeout_seconds} s",
                ",".join(agent.tags) or None,
                agent.max_concurrent_jobs,
            )
            for agent in catalog
        ],
    )


@agents.command("doctor")
def check_agents(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """Check whether each agent type can run on this machine for an organization.

    Exits with 1 if an agent type is not ready.
    """
    # First, so that an error in agentjobs.toml does not create a store.
    settings = load_settings(data_dir)
    from agentjobs.agents.catalog import build_catalog

    catalog = build_catalog(settings)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from agentjobs.agents.installed_agents import check_installed

        agents = sorted(catalog.all(), key=lambda agent: agent.id)
        return [
            _finding(agent, readiness, await _missing_key_reason(admin, agent, org))
            for agent, readiness in zip(
                agents, await check_installed(settings, agents), strict=True
            )
        ]

    findings = with_store(data_dir, work)
    if json:
        print_json({"agents": findings})
    else:
        columns = ("id", "installed", "version", "key", "key_present", "ready", "to_do")
        rows = [[each[column] for column in columns] for each in findings]
        print_table([column.replace("_", " ") for column in columns], rows)
    if not all(each["ready"] for each in findings):
        raise typer.Exit(NOT_READY)


async def _missing_key_reason(admin: Admin, agent: "Agent", org: str) -> str | None:
    """None if the agent needs no key, or its key can be read."""
    from agentjobs.organizations.organizations import find_organization
    from agentjobs.organizations.sealing import DecryptionFailed, SealingKeys
    from agentjobs.organizations.secrets import open_secret

    owner = await find_organization(admin.db, org)
    if agent.model is None:
        return None
    keys, name = SealingKeys.load(admin.settings), agent.model.secret
    try:
        if await open_secret(admin.db, keys, owner.id, name) is not None:
            return None
    except DecryptionFailed as failure:
        return failure.reason
    return f"set its key: `agentjobs secrets set {name} --org {org}`"


def _finding(
    agent: "Agent", readiness: "Readiness", missing_key_reason: str | None
) -> dict[str, Any]:
    key = None if agent.model is None else agent.model.secret
    steps = [step for step in (readiness.reason, missing_key_reason) if step]
    return {
        "id": agent.id,
        "installed": readiness.installed,
        "version": readiness.version,
        "key": key,
        "key_present": None if key is None else missing_key_reason is None,
        "ready": not steps,
        "to_do": "; ".join(steps) or None,
    }
