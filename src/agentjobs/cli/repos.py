"""`agentjobs repos`: which repositories are connected to an organization."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org, Severity
from agentjobs.cli.output import answer, answer_json, answer_table, remark

if TYPE_CHECKING:
    from agentjobs.repos.queries import RepoView
    from agentjobs.repos.thresholds import Thresholds

repos = typer.Typer(no_args_is_help=True, help="Connected repositories.")

Name = Annotated[str, typer.Argument(metavar="OWNER/NAME")]
GlobPattern = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="As in .gitignore, such as '.github/workflows/**'."),
]

_TOLD_BY = {
    "file": "told by .agentjobs.toml on its default branch",
    "repository": "set for this repository",
    "organization": "the default of its organization",
    "default": "nobody set a severity",
}


@repos.command("connect")
def connect_repo(
    source: Annotated[
        str, typer.Argument(metavar="PATH_OR_URL", help="A git repository here, or its address.")
    ],
    org: Org = DEFAULT_ORG,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="OWNER/NAME", help="Default: made from the source."),
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Connect a repository: its history is copied, then it is indexed by the service."""

    async def work(admin: Admin) -> "RepoView":
        from agentjobs.repos.connect import connect_repository

        return await connect_repository(admin.db, admin.settings, org, source, name)

    repo = with_store(data_dir, work)
    if json:
        answer_json(repo)
        return
    answer(repo.full_name)
    remark(f"{repo.full_name} is connected; it accepts jobs once a running service indexed it.")


@repos.command("list")
def list_repos(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the connected repositories."""

    async def work(admin: Admin) -> "list[RepoView]":
        from agentjobs.organizations.organizations import find_organization
        from agentjobs.repos import queries

        owner = await find_organization(admin.db, org)
        return await queries.list_repos(admin.db, owner.id)

    found = with_store(data_dir, work)
    if json:
        answer_json({"repos": found})
        return
    answer_table(
        ("name", "platform", "status", "lines", "branch", "error"),
        [
            (
                repo.full_name,
                repo.platform,
                repo.index_status,
                repo.line_count,
                repo.default_branch,
                repo.sync_error or repo.index_error,
            )
            for repo in found
        ],
    )


@repos.command("lift")
def lift_path(
    name: Name,
    pattern: GlobPattern,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Let agents change paths that the service protects, such as CI definitions."""

    async def work(admin: Admin) -> "RepoView":
        from agentjobs.repos.protected_paths import lift

        return await lift(admin.db, org, name, pattern)

    repo = with_store(data_dir, work)
    _answer_lifted(repo, json, f"Agents may change {pattern} in {repo.full_name}.")


@repos.command("protect")
def protect_path(
    name: Name,
    pattern: GlobPattern,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Undo `lift`: the paths are protected again."""

    async def work(admin: Admin) -> "RepoView":
        from agentjobs.repos.protected_paths import protect

        return await protect(admin.db, org, name, pattern)

    repo = with_store(data_dir, work)
    _answer_lifted(repo, json, f"{pattern} is protected again in {repo.full_name}.")


@repos.command("auto-trigger")
def set_auto_trigger(
    name: Name,
    severity: Severity = None,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Show or set from which severity on a vulnerability starts a job by itself."""

    async def work(admin: Admin) -> "Thresholds":
        from agentjobs.organizations.organizations import find_organization
        from agentjobs.repos.queries import find_repo
        from agentjobs.repos.thresholds import set_repo_threshold, thresholds_of

        if severity is not None:
            return await set_repo_threshold(admin.db, org, name, severity)
        owner = await find_organization(admin.db, org)
        return await thresholds_of(admin.db, (await find_repo(admin.db, owner.id, name)).id)

    found = with_store(data_dir, work)
    effective = found.effective
    if json:
        answer_json({"effective": effective, "says": found})
        return
    answer(effective.level)
    remark(f"{name}: {_TOLD_BY[effective.source]}.")


@repos.command("disconnect")
def disconnect_repo(
    name: Name,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Disconnect a repository: it accepts no more jobs; what was done on it stays."""

    async def work(admin: Admin) -> "RepoView":
        from agentjobs.jobs.disconnect import disconnect_repository

        return await disconnect_repository(admin.db, org, name)

    repo = with_store(data_dir, work)
    if json:
        answer_json(repo)
        return
    answer(repo.full_name)
    remark(f"{repo.full_name} is disconnected.")


def _answer_lifted(repo: "RepoView", json: bool, told: str) -> None:
    if json:
        answer_json(repo)
        return
    for pattern in repo.lifted_paths:
        answer(pattern)
    remark(told)
