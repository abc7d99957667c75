"""`agentjobs orgs`: organizations, their plans and budgets."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import Severity
from agentjobs.cli.output import Answer, Table, to_document
from agentjobs.cli.store_command import Work, store_command

if TYPE_CHECKING:
    from agentjobs.organizations.budgets import Budget
    from agentjobs.organizations.organizations import Organization

orgs = typer.Typer(no_args_is_help=True, help="Manage organizations, plans and budgets.")

Name = Annotated[str, typer.Argument(metavar="NAME")]


@orgs.command("create")
@store_command
async def create_org(
    admin: Admin,
    name: Name,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Plan (default: the lowest).")
    ] = None,
) -> Answer:
    """Create an organization."""
    from agentjobs.organizations.organizations import create_organization

    plan = plan or admin.plans.names[0]
    return _answer(await create_organization(admin.db, admin.plans, name, plan))


@orgs.command("list")
@store_command
async def list_orgs(admin: Admin) -> Table:
    """List organizations."""
    from agentjobs.organizations.budgets import list_budgets
    from agentjobs.organizations.organizations import list_organizations

    organizations = await list_organizations(admin.db)
    budgets = await list_budgets(admin.db)
    documents = [{**_document(org), **_amounts(budgets[org.id])} for org in organizations]
    return Table(
        {"orgs": documents},
        ("name", "plan", "USD per day", "USD per job", "created", "paused"),
        [
            (
                org.name,
                org.plan,
                *_amount_texts(budgets[org.id]),
                document["created_at"],
                document["paused_at"],
            )
            for org, document in zip(organizations, documents, strict=True)
        ],
    )


@orgs.command("set-plan")
@store_command
async def set_org_plan(
    admin: Admin, name: Name, plan: Annotated[str, typer.Argument(metavar="PLAN")]
) -> Answer:
    """Move an organization to another plan."""
    from agentjobs.organizations.organizations import set_plan

    return _answer(await set_plan(admin.db, admin.plans, name, plan))


@orgs.command("set-budget")
@store_command
def set_org_budget(
    name: Name,
    per_day: Annotated[
        str | None,
        typer.Option("--per-day", metavar="USD|none", help="Limit for all jobs of a day (UTC)."),
    ] = None,
    per_job: Annotated[
        str | None, typer.Option("--per-job", metavar="USD|none", help="Limit for each job.")
    ] = None,
) -> Work:
    """Limit the model cost of an organization."""
    if per_day is None and per_job is None:
        raise typer.BadParameter("specify --per-day, --per-job or both")

    async def work(admin: Admin) -> Answer:
        from agentjobs.organizations.budgets import set_budget

        budget = await set_budget(admin.db, name, daily=per_day, job=per_job)
        day, job = (text or "no limit" for text in _amount_texts(budget))
        note = f"Budget of {name} in US dollars: {day} per day, {job} per job."
        return Answer({"name": name, **_amounts(budget)}, [name], [note])

    return work


@orgs.command("set-setup-network")
@store_command
def set_org_setup_network(
    name: Name,
    hosts: Annotated[list[str] | None, typer.Argument(metavar="[HOST]...")] = None,
    all_hosts: Annotated[
        bool, typer.Option("--default", help="All hosts of the setting setup_network.")
    ] = False,
    no_hosts: Annotated[bool, typer.Option("--none", help="No hosts.")] = False,
) -> Work:
    """Limit the hosts that the setup of an organization's environments may reach."""
    if [bool(hosts), all_hosts, no_hosts].count(True) != 1:
        raise typer.BadParameter("specify hosts, --default or --none")

    async def work(admin: Admin) -> Answer:
        from agentjobs.environments.setup_network import check_organization_hosts
        from agentjobs.organizations.organizations import set_setup_network

        requested = None if all_hosts else tuple(hosts or ())
        check_organization_hosts(admin.settings, requested or ())
        await set_setup_network(admin.db, name, requested)
        document = {"name": name, "setup_network": None if all_hosts else hosts or []}
        return Answer(document, [name], ["This applies to setups that start from now on."])

    return work


@orgs.command("auto-trigger")
@store_command
async def set_auto_trigger(admin: Admin, name: Name, severity: Severity = None) -> Answer:
    """Show or set the default severity at which vulnerabilities start jobs automatically."""
    from agentjobs.repos import thresholds

    if severity is None:
        organization = await admin.find_organization(name)
        level = await thresholds.load_organization_threshold(admin.db, organization.id)
    else:
        level = await thresholds.set_organization_threshold(admin.db, name, severity)
    document = {"name": name, "auto_trigger_on_cve_severity": level}
    note = f"This applies to repositories of {name} without a setting of their own."
    return Answer(document, [level or "none"], [note])


def _amounts(budget: "Budget") -> dict[str, float | None]:
    from agentjobs_runtime.money import usd

    return {
        "daily_budget_usd": usd(budget.daily_nanousd),
        "job_budget_usd": usd(budget.job_nanousd),
    }


def _amount_texts(budget: "Budget") -> tuple[str | None, str | None]:
    from agentjobs_runtime.money import usd_text

    return usd_text(budget.daily_nanousd), usd_text(budget.job_nanousd)


def _answer(organization: "Organization") -> Answer:
    note = f"{organization.name} is on the plan {organization.plan}."
    return Answer(_document(organization), [organization.name], [note])


def _document(organization: "Organization") -> dict[str, Any]:
    fields = ("id", "name", "plan", "setup_network")
    return to_document(organization, fields, ("created_at", "paused_at"))
