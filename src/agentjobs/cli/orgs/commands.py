"""`agentjobs orgs`: organizations, their plans and budgets."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DataDir, Json, Severity
from agentjobs.cli.output import print_json, print_note, print_result, print_table

if TYPE_CHECKING:
    from agentjobs.organizations.budgets import Budget
    from agentjobs.organizations.organizations import Organization

orgs = typer.Typer(no_args_is_help=True, help="Manage organizations, plans and budgets.")

Name = Annotated[str, typer.Argument(metavar="NAME")]


@orgs.command("create")
def create_org(
    name: Name,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Plan (default: the lowest).")
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Create an organization."""

    async def work(admin: Admin) -> "Organization":
        from agentjobs.organizations.organizations import create_organization

        return await create_organization(admin.db, admin.plans, name, plan or admin.plans.names[0])

    _print_organization(with_store(data_dir, work), json)


@orgs.command("list")
def list_orgs(data_dir: DataDir = None, json: Json = False) -> None:
    """List organizations."""

    async def work(admin: Admin) -> "list[tuple[Organization, Budget]]":
        from agentjobs.organizations.budgets import list_budgets
        from agentjobs.organizations.organizations import list_organizations

        organizations = await list_organizations(admin.db)
        budgets = await list_budgets(admin.db)
        return [(each, budgets[each.id]) for each in organizations]

    rows = with_store(data_dir, work)
    if json:
        print_json({"orgs": [{**_document(org), **_amounts(budget)} for org, budget in rows]})
        return
    print_table(
        ("name", "plan", "USD per day", "USD per job", "created", "paused"),
        [
            (
                org.name,
                org.plan,
                *_amount_texts(budget),
                _document(org)["created_at"],
                _document(org)["paused_at"],
            )
            for org, budget in rows
        ],
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

    _print_organization(with_store(data_dir, work), json)


@orgs.command("set-budget")
def set_org_budget(
    name: Name,
    per_day: Annotated[
        str | None,
        typer.Option("--per-day", metavar="USD|none", help="Limit for all jobs of a day (UTC)."),
    ] = None,
    per_job: Annotated[
        str | None, typer.Option("--per-job", metavar="USD|none", help="Limit for each job.")
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Limit the model cost of an organization."""
    if per_day is None and per_job is None:
        raise typer.BadParameter("specify --per-day, --per-job or both")

    async def work(admin: Admin) -> "Budget":
        from agentjobs.organizations.budgets import set_budget

        return await set_budget(admin.db, name, daily=per_day, job=per_job)

    budget = with_store(data_dir, work)
    if json:
        print_json({"name": name, **_amounts(budget)})
        return
    print_result(name)
    day, job = (text or "no limit" for text in _amount_texts(budget))
    print_note(f"Budget of {name} in US dollars: {day} per day, {job} per job.")


@orgs.command("set-setup-network")
def set_org_setup_network(
    name: Name,
    hosts: Annotated[list[str] | None, typer.Argument(metavar="[HOST]...")] = None,
    all_hosts: Annotated[
        bool, typer.Option("--default", help="All hosts of the setting setup_network.")
    ] = False,
    no_hosts: Annotated[bool, typer.Option("--none", help="No hosts.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Limit the hosts that the setup of an organization's environments may reach."""
    if [bool(hosts), all_hosts, no_hosts].count(True) != 1:
        raise typer.BadParameter("specify hosts, --default or --none")

    async def work(admin: Admin) -> None:
        from agentjobs.environments.setup_network import check_organization_hosts
        from agentjobs.organizations.setup_network import set_setup_network

        requested = None if all_hosts else tuple(hosts or ())
        check_organization_hosts(admin.settings, requested or ())
        await set_setup_network(admin.db, name, requested)

    with_store(data_dir, work)
    if json:
        print_json({"name": name, "setup_network": None if all_hosts else hosts or []})
        return
    print_result(name)
    print_note("This applies to setups that start from now on.")


@orgs.command("auto-trigger")
def set_auto_trigger(
    name: Name, severity: Severity = None, data_dir: DataDir = None, json: Json = False
) -> None:
    """Show or set the default severity at which vulnerabilities start jobs automatically."""

    async def work(admin: Admin) -> str | None:
        from agentjobs.organizations.organizations import find_organization
        from agentjobs.repos.thresholds import (
            load_organization_threshold,
            set_organization_threshold,
        )

        if severity is not None:
            return await set_organization_threshold(admin.db, name, severity)
        return await load_organization_threshold(
            admin.db, (await find_organization(admin.db, name)).id
        )

    level = with_store(data_dir, work)
    if json:
        print_json({"name": name, "auto_trigger_on_cve_severity": level})
        return
    print_result(level or "none")
    print_note(f"This applies to repositories of {name} without a setting of their own.")


def _amounts(budget: "Budget") -> dict[str, float | None]:
    from agentjobs.organizations.budgets import usd

    return {
        "daily_budget_usd": usd(budget.daily_nanousd),
        "job_budget_usd": usd(budget.job_nanousd),
    }


def _amount_texts(budget: "Budget") -> tuple[str | None, str | None]:
    from agentjobs.organizations.budgets import usd_text

    return usd_text(budget.daily_nanousd), usd_text(budget.job_nanousd)


def _print_organization(organization: "Organization", json: bool) -> None:
    if json:
        print_json(_document(organization))
        return
    print_result(organization.name)
    print_note(f"{organization.name} is on the plan {organization.plan}.")


def _document(organization: "Organization") -> dict[str, Any]:
    from agentjobs.clock import iso_utc, iso_utc_or_none

    return {
        "id": organization.id,
        "name": organization.name,
        "plan": organization.plan,
        "created_at": iso_utc(organization.created_at),
        "paused_at": iso_utc_or_none(organization.paused_at),
        "setup_network": organization.setup_network,
    }
