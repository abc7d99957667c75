"""`agentjobs jobs steps`, `diff`, `artifacts` and `report`: what a job did and leaves behind."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.contexts.connection import ContextName, client_command, connect
from agentjobs.cli.jobs import text
from agentjobs.cli.jobs.commands import JobId, jobs
from agentjobs.cli.options import Json
from agentjobs.cli.output import Answer, Table, print_answer

if TYPE_CHECKING:
    from agentjobs_client import Client, Diff, Job

STANDARD_OUTPUT = "-"


@jobs.command("steps")
@client_command
def show_steps(
    client: "Client",
    job_id: JobId,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only read, change, command, message, model or other."
        ),
    ] = None,
) -> Table:
    """List what the agent of a job did, step by step."""
    steps = list(client.steps(job_id, kind=kind))
    document = {"steps": [step.raw for step in steps]}
    return Table(document, text.STEP_COLUMNS, [text.step_row(step) for step in steps])


@jobs.command("diff")
def show_diff(
    job_id: JobId,
    files: Annotated[bool, typer.Option("--files", help="List the changed files only.")] = False,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """Print the changes of a job as a unified diff."""
    with connect(context) as client:
        if not json and not files:
            answer: Answer | Table = Answer(None, [client.diff(job_id).removesuffix("\n")])
        else:
            answer = _files(client.diff_files(job_id))
    print_answer(answer, json=json)


@jobs.command("artifacts")
def show_artifacts(
    job_id: JobId,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Download this one.")] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: NAME; - for stdout."),
    ] = None,
    context: ContextName = None,
    json: Json = False,
) -> None:
    """List the files that an agent left behind, or download one."""
    if name is None and output is not None:
        raise typer.BadParameter("say which artifact to download", param_hint="--output")
    with connect(context) as client:
        if name is not None:
            content = client.artifact(job_id, name)
            _save(content, output or Path(name).name, json)
            return
        artifacts = client.artifacts(job_id)
    document = {"artifacts": [artifact.raw for artifact in artifacts]}
    rows = [(artifact.name, artifact.media_type, artifact.size_bytes) for artifact in artifacts]
    print_answer(Table(document, ("name", "type", "bytes"), rows), json=json)


@jobs.command("report")
@client_command
def show_report(client: "Client", job_id: JobId) -> Answer:
    """Print the report of a job whose agent reports instead of changing files."""
    job = client.job(job_id)
    if job.report_markdown is None:
        raise _no_report(job)
    report = {"report_markdown": job.report_markdown, "report_json": job.report_json}
    text_lines = [job.report_markdown.removesuffix("\n")]
    return Answer({"job_id": job_id, **report}, text_lines)


def _files(diff: "Diff") -> Table:
    note = "The diff is too large to be kept whole: some of its end is missing."
    return Table(
        diff.raw,
        ("file", "status", "added", "deleted"),
        [
            (
                f"{file.previous_path} → {file.path}" if file.previous_path else file.path,
                file.status,
                None if file.binary else file.additions,
                None if file.binary else file.deletions,
            )
            for file in diff.files
        ],
        [note] if diff.truncated else [],
    )


def _save(content: bytes, output: str, json: bool) -> None:
    if output == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    try:
        file = path.open("xb")
    except FileExistsError:
        reason = f"{output} already exists; choose another name"
        raise typer.BadParameter(reason, param_hint="--output") from None
    try:
        with file:
            file.write(content)
    except OSError:
        # Part of an artifact looks like a whole one.
        path.unlink()
        raise
    print_answer(Answer({"file": output, "size_bytes": len(content)}, [output]), json=json)


def _no_report(job: "Job") -> Exception:
    from agentjobs_runtime.problems import Problem

    if not job.is_finished:
        return Problem("no_report", f"{job.job_id} is {job.status}: it has no report yet.")
    return Problem(
        "no_report", f'{job.job_id} has no report: only agents with `result = "report"` write one.'
    )
