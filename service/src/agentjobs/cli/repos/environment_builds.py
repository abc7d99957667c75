"""`agentjobs repos environment show`, `build`, `rebuild` and `log`."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import (
    Answer,
    escape_text,
    print_answer,
    print_json,
    print_note,
    print_result,
    print_table,
)
from agentjobs.cli.repos import environment_text as text
from agentjobs.cli.repos.commands import Name
from agentjobs.cli.repos.environment import environment
from agentjobs.cli.store_command import store_command

if TYPE_CHECKING:
    from agentjobs.environments.status import EnvironmentStatus
    from agentjobs.repos.queries import RepoView
    from agentjobs_runtime.environments.records import Build

NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Only request the build; a worker runs it.")
]
BUILD_FAILED = 1

_POLL_SECONDS = 0.5


class Ended(NamedTuple):
    """How a command that builds ends. `build` is None if there was nothing to build."""

    build: "Build | None"
    message: str
    succeeded: bool


@environment.command("show")
def show_environment(
    name: Name, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Show the definition in effect, the snapshots, and the latest builds."""

    async def work(admin: Admin) -> "EnvironmentStatus":
        return await _status(admin, (await admin.find_repo(org, name))[1])

    status = with_store(data_dir, work)
    if json:
        print_json({"repo": name, **text.status_document(status)})
        return
    print_result(text.describe_status(status))
    if status.builds:
        print_table(text.COLUMNS, [text.build_row(build, status) for build in status.builds])
    else:
        print_note(status.nothing_to_build or "No builds yet: the first job starts one.")


@environment.command("build")
def build_environment(
    name: Name,
    no_wait: NoWait = False,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Build the environment of the default branch now, unless its snapshot is up to date."""
    _build(name, org, data_dir, is_rebuild=False, no_wait=no_wait, json=json)


@environment.command("rebuild")
def rebuild_environment(
    name: Name,
    no_wait: NoWait = False,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Retire all snapshots of a repository, and build its environment again."""
    _build(name, org, data_dir, is_rebuild=True, no_wait=no_wait, json=json)


@environment.command("log")
@store_command
async def show_log(
    admin: Admin,
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME | BUILD")],
    build: Annotated[str, typer.Argument(metavar="[BUILD]", help="Default: the last one.")] = "",
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Print the log of a build, by its ID, or of the last build of a repository."""
    from agentjobs.environments.build_queries import read_log

    shown = await _find_build(admin, org, name, build)
    log = await read_log(admin.db, shown.id)
    lines = [escape_text(log.removesuffix("\n"))] if log else []
    note = f"{shown.id} is {shown.state}.{f' {shown.error}' if shown.error else ''}"
    return Answer({**text.build_document(shown), "log": log}, lines, [note])


def _build(
    name: str, org: str, data_dir: DataDir, *, is_rebuild: bool, no_wait: bool, json: bool
) -> None:
    async def work(admin: Admin) -> Ended:
        from agentjobs.environments.build_queries import find_build
        from agentjobs.environments.builds import request_environment_build
        from agentjobs.environments.status import can_build

        organization_id, repo = await admin.find_repo(org, name)
        reason = (await _status(admin, repo)).nothing_to_build
        if reason:
            return Ended(None, reason, succeeded=True)
        build_id = await request_environment_build(
            admin.db, organization_id, repo, is_rebuild=is_rebuild
        )
        build = await find_build(admin.db, build_id, repo.id)
        if not await can_build(admin.db, admin.settings):
            message = (
                "The build waits: no worker is running that can provide environments. See"
                " `agentjobs workers list`, and `agentjobs doctor` on its machine."
            )
            return Ended(build, message, succeeded=no_wait)
        if no_wait:
            message = f"Requested. `agentjobs repos environment log {build_id}` shows its log."
            return Ended(build, message, succeeded=True)
        return await _follow(admin, repo, build_id, is_quiet=json)

    ended = with_store(data_dir, work)
    document = None if ended.build is None else text.build_document(ended.build)
    lines = [] if ended.build is None else [ended.build.id]
    exit_code = 0 if ended.succeeded else BUILD_FAILED
    answer = {"build": document, "message": ended.message}
    print_answer(Answer(answer, lines, [ended.message], exit_code=exit_code), json=json)


async def _follow(admin: Admin, repo: "RepoView", build_id: str, *, is_quiet: bool) -> Ended:
    """Print the log as it grows, until the build has ended. Interrupting this does not stop it."""
    from agentjobs.environments.build_queries import find_build, read_log

    shown = ""
    while True:
        build = await find_build(admin.db, build_id, repo.id)
        if build is None:
            return await _ended_without_build(admin, repo, build_id)
        log = await read_log(admin.db, build_id)
        if not is_quiet:
            _print_new(shown, log)
        shown = log
        if build.state == "ready":
            size = text.format_size(build.size_bytes)
            return Ended(build, f"The environment is ready: {size}.", succeeded=True)
        if build.state in ("failed", "removed"):
            message = build.error.partition("\n")[0] or "Its snapshot was removed."
            return Ended(build, f"The build did not succeed: {message}", succeeded=False)
        await asyncio.sleep(_POLL_SECONDS)


async def _ended_without_build(admin: Admin, repo: "RepoView", build_id: str) -> Ended:
    status = await _status(admin, repo)
    if (current := status.current) is not None:
        message = "Nothing to build: the snapshot is up to date. `rebuild` builds it again."
        return Ended(current, message, succeeded=True)
    same = [build for build in status.in_progress if status.is_current(build)]
    if same:
        message = "The environment is already being built, by the build above."
        return Ended(same[0], message, succeeded=True)
    message = (
        f"{build_id} ended without a result: a registry does not respond, or its worker stopped."
        " See the log of the worker, and try again."
    )
    return Ended(None, message, succeeded=False)


def _print_new(shown: str, log: str) -> None:
    """What was added to a log, whose beginning may have been cut off meanwhile."""
    added = log.removeprefix(shown) if log.startswith(shown) else log[log.rfind("\n", 0, -1) + 1 :]
    sys.stderr.write(escape_text(added))
    sys.stderr.flush()


async def _find_build(admin: Admin, org: str, name: str, build_id: str) -> "Build":
    from agentjobs.environments.build_queries import find_build, list_builds
    from agentjobs_runtime.identifiers import id_matcher
    from agentjobs_runtime.problems import Problem

    build: Build | None
    if not build_id and id_matcher("env")(name):
        build = await find_build(admin.db, name)
    else:
        _, repo = await admin.find_repo(org, name)
        if build_id:
            build = await find_build(admin.db, build_id, repo.id)
        else:
            build = next(iter(await list_builds(admin.db, repo.id, limit=1)), None)
            if build is None:
                raise Problem(
                    "build_not_found",
                    f"The environment of {name} was never built; `agentjobs repos environment"
                    f" build {name}` builds it.",
                )
    if build is None:
        raise Problem(
            "build_not_found",
            "There is no such build; `agentjobs repos environment show OWNER/NAME` lists the"
            " latest.",
        )
    return build


async def _status(admin: Admin, repo: "RepoView") -> "EnvironmentStatus":
    from agentjobs.environments.status import load_status

    return await load_status(admin.db, admin.settings.repositories_path, repo)
