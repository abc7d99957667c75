"""`agentjobs pulls`: pull requests; those of the platform `local` can be merged and closed."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Table, escape_line, to_document
from agentjobs.cli.store_command import store_command
from agentjobs_runtime.problems import Problem

if TYPE_CHECKING:
    from agentjobs.pulls.pulls import Pull

pulls = typer.Typer(no_args_is_help=True, help="Work with pull requests.")

Repo = Annotated[str, typer.Argument(metavar="REPO", help="The repository, OWNER/NAME.")]
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The pull request's number.")]

CONFLICT = 1
FIELDS = ("repo", "number", "title", "state", "draft", "head_branch", "base_branch")
COMMITS = ("head_commit", "base_commit", "merge_commit")
TIMES = ("created_at", "merged_at", "closed_at")


@pulls.command("list")
@store_command
async def list_pulls(
    admin: Admin,
    repo: Annotated[str | None, typer.Option("--repo", metavar="OWNER/NAME")] = None,
    org: Org = DEFAULT_ORG,
) -> Table:
    """List pull requests, the newest first."""
    from agentjobs.pulls import pulls

    await admin.find_organization(org)
    documents = [_document(admin, pull) for pull in await pulls.list_pulls(admin.db, org, repo)]
    columns = ("repo", "number", "state", "draft", "title", "created_at")
    rows = [[document[column] for column in columns] for document in documents]
    return Table({"pulls": documents}, columns, rows)


@pulls.command("show")
@store_command
async def show_pull(admin: Admin, repo: Repo, number: Number, org: Org = DEFAULT_ORG) -> Answer:
    """Show a pull request: title, body and diff, or its URL if a platform hosts it."""
    from agentjobs.pulls.comparison import load_patch
    from agentjobs.pulls.pulls import get_pull

    pull = await get_pull(admin.db, org, repo, number)
    document = _document(admin, pull)
    state = f"{pull.state}, draft" if pull.draft else pull.state
    lines = [
        f"#{number} {escape_line(pull.title)} ({state})",
        f"{pull.head_branch} -> {pull.base_branch}\n",
    ]
    if pull.body.strip():
        lines.append(f"{pull.body.strip()}\n")
    if pull.url is not None:
        note = "See its platform for the diff."
        return Answer({**document, "diff": None}, [*lines, pull.url], [note])
    patch = await load_patch(admin.settings.repositories_path, pull)
    return Answer({**document, "diff": patch}, [*lines, patch.rstrip("\n")])


@pulls.command("merge")
@store_command
async def merge_pull(
    admin: Admin,
    repo: Repo,
    number: Number,
    method: Annotated[
        Literal["merge", "squash", "rebase"],
        typer.Option("--method", help="A merge commit, one commit, or all commits on top."),
    ] = "merge",
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Merge a pull request; on conflicts, exit 1 and list the files."""
    from agentjobs.pulls.merge import merge_pull

    try:
        merged = await merge_pull(admin.db, admin.settings, org, repo, number, method=method)
    except Problem as problem:
        if problem.code != "pull_not_mergeable" or not _conflicting_files(problem):
            raise
        return _conflict(problem)
    note = f"{repo}#{number} is merged into {merged.base_branch}."
    return Answer(_document(admin, merged), [merged.merge_commit or ""], [note])


@pulls.command("close")
@store_command
async def close_pull(admin: Admin, repo: Repo, number: Number, org: Org = DEFAULT_ORG) -> Answer:
    """Close a pull request without merging it."""
    from agentjobs.pulls.branches import close_and_remove_branch

    return _changed(
        admin, await close_and_remove_branch(admin.db, admin.settings, org, repo, number)
    )


@pulls.command("ready")
@store_command
async def ready_pull(admin: Admin, repo: Repo, number: Number, org: Org = DEFAULT_ORG) -> Answer:
    """Mark a draft as ready for review."""
    from agentjobs.jobs.review import mark_ready

    return _changed(admin, await mark_ready(admin.db, org, repo, number))


def _conflict(problem: Problem) -> Answer:
    files = _conflicting_files(problem)
    error = {"code": problem.code, "message": problem.message, "details": {"files": files}}
    return Answer(
        {"error": error},
        [escape_line(file) for file in files],
        remarks=[f"agentjobs: {escape_line(problem.message)}"],
        exit_code=CONFLICT,
    )


def _changed(admin: Admin, pull: "Pull") -> Answer:
    document = _document(admin, pull)
    kind = "a draft" if pull.draft else "ready for review"
    state = kind if pull.state == "open" else pull.state
    return Answer(document, [document["url"]], [f"{pull.repo}#{pull.number} is {state}."])


def _document(admin: Admin, pull: "Pull") -> dict[str, Any]:
    url = pull.url or admin.settings.effective_public_url + pull.path
    return to_document(pull, (*FIELDS, *COMMITS, "body"), TIMES, url=url)


def _conflicting_files(problem: Problem) -> list[str]:
    details = problem.details if isinstance(problem.details, dict) else {}
    return list(details.get("files", []))
