"""`agentjobs jobs`: a client of the HTTP interface. Knows an address and a key, no store."""

import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.options import Json
from agentjobs.cli.output import answer, answer_json, answer_table, remark

if TYPE_CHECKING:
    from agentjobs_client import Client, Job, JobReceipt

jobs = typer.Typer(
    no_args_is_help=True,
    help="Jobs, over HTTP: set AGENTJOBS_URL and AGENTJOBS_API_KEY.",
)

JobId = Annotated[str, typer.Argument(metavar="JOB")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end; exit 1 unless it completed.")]

# Read as text even where the value looks like a number: `--set title=42`.
TEXT_OVERRIDES = frozenset({"prompt", "base_branch", "title", "auto_trigger_on_cve_severity"})
JOB_FAILED = 1


@jobs.command("create")
def create_job(
    repo: Annotated[str, typer.Option("--repo", metavar="OWNER/NAME")],
    agent: Annotated[str, typer.Option("--agent", metavar="AGENT")],
    ticket: Annotated[
        str | None, typer.Option("--ticket", metavar="ID", help="A ticket of an external tracker.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A config_override: JSON where it is valid JSON, else text. Repeatable.",
        ),
    ] = None,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Create a job and print its identifier (with --wait, its pull request's address)."""
    override = config_override(overrides or [])
    with _client() as client:
        receipt = client.create_job(repo, agent, ticket_id=ticket, config_override=override)
        _answer_receipt(client, receipt, wait, json)


@jobs.command("follow-up")
def follow_up_job(
    job_id: JobId,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to do now.")],
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="Another than the job's.")
    ] = None,
    timeout_seconds: Annotated[
        int | None, typer.Option("--timeout-seconds", metavar="SECONDS")
    ] = None,
    max_cost_usd: Annotated[float | None, typer.Option("--max-cost-usd", metavar="USD")] = None,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Go on with the pull request of a completed job; print the new job's identifier."""
    with _client() as client:
        receipt = client.follow_up(
            job_id,
            prompt,
            agent=agent,
            timeout_seconds=timeout_seconds,
            max_cost_usd=max_cost_usd,
        )
        _answer_receipt(client, receipt, wait, json)


@jobs.command("show")
def show_job(job_id: JobId, json: Json = False) -> None:
    """Show a job."""
    with _client() as client:
        job = client.job(job_id)
    if json:
        answer_json(job)
    else:
        answer("\n".join(f"{name}: {value}" for name, value in _facts(job)))


@jobs.command("list")
def list_jobs(
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS")] = None,
    repo: Annotated[str | None, typer.Option("--repo", metavar="OWNER/NAME")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 20,
    json: Json = False,
) -> None:
    """List jobs, the newest first."""
    with _client() as client:
        found = list(islice(client.jobs(status=status, repo=repo, agent=agent), limit))
    if json:
        answer_json({"jobs": found})
        return
    answer_table(
        ("job", "status", "repo", "agent", "created", "result"),
        [
            (job.job_id, job.status, job.repo, job.agent, job.created_at, _result(job))
            for job in found
        ],
    )


@jobs.command("cancel")
def cancel_job(job_id: JobId, json: Json = False) -> None:
    """Cancel a job that is not finished."""
    with _client() as client:
        job = client.cancel(job_id)
    if json:
        answer_json(job)
    else:
        answer(job.job_id)
        remark(f"{job.job_id} is {job.status}")


@jobs.command("prompt")
def show_prompt(job_id: JobId, json: Json = False) -> None:
    """Print what the agent was told."""
    with _client() as client:
        prompt = client.prompt(job_id)
    if json:
        answer_json({"job_id": job_id, "prompt": prompt})
    elif prompt is None:
        remark(f"The agent of {job_id} was not started yet")
    else:
        answer(prompt)


@jobs.command("logs")
def show_logs(
    job_id: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job is finished.")
    ] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Begin every line with its time (UTC).")
    ] = False,
    json: Json = False,
) -> None:
    """Print what the agent wrote."""
    with _client() as client:
        pieces = client.logs(job_id, follow=follow, timestamps=timestamps)
        if json:
            answer_json({"job_id": job_id, "log": "".join(pieces)})
            return
        for text in pieces:
            sys.stdout.write(text)
            sys.stdout.flush()


def config_override(pairs: Sequence[str]) -> dict[str, Any] | None:
    """From `key=value` words; None when there are none."""
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


def _client() -> "Client":
    from agentjobs_client import Client

    return Client.from_environment()


def _answer_receipt(client: "Client", receipt: "JobReceipt", wait: bool, json: bool) -> None:
    if wait:
        remark(f"{receipt.job_id} is {receipt.status}")
        _answer_finished(_follow_status(client, receipt), json)
    elif json:
        answer_json(receipt)
    else:
        answer(receipt.job_id)


def _follow_status(client: "Client", receipt: "JobReceipt") -> "Job":
    """The finished job; each of its states is told on the way."""
    status = receipt.status
    for job in client.watch(receipt.job_id):
        if job.status != status:
            status = job.status
            remark(f"{job.job_id} is {status}")
    return job


def _answer_finished(job: "Job", json: bool) -> None:
    if json:
        answer_json(job)
    elif job.pr_url:
        answer(job.pr_url)
    if job.status != "completed":
        reason = f"{job.error.code}: {job.error.message}" if job.error else "no reason given"
        remark(f"{job.job_id} did not complete: {reason}")
        raise typer.Exit(JOB_FAILED)


def _facts(job: "Job") -> list[tuple[str, Any]]:
    import msgspec

    facts = msgspec.structs.asdict(job)
    if job.error:
        facts["error"] = f"{job.error.code}: {job.error.message}"
    if job.usage:
        facts["usage"] = _inline(job.usage)
    if job.verification:
        facts["verification"] = _inline(job.verification)
    return [(name, value) for name, value in facts.items() if value is not None]


def _inline(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value not in (None, ""))


def _result(job: "Job") -> str | None:
    return job.pr_url or (job.error.code if job.error else job.queue_reason)
