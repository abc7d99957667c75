"""`agentjobs me` and `usage`: whose API key is in use, and what its organization has used."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.contexts.connection import client_command
from agentjobs.cli.output import Answer, Table

if TYPE_CHECKING:
    from agentjobs_client import Caller, Client, UsageTotal

_STATUSES = ("completed", "failed", "cancelled", "running", "queued")


@client_command
def me(client: "Client") -> Answer:
    """Show the organization, the plan, the key and the limits in use."""
    caller = client.me()
    lines = [f"{name}: {value}" for name, value in describe_caller(caller)]
    return Answer(caller.raw, lines)


@client_command
def usage(
    client: "Client",
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Default: 30 days ago. A date, ISO 8601 or 7d."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Default: now.")] = None,
    group_by: Annotated[
        str | None, typer.Option("--group-by", metavar="agent|repo|day", help="One row for each.")
    ] = None,
) -> Table:
    """Show jobs, agent time, tokens and cost of the organization."""
    from agentjobs.cli.times import parse_optional_time

    first, last = parse_optional_time(since), parse_optional_time(until)
    report = client.usage(since=first, until=last, group_by=group_by)
    amounts = ("agent time", "input tokens", "output tokens", "cost USD")
    columns = (group_by or "period", *_STATUSES, *amounts)
    rows = [(group.key, *_usage_row(group)) for group in report.groups]
    total = ("total", *_usage_row(report.total))
    return Table(report.raw, columns, [*rows, total])


def describe_caller(caller: "Caller") -> list[tuple[str, Any]]:
    """Leaves out limits that do not exist."""
    limits = caller.limits
    lines = [
        ("organization", caller.organization.name),
        ("plan", f"{caller.plan.name}, {caller.plan.concurrent_jobs} concurrent jobs"),
        ("key", f"{caller.key.name} ({caller.key.id})" if caller.key.name else caller.key.id),
        ("scopes", ", ".join(caller.key.scopes)),
        ("expires", caller.raw["key"].get("expires_at") or "never"),
        ("queued jobs", limits.queued_jobs),
        ("requests per second", _number(limits.rate_limit_per_second)),
        ("budget per job", _usd(limits.job_budget_usd)),
        ("budget per day", _usd(limits.daily_budget_usd)),
    ]
    return [(name, value) for name, value in lines if value is not None]


def _usage_row(used: "UsageTotal") -> tuple[Any, ...]:
    from agentjobs.cli.jobs.text import duration

    counts = (getattr(used.jobs, status) for status in _STATUSES)
    time = duration(round(used.agent_seconds * 1_000))
    return (*counts, time, used.input_tokens, used.output_tokens, f"{used.cost_usd:.2f}")


def _usd(amount: float | None) -> str | None:
    return None if amount is None else f"{_number(amount)} USD"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"
