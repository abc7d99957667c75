"""`agentjobs repos`: the repositories connected to an organization."""

from typing import Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.confirmation import confirm_name
from agentjobs.cli.options import DEFAULT_ORG, Org, Severity
from agentjobs.cli.output import Answer, Table
from agentjobs.cli.repos.index_wait import INDEX_FAILED, wait_for_index
from agentjobs.cli.store_command import Work, store_command

repos = typer.Typer(no_args_is_help=True, help="Manage connected repositories.")

Name = Annotated[str, typer.Argument(metavar="OWNER/NAME")]
GlobPattern = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="A .gitignore pattern, such as '.github/workflows/**'."),
]

_PURGED_FILES = "the repository of the platform local, copies, mirrors, caches, environments"
_SOURCE_TEXT = {
    "file": "set in .agentjobs.toml on the default branch",
    "repository": "set for this repository",
    "organization": "inherited from the organization",
    "default": "no severity is set",
}


@repos.command("connect")
@store_command
async def connect_repo(
    admin: Admin,
    source: Annotated[
        str, typer.Argument(metavar="PATH_OR_URL", help="A local git repository, or its URL.")
    ],
    org: Org = DEFAULT_ORG,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="OWNER/NAME", help="Default: derived from the source."),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until it accepts jobs; exit 1 if the index fails."),
    ] = False,
) -> Answer:
    """Connect a repository: copy its history and index it."""
    from agentjobs.repos.connect import connect_repository

    certificates = None
    if admin.settings.ca_file:
        from agentjobs.app.outbound_setup import prepare_certificates

        certificates = prepare_certificates(admin.settings)
    repo = await connect_repository(
        admin.db, admin.settings, org, source, name, certificates=certificates
    )
    if wait:
        repo = await wait_for_index(admin.db, repo)
    exit_code = 0
    if repo.index_status == "ready":
        unit = "line" if repo.line_count == 1 else "lines"
        remark = f"is ready: {repo.line_count} {unit}."
    elif wait:
        remark = f"was not indexed: {repo.index_error} The service tries again."
        exit_code = INDEX_FAILED
    else:
        remark = "is connected; it accepts jobs once the running service has indexed it."
    remarks = [f"{repo.full_name} {remark}"]
    return Answer(repo, [repo.full_name], remarks=remarks, exit_code=exit_code)


@repos.command("list")
@store_command
async def list_repos(admin: Admin, org: Org = DEFAULT_ORG) -> Table:
    """List the connected repositories."""
    from agentjobs.repos import queries

    owner = await admin.find_organization(org)
    views = await queries.list_repos(admin.db, owner.id)
    return Table(
        {"repos": views},
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
            for repo in views
        ],
    )


@repos.command("lift")
@store_command
async def lift_path(
    admin: Admin, name: Name, pattern: GlobPattern, org: Org = DEFAULT_ORG
) -> Answer:
    """Let agents change paths that the service protects by default, such as CI definitions."""
    from agentjobs.repos.protected_paths import remove_protection

    repo = await remove_protection(admin.db, org, name, pattern)
    note = f"Agents may change {pattern} in {repo.full_name}."
    return Answer(repo, repo.lifted_paths, [note])


@repos.command("protect")
@store_command
async def protect_path(
    admin: Admin, name: Name, pattern: GlobPattern, org: Org = DEFAULT_ORG
) -> Answer:
    """Protect paths again after `lift`."""
    from agentjobs.repos.protected_paths import restore_protection

    repo = await restore_protection(admin.db, org, name, pattern)
    note = f"{pattern} is protected again in {repo.full_name}."
    return Answer(repo, repo.lifted_paths, [note])


@repos.command("auto-trigger")
@store_command
async def set_auto_trigger(
    admin: Admin, name: Name, severity: Severity = None, org: Org = DEFAULT_ORG
) -> Answer:
    """Show or set the minimum severity at which a vulnerability starts a job automatically."""
    from agentjobs.repos.thresholds import load_thresholds, set_repo_threshold

    if severity is None:
        _, repo = await admin.find_repo(org, name)
        thresholds = await load_thresholds(admin.db, repo.id)
    else:
        thresholds = await set_repo_threshold(admin.db, org, name, severity)
    effective = thresholds.effective
    document = {"effective": effective, "says": thresholds}
    return Answer(document, [effective.level], [f"{name}: {_SOURCE_TEXT[effective.source]}."])


@repos.command("set")
@store_command
def set_repo(
    name: Name,
    tags: Annotated[
        str | None,
        typer.Option(
            "--tags", metavar="TAG,…|none", help="Tags that a worker must have to run its jobs."
        ),
    ] = None,
    max_concurrent_jobs: Annotated[
        str | None,
        typer.Option(
            "--max-concurrent-jobs", metavar="N|none", help="How many of its jobs run at once."
        ),
    ] = None,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Choose the workers that run jobs of a repository, and limit how many run at once."""
    if tags is None and max_concurrent_jobs is None:
        raise typer.BadParameter("specify --tags, --max-concurrent-jobs or both")

    async def work(admin: Admin) -> Answer:
        from agentjobs.repos.scheduling import set_scheduling

        repo = await set_scheduling(
            admin.db, org, name, tags=tags, max_concurrent_jobs=max_concurrent_jobs
        )
        note = (
            f"Jobs of {repo.full_name} run on workers with the tags:"
            f" {', '.join(repo.required_tags) or 'none required'};"
            f" at once: {repo.max_concurrent_jobs or 'no limit'}."
        )
        return Answer(repo, [repo.full_name], [note])

    return work


@repos.command("disconnect")
@store_command
def disconnect_repo(
    name: Name,
    org: Org = DEFAULT_ORG,
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Cancel its jobs and remove its files on every machine."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation of --purge.")
    ] = False,
) -> Work:
    """Disconnect a repository: it accepts no more jobs; its jobs and pull requests are kept."""
    if purge and not yes:
        effect = f"disconnects {name}, cancels its jobs and removes its files on every machine"
        confirm_name(name, "repository", f"{effect}: {_PURGED_FILES}")

    async def work(admin: Admin) -> Answer:
        if purge:
            return await _purge_repo(admin, org, name)
        from agentjobs.jobs.operations.disconnect import disconnect_repository

        repo = await disconnect_repository(admin.db, org, name)
        return Answer(repo, [repo.full_name], [f"{repo.full_name} is disconnected."])

    return work


async def _purge_repo(admin: Admin, org: str, name: str) -> Answer:
    from agentjobs.cli.repos.purge import purge_repository

    purged = await purge_repository(admin.db, admin.settings, org, name)
    note = (
        f"{name} is disconnected, and its files on this host are removed. Running workers"
        f" ({', '.join(purged.workers) or 'none'}) remove theirs within two minutes, others when"
        " they start."
    )
    return Answer(purged, purged.removed, [note])
