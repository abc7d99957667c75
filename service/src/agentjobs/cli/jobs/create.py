"""`agentjobs jobs create`, `follow-up`, `retry` and `wait`: new jobs, and waiting for them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.contexts.connection import ContextName, connect
from agentjobs.cli.jobs.commands import LABEL_HINT, JobId, jobs
from agentjobs.cli.options import Json
from agentjobs.cli.output import print_json, print_note, print_result
from agentjobs.cli.pairs import parse_pairs

if TYPE_CHECKING:
    from agentjobs_client import Client, JobReceipt

Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the job finishes; exit 1 unless it completed.")
]
WaitTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        help="With --wait: exit 3 if the job is not finished by then. It goes on.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(LABEL_HINT, metavar="KEY=VALUE", help="Label the job. Repeatable."),
]

# Always text, even if the value looks like a number: `--set title=42`.
TEXT_OVERRIDES = frozenset({"prompt", "base_branch", "title", "auto_trigger_on_cve_severity"})
STANDARD_INPUT = "-"
# The service accepts requests of at most 64 KiB.
_MAX_PROMPT_BYTES = 64 * 1024


@jobs.command("create")
def create_job(
    *,
    repo: Annotated[
        str, typer.Option("--repo", metavar="OWNER/NAME", help="Repository to work on.")
    ],
    agent: Annotated[str, typer.Option("--agent", metavar="AGENT", help="Agent type to run.")],
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            metavar="TEXT|@FILE|-",
            help="Instructions for the agent: text, a file, or - for stdin.",
        ),
    ] = None,
    ticket: Annotated[
        str | None, typer.Option("--ticket", metavar="ID", help="Ticket in an external tracker.")
    ] = None,
    labels: Labels = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a config_override key, as JSON or else as text. Repeatable.",
        ),
    ] = None,
    wait: Wait = False,
    timeout: WaitTimeout = None,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Create a job and print its id, or with --wait the URL of its pull request."""
    _check_timeout(wait, timeout)
    override = config_override(overrides or [])
    if prompt is not None:
        if "prompt" in override:
            raise typer.BadParameter("--prompt and --set prompt=… exclude each other")
        override["prompt"] = read_prompt(prompt)
    pairs = parse_pairs(labels or [], LABEL_HINT)
    with connect(context) as client:
        receipt = client.create_job(
            repo,
            agent,
            ticket_id=ticket,
            config_override=override or None,
            labels=pairs or None,
        )
        _print_receipt(client, receipt, wait=wait, timeout=timeout, json=json)


@jobs.command("follow-up")
def follow_up_job(
    job_id: JobId,
    prompt: Annotated[
        str,
        typer.Argument(metavar="PROMPT", help="Instructions for the agent; - reads stdin."),
    ],
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
    labels: Labels = None,
    wait: Wait = False,
    timeout: WaitTimeout = None,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Start a follow-up on the pull request of a completed job and print the new job's id."""
    _check_timeout(wait, timeout)
    # Comments that start with @ are common here, so it names no file.
    instructions = read_prompt(prompt) if prompt == STANDARD_INPUT else prompt
    pairs = parse_pairs(labels or [], LABEL_HINT)
    with connect(context) as client:
        receipt = client.follow_up(
            job_id,
            instructions,
            agent=agent,
            timeout_seconds=timeout_seconds,
            max_cost_usd=max_cost_usd,
            priority=priority,
            labels=pairs or None,
        )
        _print_receipt(client, receipt, wait=wait, timeout=timeout, json=json)


@jobs.command("retry")
def retry_job(
    job_id: JobId,
    wait: Wait = False,
    timeout: WaitTimeout = None,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Create a new job from the request of a finished one and print its id."""
    _check_timeout(wait, timeout)
    with connect(context) as client:
        receipt = client.retry(job_id)
        _print_receipt(client, receipt, wait=wait, timeout=timeout, json=json)


@jobs.command("wait")
def wait_for_job(
    job_id: JobId,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0,
            help="Exit 3 if the job is not finished by then. It goes on.",
        ),
    ] = None,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Wait until a job finishes; exit 1 unless it completed."""
    from agentjobs.cli.jobs.waiting import wait_and_print

    with connect(context) as client:
        wait_and_print(client, job_id, timeout, json)


def config_override(pairs: Sequence[str]) -> dict[str, Any]:
    """Parses KEY=VALUE arguments."""
    return {
        key: value if key in TEXT_OVERRIDES else _json_or_text(value)
        for key, value in parse_pairs(pairs, "--set").items()
    }


def read_prompt(given: str) -> str:
    """The text itself, `@FILE`, or `-` for standard input."""
    if given == STANDARD_INPUT:
        content = b"" if sys.stdin is None else sys.stdin.buffer.read(_MAX_PROMPT_BYTES + 1)
    elif given.startswith("@"):
        with Path(given[1:]).open("rb") as file:
            content = file.read(_MAX_PROMPT_BYTES + 1)
    else:
        return given
    if len(content) > _MAX_PROMPT_BYTES:
        raise typer.BadParameter("the prompt must have at most 64 KiB", param_hint="--prompt")
    return content.decode()


def _check_timeout(wait: bool, timeout: float | None) -> None:
    if timeout is not None and not wait:
        raise typer.BadParameter("it needs --wait", param_hint="--timeout")


def _json_or_text(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except msgspec.DecodeError:
        return text


def _print_receipt(
    client: "Client", receipt: "JobReceipt", *, wait: bool, timeout: float | None, json: bool
) -> None:
    for warning in receipt.warnings:
        print_note(f"warning: {warning}")
    if wait:
        from agentjobs.cli.jobs.waiting import wait_and_print

        print_note(f"{receipt.job_id} is {receipt.status}")
        wait_and_print(client, receipt.job_id, timeout, json, known_status=receipt.status)
    elif json:
        print_json(receipt.raw)
    else:
        print_result(receipt.job_id)
