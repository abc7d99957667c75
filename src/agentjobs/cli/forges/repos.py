"""`agentjobs forges repos` and `connect`: what a connection sees, and connecting it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.forges.access import open_platforms
from agentjobs.cli.forges.commands import ConnectionName, forges
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer, answer_json, answer_table, remark

if TYPE_CHECKING:
    from agentjobs.connections.repositories import AvailableRepository, ConnectResult

SOME_REFUSED = 1


@forges.command("repos")
def list_available(
    name: ConnectionName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """List the repositories that a connection sees, and whether they can be connected."""

    async def work(admin: Admin) -> "list[AvailableRepository]":
        from agentjobs.connections.repositories import list_available

        async with open_platforms(admin.db, admin.settings) as platforms:
            return await list_available(admin.db, platforms, org, name)

    found = with_store(data_dir, work)
    if json:
        answer_json({"repos": [_seen_document(each) for each in found]})
        return
    answer_table(("name", "branch", "state"), [_seen_line(each) for each in found])


@forges.command("connect")
def connect_repos(
    name: ConnectionName,
    repos: Annotated[
        list[str] | None, typer.Argument(metavar="[OWNER/NAME]...", help="Which repositories.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that the connection sees.")] = False,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Connect repositories of a platform; exit 1 if one that is named cannot be connected."""
    if every == bool(repos):
        raise typer.BadParameter("name the repositories, or give --all")

    async def work(admin: Admin) -> "list[ConnectResult]":
        from agentjobs.connections.repositories import connect_repositories

        async with open_platforms(admin.db, admin.settings) as platforms:
            return await connect_repositories(
                admin.db, platforms, org, name, None if every else repos
            )

    found = with_store(data_dir, work)
    if json:
        answer_json({"repos": [_connected_document(each) for each in found]})
    else:
        _tell(found)
    if not every and any(each.problem for each in found):
        raise typer.Exit(SOME_REFUSED)


def _tell(found: "list[ConnectResult]") -> None:
    for each in found:
        if each.problem is None:
            answer(each.full_name)
        else:
            remark(f"{each.full_name} is not connected: {each.problem.message}")
    if any(each.problem is None for each in found):
        remark("They accept jobs once a running service fetched and indexed them.")


def _connected_document(connected: "ConnectResult") -> dict[str, Any]:
    problem = connected.problem
    return {
        "full_name": connected.full_name,
        "connected": problem is None,
        "problem": None if problem is None else {"code": problem.code, "message": problem.message},
    }


def _seen_document(here: "AvailableRepository") -> dict[str, Any]:
    return {
        "full_name": here.seen.full_name,
        "external_id": here.seen.external_id,
        "default_branch": here.seen.default_branch or None,
        "connected_as": here.connected_as,
        "problem": here.problem,
    }


def _seen_line(here: "AvailableRepository") -> list[Any]:
    state = "connected" if here.connected_as else here.problem or "can be connected"
    return [here.seen.full_name, here.seen.default_branch or None, state]
