"""`agentjobs orgs`: the organizations, and the plan each is on."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import answer, answer_json, answer_table, remark

if TYPE_CHECKING:
    from agentjobs.organizations.organizations import Organization

orgs = typer.Typer(no_args_is_help=True, help="Organizations and their plans.")

Name = Annotated[str, typer.Argument(metavar="NAME")]


@orgs.command("create")
def create_org(
    name: Name,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Default: the lowest plan.")
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Create an organization."""

    async def work(admin: Admin) -> "Organization":
        from agentjobs.organizations.organizations import create_organization

        return await create_organization(admin.db, admin.plans, name, plan or admin.plans.names[0])

    _answer(with_store(data_dir, work), json)


@orgs.command("list")
def list_orgs(data_dir: DataDir = None, json: Json = False) -> None:
    """List the organizations."""

    async def work(admin: Admin) -> "list[Organization]":
        from agentjobs.organizations.organizations import list_organizations

        return await list_organizations(admin.db)

    found = [_document(organization) for organization in with_store(data_dir, work)]
    if json:
        answer_json({"orgs": found})
        return
    answer_table(
        ("name", "plan", "created"),
        [(each["name"], each["plan"], each["created_at"]) for each in found],
    )


@orgs.command("set-plan")
def set_org_plan(
    name: Name,
    plan: Annotated[str, typer.Argument(metavar="PLAN")],
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Move an organization to another plan."""

    async def work(admin: Admin) -> "Organization":
        from agentjobs.organizations.organizations import set_plan

        return await set_plan(admin.db, admin.plans, name, plan)

    _answer(with_store(data_dir, work), json)


def _answer(organization: "Organization", json: bool) -> None:
    if json:
        answer_json(_document(organization))
        return
    answer(organization.name)
    remark(f"{organization.name} is on the plan {organization.plan}.")


def _document(organization: "Organization") -> dict[str, Any]:
    from agentjobs.clock import iso_utc

    return {
        "id": organization.id,
        "name": organization.name,
        "plan": organization.plan,
        "created_at": iso_utc(organization.created_at),
    }
