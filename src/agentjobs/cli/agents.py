"""`agentjobs agents`: the agent types that the settings enable."""

import typer

from agentjobs.cli.admin import load_settings
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import answer_json, answer_table

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
