"""`agentjobs jobs agents` and `repos`: what a job can be created with, as the service says."""

from agentjobs.cli.contexts.connection import ContextName, connect
from agentjobs.cli.jobs.commands import jobs
from agentjobs.cli.options import Json
from agentjobs.cli.output import print_json, print_table


@jobs.command("agents")
def list_agents(context: ContextName = None, json: Json = False) -> None:
    """List the agent types of the service."""
    with connect(context) as client:
        agents = client.agents()
    if json:
        print_json({"agents": [agent.raw for agent in agents]})
        return
    print_table(
        ("id", "name", "available", "plan"),
        [(agent.id, agent.name, agent.available, agent.plan_required) for agent in agents],
    )


@jobs.command("repos")
def list_repos(context: ContextName = None, json: Json = False) -> None:
    """List the repositories of the organization."""
    with connect(context) as client:
        repos = client.repos()
    if json:
        print_json({"repos": [repo.raw for repo in repos]})
        return
    print_table(
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
