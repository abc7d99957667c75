"""`agentjobs doctor`: checks whether this machine can run the service and its agents."""

import asyncio
import platform
import shutil
from typing import TYPE_CHECKING, Any

import typer

from agentjobs.cli.admin import load_settings
from agentjobs.cli.doctor.forges import check_forges
from agentjobs.cli.doctor.processes import check_processes
from agentjobs.cli.machine import require_linux
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentjobs.settings import Settings
    from agentjobs.store.database import Database

HAS_PROBLEMS = 1
_MIN_FREE_BYTES = 2 * 1024**3
_GIB = 1024**3
_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}

# Subject, state ("ok", "note" or "problem") and message.
Finding = tuple[str, str, str]


def doctor(data_dir: DataDir = None, json: Json = False) -> None:
    """Check this installation for problems; exit 1 if there are any."""
    require_linux()
    settings = load_settings(data_dir)
    findings = asyncio.run(_check_all(settings))
    if json:
        document: list[dict[str, Any]] = [
            {"subject": subject, "state": state, "message": message}
            for subject, state, message in findings
        ]
        print_json({"findings": document})
    else:
        width = max(len(subject) for subject, _, _ in findings)
        for subject, state, message in findings:
            print_result(f"{_MARKS[state]}  {subject:<{width}}  {message}")
    if any(state == "problem" for _, state, _ in findings):
        raise typer.Exit(HAS_PROBLEMS)


async def _check_all(settings: "Settings") -> list[Finding]:
    return [
        _describe_program(),
        *_check_disk(settings),
        *await _check_git(),
        *await _check_sandbox(settings),
        *_check_network_settings(settings),
        *[finding async for finding in _check_store(settings)],
        *await _check_agents(settings),
    ]


def _describe_program() -> Finding:
    from agentjobs.build_info import describe_build

    return ("version", "ok", f"agentjobs {describe_build()}, Python {platform.python_version()}")


def _check_disk(settings: "Settings") -> list[Finding]:
    directory = settings.data_path
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    text = f"{free / _GIB:.1f} GiB free at {settings.data_dir}"
    if free < _MIN_FREE_BYTES:
        return [("disk", "problem", f"{text}: free some space, or lower cache_max_bytes")]
    return [("disk", "ok", text)]


async def _check_git() -> list[Finding]:
    from agentjobs.git.version import UnsuitableGit, check_git

    try:
        return [("git", "ok", f"git {await check_git()}")]
    except UnsuitableGit as error:
        return [("git", "problem", str(error))]


async def _check_sandbox(settings: "Settings") -> list[Finding]:
    from agentjobs.sandbox.description import describe_sandbox

    description = await describe_sandbox(settings)
    findings: list[Finding] = [
        ("sandbox", "ok", f"{description.kind} {description.version}".strip()),
        ("sandbox", "ok", f"agents run as {description.runs_as}"),
        ("sandbox", "ok", f"system calls: {description.seccomp}"),
        ("sandbox", "ok", f"limits are enforced by {description.limits}"),
    ]
    if description.environments:
        text = f"repositories can have an environment: {description.environments}"
        findings += [("sandbox", "ok", text), _check_image_tools()]
    findings += [("sandbox", "note", note) for note in description.notes]
    return findings + [("sandbox", "problem", problem) for problem in description.problems]


def _check_image_tools() -> Finding:
    from agentjobs.environments.images.tool_sandbox import TOOLS, missing_tools

    if (reason := missing_tools()) is not None:
        return ("images", "note", f"environments cannot have an image: {reason}")
    return ("images", "ok", f"images are pulled and unpacked by {' and '.join(TOOLS)}")


def _check_network_settings(settings: "Settings") -> list[Finding]:
    """Settings that are otherwise read only when a worker starts."""
    from agentjobs.environments.setup_network import check_setup_network
    from agentjobs.gateway.prices import load_prices
    from agentjobs.outbound.guard.addresses import AllowList
    from agentjobs.outbound.guard.sessions import load_tls_context
    from agentjobs.settings import SettingsError
    from agentjobs.webhooks.allowed_addresses import configured_allow_list

    findings: list[Finding] = []
    try:
        AllowList.parse(settings.egress_allow)
    except ValueError as error:
        findings.append(("network", "problem", f"AGENTJOBS_EGRESS_ALLOW: {error}"))
    try:
        configured_allow_list(settings)
    except SettingsError as error:
        findings.append(("webhooks", "problem", str(error)))
    try:
        load_tls_context(settings.ca_file)
    except ValueError as error:
        findings.append(("network", "problem", str(error)))
    try:
        load_prices(settings)
    except SettingsError as error:
        findings.append(("prices", "problem", str(error)))
    try:
        check_setup_network(settings)
    except SettingsError as error:
        findings.append(("environments", "problem", str(error)))
    if settings.egress_allow and not findings:
        findings.append(("network", "note", f"agents can reach {', '.join(settings.egress_allow)}"))
    return findings


async def _check_store(settings: "Settings") -> "AsyncIterator[Finding]":
    from agentjobs.store.database import StoreError
    from agentjobs.store.database_clock import clock_problem
    from agentjobs.store.opening import find_schema_differences, open_database

    path = settings.data_path / "agentjobs.db"
    if not settings.database_url and not path.exists():
        yield "store", "note", f"{path} does not exist yet; the first command creates it"
        return
    try:
        db = await open_database(
            settings.effective_database_url,
            migrate=False,
            direct_url=settings.database_direct_url,
        )
    except StoreError as error:
        yield "store", "problem", str(error)
        return
    try:
        await db.ping()
        differences = await find_schema_differences(db)
        for difference in differences:
            yield "store", "problem", f"{difference.what}; {difference.remedy}"
        if not differences:
            yield "store", "ok", f"{db.engine}, schema current"
        if problem := clock_problem(await db.clock_ms()):
            yield "clock", "problem", problem
        for finding in [
            *await _check_secrets(settings, db),
            *await _check_webhooks(settings, db),
            *await check_forges(settings, db),
            *await _check_workers(settings, db),
            *await check_processes(db),
            *await _check_pauses(db),
        ]:
            yield finding
    except StoreError as error:
        yield "store", "problem", str(error)
    finally:
        await db.close()


async def _check_secrets(settings: "Settings", db: "Database") -> list[Finding]:
    from agentjobs.environments.sealed_values import check_environment_secrets
    from agentjobs.organizations.key_rotation import is_unfinished
    from agentjobs.organizations.sealing import DecryptionFailed, SealingKeys
    from agentjobs.organizations.secrets import check_secrets
    from agentjobs.problems import Problem

    try:
        keys = SealingKeys.load(settings)
        number = await check_secrets(db, keys) + await check_environment_secrets(db, keys)
    except DecryptionFailed as failure:
        return [("secrets", "problem", failure.reason)]
    except Problem as problem:
        return [("secrets", "problem", problem.message)]
    findings: list[Finding] = [("secrets", "ok", f"{number} stored, all readable")]
    if is_unfinished(settings):
        reason = "a rotation of the encryption key is unfinished: run agentjobs secrets rotate-key"
        findings.append(("secrets", "note", reason))
    return findings


async def _check_webhooks(settings: "Settings", db: "Database") -> list[Finding]:
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.problems import Problem
    from agentjobs.settings import SettingsError
    from agentjobs.webhooks.allowed_addresses import SETTING, load_allow_list
    from agentjobs.webhooks.secret_rotation import check_endpoint_secrets

    findings: list[Finding] = []
    try:
        allowed = await load_allow_list(db, settings)
    except SettingsError:
        # Reported with the settings.
        return findings
    if allowed.networks:
        networks = ", ".join(map(str, allowed.networks))
        findings.append(
            (
                "webhooks",
                "note",
                f"can reach {networks} ({SETTING}, or loopback for `agentjobs up`)",
            )
        )
    try:
        number = await check_endpoint_secrets(db, SealingKeys.load(settings))
    except Problem as problem:
        return [*findings, ("webhooks", "problem", problem.message)]
    return [*findings, ("webhooks", "ok", f"{number} endpoints, all secrets readable")]


async def _check_workers(settings: "Settings", db: "Database") -> list[Finding]:
    from agentjobs.clock import iso_utc
    from agentjobs.jobs.workers import list_worker_views

    findings: list[Finding] = []
    for worker in await list_worker_views(db, settings):
        seen_at = iso_utc(worker.heartbeat_at)
        state = f"{worker.hostname} is {worker.status}, {worker.slots} slots, last seen {seen_at}"
        if worker.status == "silent":
            state = f"{state}; if it is gone, run `agentjobs workers remove {worker.id}`"
        findings.append(("workers", "ok" if worker.status == "ready" else "note", state))
        for agent, reason in worker.unready.items():
            findings.append(("workers", "note", f"{worker.hostname} cannot run {agent}: {reason}"))
    if not findings:
        return [("workers", "note", "none is running; start `agentjobs up` or `agentjobs worker`")]
    return findings


async def _check_pauses(db: "Database") -> list[Finding]:
    from agentjobs.clock import iso_utc
    from agentjobs.organizations.pauses import load_pauses

    pauses = await load_pauses(db)
    findings: list[Finding] = []
    if pauses.service_since is not None:
        since = iso_utc(pauses.service_since)
        findings.append(("queue", "note", f"paused since {since}: run `agentjobs resume`"))
    return findings + [
        (
            "queue",
            "note",
            f"{name} is paused since {iso_utc(at)}: run `agentjobs resume --org {name}`",
        )
        for name, at in pauses.organizations.items()
    ]


async def _check_agents(settings: "Settings") -> list[Finding]:
    from agentjobs.agents.catalog import build_catalog
    from agentjobs.agents.readiness import check_readiness

    in_sandbox = settings.has_sandbox
    findings: list[Finding] = []
    for agent in build_catalog(settings).all():
        readiness = await check_readiness(agent, in_sandbox=in_sandbox)
        version = f" {readiness.version}" if readiness.version else ""
        text = f"{agent.id}{version}"
        if readiness.reason is None:
            findings.append(("agents", "ok", f"{text} is ready"))
        else:
            findings.append(("agents", "problem", f"{text}: {readiness.reason}"))
    return findings
