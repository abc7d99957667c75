"""`agentjobs jobs`: a client of the HTTP API. Needs a URL and an API key, but no store."""

import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.contexts.connection import ContextName, connect
from agentjobs.cli.options import Json
from agentjobs.cli.output import print_json, print_note, print_result, print_table

if TYPE_CHECKING:
    from agentjobs_client import Client, Job, JobReceipt

jobs = typer.Typer(
    no_args_is_help=True,
    help="Create and inspect jobs over HTTP.\n\n"
    "Uses the service of `agentjobs login`, or AGENTJOBS_URL and AGENTJOBS_API_KEY.",
)

JobId = Annotated[str, typer.Argument(metavar="JOB")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the job finishes; exit 1 unless it completed.")
]

# Always text, even if the value looks like a number: `--set title=42`.
TEXT_OVERRIDES = frozenset({"prompt", "base_branch", "title", "auto_trigger_on_cve_severity"})
JOB_FAILED = 1


@jobs.command("create")
def create_job(
    repo: Annotated[
        str, typer.Option("--repo", metavar="OWNER/NAME", help="Repository to work on.")
    ],
    agent: Annotated[str, typer.Option("--agent", metavar="AGENT", help="Agent type to run.")],
    ticket: Annotated[
        str | None, typer.Option("--ticket", metavar="ID", help="Ticket in an external tracker.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a config_override key, as JSON or else as text. Repeatable.",
        ),
    ] = None,
    wait: Wait = False,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Create a job and print its id, or with --wait the URL of its pull request."""
    override = config_override(overrides or [])
    with connect(context) as client:
        receipt = client.create_job(repo, agent, ticket_id=ticket, config_override=override)
        _print_receipt(client, receipt, wait, json)


@jobs.command("follow-up")
def follow_up_job(
    job_id: JobId,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Instructions for the agent.")],
    *,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="AGENT", help="Agent type (default: the job's)."),
    ] = None,
    timeout_seconds: Annotated[
        int | None, typer.Option("--timeout-seconds", metavar="SECONDS", help="Time limit.")
    ] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option("--max-cost-usd", metavar="USD", help="Cost limit.")
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option(
            "--priority", metavar="PRIORITY", help="low, normal or high (default: the job's)."
        ),
    ] = None,
    wait: Wait = False,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Start a follow-up on the pull request of a completed job and print the new job's id."""
    with connect(context) as client:
        receipt = client.follow_up(
            job_id,
            prompt,
            agent=agent,
            timeout_seconds=timeout_seconds,
            max_cost_usd=max_cost_usd,
            priority=priority,
        )
        _print_receipt(client, receipt, wait, json)


@jobs.command("show")
def show_job(job_id: JobId, context: ContextName = None, json: Json = False) -> None:
    """Show the details of a job."""
    with connect(context) as client:
        job = client.job(job_id)
    if json:
        print_json(job.raw)
    else:
        print_result("\n".join(f"{name}: {value}" for name, value in _details(job)))


@jobs.command("list")
def list_jobs(
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Filter by status.")
    ] = None,
    repo: Annotated[
        str | None, typer.Option("--repo", metavar="OWNER/NAME", help="Filter by repository.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="Filter by agent type.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of jobs.")] = 20,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """List jobs, newest first."""
    with connect(context) as client:
        listed = list(islice(client.jobs(status=status, repo=repo, agent=agent), limit))
    if json:
        print_json({"jobs": [job.raw for job in listed]})
        return
    print_table(
        ("job", "status", "repo", "agent", "created", "result"),
        [
            (job.job_id, job.status, job.repo, job.agent, job.raw.get("created_at"), _result(job))
            for job in listed
        ],
    )


@jobs.command("cancel")
def cancel_job(job_id: JobId, context: ContextName = None, json: Json = False) -> None:
    """Cancel a queued or running job."""
    with connect(context) as client:
        job = client.cancel(job_id)
    if json:
        print_json(job.raw)
    else:
        print_result(job.job_id)
        print_note(f"{job.job_id} is {job.status}")


@jobs.command("prompt")
def show_prompt(job_id: JobId, context: ContextName = None, json: Json = False) -> None:
    """Print the prompt the agent received."""
    with connect(context) as client:
        prompt = client.prompt(job_id)
    if json:
        print_json({"job_id": job_id, "prompt": prompt})
    elif prompt is None:
        print_note(f"The agent of {job_id} has not started yet")
    else:
        print_result(prompt)


@jobs.command("logs")
def show_logs(
    job_id: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Stream the log until the job finishes.")
    ] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Prefix each line with its time (UTC).")
    ] = False,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Print the log of a job."""
    with connect(context) as client:
        pieces = client.logs(job_id, follow=follow, timestamps=timestamps)
        if json:
            print_json({"job_id": job_id, "log": "".join(pieces)})
            return
        for text in pieces:
            sys.stdout.write(text)
            sys.stdout.flush()


def config_override(pairs: Sequence[str]) -> dict[str, Any] | None:
    """From KEY=VALUE arguments; None if there are none."""
    override: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not key or not separator:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--set")
        override[key] = text if key in TEXT_OVERRIDES else _json_or_text(text)
    return override or None


def _json_or_text(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except msgspec.DecodeError:
        return text


def _print_receipt(client: "Client", receipt: "JobReceipt", wait: bool, json: bool) -> None:
    if wait:
        print_note(f"{receipt.job_id} is {receipt.status}")
        _print_finished(_wait_until_finished(client, receipt), json)
    elif json:
        print_json(receipt.raw)
    else:
        print_result(receipt.job_id)


def _wait_until_finished(client: "Client", receipt: "JobReceipt") -> "Job":
    """Reports each status change and returns the finished job."""
    status = receipt.status
    for job in client.watch(receipt.job_id):
        if job.status != status:
            status = job.status
            print_note(f"{job.job_id} is {status}")
    return job


def _print_finished(job: "Job", json: bool) -> None:
    if json:
        print_json(job.raw)
    elif job.pr_url:
        print_result(job.pr_url)
    if job.status != "completed":
        reason = f"{job.error.code}: {job.error.message}" if job.error else "no reason given"
        print_note(f"{job.job_id} did not complete: {reason}")
        raise typer.Exit(JOB_FAILED)


def _details(job: "Job") -> list[tuple[str, Any]]:
    details = dict(job.raw)
    if job.error:
        details["error"] = f"{job.error.code}: {job.error.message}"
    for name in ("usage", "verification"):
        if details.get(name):
            details[name] = _inline(details[name])
    return [(name, value) for name, value in details.items() if value is not None]


def _inline(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value not in (None, ""))


def _result(job: "Job") -> str | None:
    return job.pr_url or (job.error.code if job.error else job.queue_reason)
