"""`agentjobs jobs agents` and `repos`: what a job can be created with, as the service says."""

from typing import TYPE_CHECKING

from agentjobs.cli.contexts.connection import client_command
from agentjobs.cli.jobs.commands import jobs
from agentjobs.cli.output import Table

if TYPE_CHECKING:
    from agentjobs_client import Client


@jobs.command("agents")
@client_command
def list_agents(client: "Client") -> Table:
    """List the agent types of the service."""
    agents = client.agents()
    return Table(
        {"agents": [agent.raw for agent in agents]},
        ("id", "name", "available", "plan"),
        [(agent.id, agent.name, agent.available, agent.plan_required) for agent in agents],
    )


@jobs.command("repos")
@client_command
def list_repos(client: "Client") -> Table:
    """List the repositories of the organization."""
    repos = client.repos()
    return Table(
        {"repos": [repo.raw for repo in repos]},
        ("name", "platform", "status", "lines", "branch", "error"),
        [
            (
                repo.full_name,
                repo.platform,
                repo.index_status,
                repo.line_count,
                repo.default_branch,
                repo.sync_error or repo.index_error,
            )
            for repo in repos
        ],
    )
