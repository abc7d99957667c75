"""`agentjobs doctor`: checks whether this machine can run the service and its agents."""

import asyncio
import platform
from typing import TYPE_CHECKING

import typer

from agentjobs.cli.admin import load_settings
from agentjobs.cli.doctor.disk import check_data_directory, check_disk
from agentjobs.cli.doctor.finding import Finding, count
from agentjobs.cli.doctor.forges import check_forges
from agentjobs.cli.doctor.machine import (
    check_agents,
    check_git,
    check_network_settings,
    check_sandbox,
)
from agentjobs.cli.doctor.processes import check_processes
from agentjobs.cli.doctor.public_url import check_public_url
from agentjobs.cli.doctor.stored import check_pauses, check_secrets, check_webhooks
from agentjobs.cli.doctor.workers import check_workers
from agentjobs.cli.machine import require_linux
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentjobs.settings import Settings

HAS_PROBLEMS = 1
_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def doctor(data_dir: DataDir = None, json: Json = False) -> None:
    """Check this installation for problems; exit 1 if there are any."""
    require_linux()
    settings = load_settings(data_dir)
    findings = asyncio.run(_check_all(settings))
    if json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        width = max(len(subject) for subject, _, _ in findings)
        for subject, state, message in findings:
            print_result(f"{_MARKS[state]}  {subject:<{width}}  {message}")
    problems = sum(state == "problem" for _, state, _ in findings)
    print_note(f"{count(problems, 'problem')} found." if problems else "No problems found.")
    if problems:
        raise typer.Exit(HAS_PROBLEMS)


async def _check_all(settings: "Settings") -> list[Finding]:
    return [
        _describe_program(),
        *check_data_directory(settings),
        *check_disk(settings),
        *await check_git(),
        *await check_sandbox(settings),
        *check_network_settings(settings),
        *[finding async for finding in _check_store(settings)],
        *await check_agents(settings),
    ]


def _describe_program() -> Finding:
    from agentjobs.build_info import describe_build

    return Finding(
        "version", "ok", f"agentjobs {describe_build()}, Python {platform.python_version()}"
    )


async def _check_store(settings: "Settings") -> "AsyncIterator[Finding]":
    from agentjobs.store.database import StoreError
    from agentjobs.store.database_clock import clock_problem
    from agentjobs.store.opening import find_schema_differences, open_database

    path = settings.data_path / "agentjobs.db"
    if not settings.database_url and not path.exists():
        yield Finding("store", "note", f"{path} does not exist yet; the first command creates it")
        return
    try:
        db = await open_database(
            settings.effective_database_url,
            migrate=False,
            direct_url=settings.database_direct_url,
        )
    except StoreError as error:
        yield Finding("store", "problem", str(error))
        for finding in await check_public_url(settings, None):
            yield finding
        return
    try:
        await db.ping()
        differences = await find_schema_differences(db)
        for difference in differences:
            yield Finding("store", "problem", f"{difference.what}; {difference.remedy}")
        if not differences:
            yield Finding("store", "ok", f"{db.engine}, schema current")
        if problem := clock_problem(await db.clock_ms()):
            yield Finding("clock", "problem", problem)
        for finding in [
            *await check_secrets(settings, db),
            *await check_webhooks(settings, db),
            *await check_forges(settings, db),
            *await check_workers(settings, db),
            *await check_pauses(db),
            *await check_processes(settings, db),
            *await check_public_url(settings, db),
        ]:
            yield finding
    except StoreError as error:
        yield Finding("store", "problem", str(error))
    finally:
        await db.close()
