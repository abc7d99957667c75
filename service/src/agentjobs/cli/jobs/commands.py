"""`agentjobs jobs`: a client of the HTTP API. Needs a URL and an API key, but no store."""

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.contexts.connection import ContextName, client_command, connect
from agentjobs.cli.jobs import text
from agentjobs.cli.options import Json
from agentjobs.cli.output import Answer, Table, print_json
from agentjobs.cli.pairs import parse_pairs

if TYPE_CHECKING:
    from agentjobs_client import Client

jobs = typer.Typer(
    no_args_is_help=True,
    help="Create and inspect jobs over HTTP.\n\n"
    "Uses the service of `agentjobs login`, or AGENTJOBS_URL and AGENTJOBS_API_KEY.",
)

JobId = Annotated[str, typer.Argument(metavar="JOB")]
LABEL_HINT = "--label"
_STATUSES = ("queued", "running", "completed", "failed", "cancelled")


def _complete_status(incomplete: str) -> list[str]:
    return [status for status in _STATUSES if status.startswith(incomplete)]


@jobs.command("show")
@client_command
def show_job(client: "Client", job_id: JobId) -> Answer:
    """Show the details of a job."""
    job = client.job(job_id)
    return Answer(job.raw, [f"{name}: {value}" for name, value in text.details(job)])


@jobs.command("list")
@client_command
def list_jobs(
    client: "Client",
    *,
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Filter by status. Repeatable.",
            autocompletion=_complete_status,
        ),
    ] = None,
    repo: Annotated[
        str | None, typer.Option("--repo", metavar="OWNER/NAME", help="Filter by repository.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="Filter by agent type.")
    ] = None,
    ticket: Annotated[
        str | None, typer.Option("--ticket", metavar="ID", help="Filter by ticket.")
    ] = None,
    follows: Annotated[
        str | None, typer.Option("--follows", metavar="JOB", help="Only follow-ups of this job.")
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(LABEL_HINT, metavar="KEY=VALUE", help="Filter by label. Repeatable."),
    ] = None,
    created_after: Annotated[
        str | None,
        typer.Option(
            "--created-after", metavar="TIME", help="Not before: 2026-01-31 (UTC), or 2h, 7d ago."
        ),
    ] = None,
    created_before: Annotated[
        str | None, typer.Option("--created-before", metavar="TIME", help="Earlier than this.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of jobs.")] = 20,
) -> Table:
    """List jobs, newest first."""
    from agentjobs.cli.times import parse_optional_time

    matches = client.jobs(
        status=status,
        repo=repo,
        agent=agent,
        ticket_id=ticket,
        follows=follows,
        labels=parse_pairs(labels or [], LABEL_HINT),
        created_after=parse_optional_time(created_after),
        created_before=parse_optional_time(created_before),
    )
    listed = list(islice(matches, limit))
    document = {"jobs": [job.raw for job in listed]}
    return Table(document, text.COLUMNS, [text.row(job) for job in listed])


@jobs.command("cancel")
@client_command
def cancel_job(client: "Client", job_id: JobId) -> Answer:
    """Cancel a queued or running job."""
    job = client.cancel(job_id)
    return Answer(job.raw, [job.job_id], [f"{job.job_id} is {job.status}"])


@jobs.command("prompt")
@client_command
def show_prompt(client: "Client", job_id: JobId) -> Answer:
    """Print the prompt the agent received."""
    prompt = client.prompt(job_id)
    document = {"job_id": job_id, "prompt": prompt}
    if prompt is None:
        return Answer(document, [], [f"The agent of {job_id} has not started yet"])
    return Answer(document, [prompt])


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
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
