"""`agentjobs agents`: the configured agent types, and whether they can run on this machine."""

from typing import TYPE_CHECKING, Any

import typer

from agentjobs.cli.admin import Admin, load_settings, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import Table, print_answer

if TYPE_CHECKING:
    from agentjobs.worker_part.machine import Readiness
    from agentjobs_runtime.agents.definitions import Agent

NOT_READY = 1
_FIELDS = (
    *("id", "name", "description", "plan_required", "command", "timeout_seconds", "network"),
    *("tags", "max_concurrent_jobs", "preset"),
)

agents = typer.Typer(no_args_is_help=True, help="List and check agent types.")


@agents.command("list")
def list_agents(data_dir: DataDir = None, json: Json = False) -> None:
    """List the built-in agent types and those defined in agentjobs.toml."""
    settings = load_settings(data_dir)
    from agentjobs.worker_part.agents import build_catalog

    catalog = sorted(build_catalog(settings).all(), key=lambda agent: agent.id)
    rows = [
        (
            agent.id,
            agent.name,
            agent.plan_required,
            f"{agent.timeout_seconds} s",
            ",".join(agent.tags) or None,
            agent.max_concurrent_jobs,
        )
        for agent in catalog
    ]
    documents = [_document(agent) for agent in catalog]
    columns = ("id", "name", "plan", "timeout", "tags", "max jobs")
    print_answer(Table({"agents": documents}, columns, rows), json=json)


@agents.command("doctor")
def check_agents(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """Check whether each agent type can run on this machine for an organization.

    Exits with 1 if an agent type is not ready.
    """
    # First, so that an error in agentjobs.toml does not create a store.
    settings = load_settings(data_dir)
    from agentjobs.worker_part.agents import build_catalog

    catalog = build_catalog(settings)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from agentjobs.worker_part.machine import check_installed

        agents = sorted(catalog.all(), key=lambda agent: agent.id)
        return [
            _finding(agent, readiness, await _missing_key_reason(admin, agent, org))
            for agent, readiness in zip(
                agents, await check_installed(settings, agents), strict=True
            )
        ]

    findings = with_store(data_dir, work)
    columns = ("id", "installed", "version", "key", "key_present", "ready", "to_do")
    rows = [[finding[column] for column in columns] for finding in findings]
    titles = [column.replace("_", " ") for column in columns]
    exit_code = 0 if all(finding["ready"] for finding in findings) else NOT_READY
    print_answer(Table({"agents": findings}, titles, rows, exit_code=exit_code), json=json)


def _document(agent: "Agent") -> dict[str, Any]:
    fields: dict[str, Any] = {field: getattr(agent, field) for field in _FIELDS}
    model = agent.model
    fields["model_api"] = None if model is None else model.api
    fields["model"] = None if model is None else model.name or None
    return fields


async def _missing_key_reason(admin: Admin, agent: "Agent", org: str) -> str | None:
    """None if the agent needs no key, or its key can be read."""
    from agentjobs.organizations.sealing import DecryptionFailed, SealingKeys
    from agentjobs.organizations.secrets import open_secret

    owner = await admin.find_organization(org)
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
