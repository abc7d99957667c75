"""`agentjobs pulls`: pull requests; those of the platform `local` can be merged and closed."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import escape_line, print_json, print_note, print_result, print_table

if TYPE_CHECKING:
    from agentjobs.problems import Problem
    from agentjobs.pulls.pulls import Pull

pulls = typer.Typer(no_args_is_help=True, help="Work with pull requests.")

Repo = Annotated[str, typer.Argument(metavar="REPO", help="The repository, OWNER/NAME.")]
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The pull request's number.")]

CONFLICT = 1
FIELDS = ("repo", "number", "title", "state", "draft", "head_branch", "base_branch")
COMMITS = ("head_commit", "base_commit", "merge_commit")
TIMES = ("created_at", "merged_at", "closed_at")


@pulls.command("list")
def list_pulls(
    repo: Annotated[str | None, typer.Option("--repo", metavar="OWNER/NAME")] = None,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """List pull requests, the newest first."""

    async def work(admin: Admin) -> "list[dict[str, Any]]":
        from agentjobs.organizations.organizations import find_organization
        from agentjobs.pulls import pulls

        await find_organization(admin.db, org)
        return [_document(admin, pull) for pull in await pulls.list_pulls(admin.db, org, repo)]

    documents = with_store(data_dir, work)
    if json:
        print_json({"pulls": documents})
        return
    columns = ("repo", "number", "state", "draft", "title", "created_at")
    print_table(columns, [[document[column] for column in columns] for document in documents])


@pulls.command("show")
def show_pull(
    repo: Repo,
    number: Number,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Show a pull request: title, body and diff, or its URL if a platform hosts it."""

    async def work(admin: Admin) -> "tuple[dict[str, Any], str | None]":
        from agentjobs.pulls.comparison import load_patch
        from agentjobs.pulls.pulls import get_pull

        pull = await get_pull(admin.db, org, repo, number)
        if pull.url is not None:
            return _document(admin, pull), None
        return _document(admin, pull), await load_patch(admin.settings.repositories_path, pull)

    document, patch = with_store(data_dir, work)
    if json:
        print_json({**document, "diff": patch})
        return
    state = f"{document['state']}, draft" if document["draft"] else document["state"]
    print_result(f"#{number} {escape_line(document['title'])} ({state})")
    print_result(f"{document['head_branch']} -> {document['base_branch']}\n")
    if document["body"].strip():
        print_result(f"{document['body'].strip()}\n")
    if patch is None:
        print_result(document["url"])
        print_note("See its platform for the diff.")
        return
    print_result(patch.rstrip("\n"))


@pulls.command("merge")
def merge_pull(
    repo: Repo,
    number: Number,
    method: Annotated[
        Literal["merge", "squash", "rebase"],
        typer.Option("--method", help="A merge commit, one commit, or all commits on top."),
    ] = "merge",
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Merge a pull request; on conflicts, exit 1 and list the files."""
    from agentjobs.problems import Problem

    async def work(admin: Admin) -> "dict[str, Any]":
        from agentjobs.pulls import merge as merge_pull

        return _document(
            admin,
            await merge_pull.merge_pull(admin.db, admin.settings, org, repo, number, method=method),
        )

    try:
        document = with_store(data_dir, work)
    except Problem as problem:
        if problem.code != "pull_not_mergeable" or not _conflicting_files(problem):
            raise
        _answer_conflict(problem, json)
        raise typer.Exit(CONFLICT) from None
    if json:
        print_json(document)
        return
    print_result(document["merge_commit"])
    print_note(f"{repo}#{number} is merged into {document['base_branch']}.")


@pulls.command("close")
def close_pull(
    repo: Repo,
    number: Number,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Close a pull request without merging it."""

    async def work(admin: Admin) -> "dict[str, Any]":
        from agentjobs.pulls.branches import close_and_remove_branch

        return _document(
            admin, await close_and_remove_branch(admin.db, admin.settings, org, repo, number)
        )

    _answer_changed(with_store(data_dir, work), json)


@pulls.command("ready")
def ready_pull(
    repo: Repo,
    number: Number,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Mark a draft as ready for review."""

    async def work(admin: Admin) -> "dict[str, Any]":
        from agentjobs.jobs.review import mark_ready

        return _document(admin, await mark_ready(admin.db, org, repo, number))

    _answer_changed(with_store(data_dir, work), json)


def _answer_conflict(problem: "Problem", json: bool) -> None:
    """Files are listed one per line, or in the JSON document."""
    files = _conflicting_files(problem)
    if json:
        error = {"code": problem.code, "message": problem.message, "details": {"files": files}}
        print_json({"error": error})
    else:
        for file in files:
            print_result(escape_line(file))
    print_note(f"agentjobs: {escape_line(problem.message)}")


def _answer_changed(document: dict[str, Any], json: bool) -> None:
    if json:
        print_json(document)
        return
    print_result(document["url"])
    kind = "a draft" if document["draft"] else "ready for review"
    state = kind if document["state"] == "open" else document["state"]
    print_note(f"{document['repo']}#{document['number']} is {state}.")


def _document(admin: Admin, pull: "Pull") -> dict[str, Any]:
    from agentjobs.clock import iso_utc_or_none

    return {
        **{field: getattr(pull, field) for field in (*FIELDS, *COMMITS)},
        "body": pull.body,
        "url": pull.url or admin.settings.effective_public_url + pull.path,
        **{field: iso_utc_or_none(getattr(pull, field)) for field in TIMES},
    }


def _conflicting_files(problem: "Problem") -> list[str]:
    details = problem.details if isinstance(problem.details, dict) else {}
    return list(details.get("files", []))
