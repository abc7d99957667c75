"""`agentjobs doctor`: whether this machine can run the service and its agents, and what to do."""

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import typer

from agentjobs.cli.admin import load_settings
from agentjobs.cli.doctor.forges import look_at_forges
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import answer, answer_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentjobs.settings import Settings
    from agentjobs.store.database import Database

NOT_WELL = 1
_LEAST_FREE_BYTES = 2 * 1024**3
_GIB = 1024**3
# A pull request is merged with `git merge-tree --write-tree`.
_OLDEST_GIT = (2, 38)
_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}

# What was looked at, "ok", "note" or "problem", and the words.
Finding = tuple[str, str, str]


def doctor(data_dir: DataDir = None, json: Json = False) -> None:
    """Look at store, git, sandbox, secrets, platforms, agents and workers; exit 1 for a problem."""
    settings = load_settings(data_dir)
    findings = asyncio.run(_examine(settings))
    if json:
        document: list[dict[str, Any]] = [
            {"subject": subject, "state": state, "message": message}
            for subject, state, message in findings
        ]
        answer_json({"findings": document})
    else:
        width = max(len(subject) for subject, _, _ in findings)
        for subject, state, message in findings:
            answer(f"{_MARKS[state]}  {subject:<{width}}  {message}")
    if any(state == "problem" for _, state, _ in findings):
        raise typer.Exit(NOT_WELL)


async def _examine(settings: "Settings") -> list[Finding]:
    return [
        *_look_at_disk(settings),
        *await _look_at_git(),
        *await _look_at_sandbox(settings),
        *_look_at_outside(settings),
        *[finding async for finding in _look_at_store(settings)],
        *await _look_at_agents(settings),
    ]


def _look_at_disk(settings: "Settings") -> list[Finding]:
    directory = settings.data_path
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    words = f"{free / _GIB:.1f} GiB are free at {settings.data_dir}"
    if free < _LEAST_FREE_BYTES:
        return [("disk", "problem", f"{words}: make room, or lower cache_max_bytes")]
    return [("disk", "ok", words)]


async def _look_at_git() -> list[Finding]:
    from agentjobs.git.process import GitError, git

    try:
        said = (await git("--version")).stdout.decode().split()[2]
    except (GitError, OSError):
        return [("git", "problem", "git does not run: `sudo apt-get install -y git`")]
    version = tuple(int(part) for part in said.split(".")[:2] if part.isdecimal())
    if version < _OLDEST_GIT:
        return [("git", "problem", f"git {said} cannot merge pull requests: 2.38 or newer can")]
    return [("git", "ok", f"git {said}")]


async def _look_at_sandbox(settings: "Settings") -> list[Finding]:
    from agentjobs.sandbox.description import describe_sandbox

    facts = await describe_sandbox(settings)
    found: list[Finding] = [
        ("sandbox", "ok", f"{facts.kind} {facts.version}".strip()),
        ("sandbox", "ok", f"agents run as {facts.runs_as}"),
        ("sandbox", "ok", f"system calls: {facts.seccomp}"),
        ("sandbox", "ok", f"limits are kept by {facts.limits}"),
    ]
    found += [("sandbox", "note", note) for note in facts.notes]
    return found + [("sandbox", "problem", problem) for problem in facts.problems]


def _look_at_outside(settings: "Settings") -> list[Finding]:
    """The settings that are read only when a worker starts."""
    from agentjobs.gateway.prices import load_prices
    from agentjobs.outbound.guard.addresses import AllowList
    from agentjobs.outbound.guard.sessions import load_tls_context
    from agentjobs.settings import SettingsError
    from agentjobs.webhooks.allowed_addresses import effective_allow_list

    found: list[Finding] = []
    try:
        AllowList.parse(settings.egress_allow)
    except ValueError as error:
        found.append(("network", "problem", f"AGENTJOBS_EGRESS_ALLOW: {error}"))
    try:
        effective_allow_list(settings, is_laptop=False)
    except SettingsError as error:
        found.append(("webhooks", "problem", str(error)))
    try:
        load_tls_context(settings.ca_file)
    except ValueError as error:
        found.append(("network", "problem", str(error)))
    try:
        load_prices(settings)
    except SettingsError as error:
        found.append(("prices", "problem", str(error)))
    if settings.egress_allow and not found:
        found.append(("network", "note", f"agents may reach {', '.join(settings.egress_allow)}"))
    return found


async def _look_at_store(settings: "Settings") -> "AsyncIterator[Finding]":
    from agentjobs.store.database import StoreError
    from agentjobs.store.opening import open_database

    path = settings.data_path / "agentjobs.db"
    if not settings.database_url and not path.exists():
        yield "store", "note", f"there is none at {path} yet: the first command makes it"
        return
    try:
        db = await open_database(settings.effective_database_url, migrate=False)
    except StoreError as error:
        yield "store", "problem", str(error)
        return
    try:
        await db.ping()
        yield "store", "ok", f"{db.engine}, schema current"
        for finding in [
            *await _look_at_secrets(settings, db),
            *await _look_at_webhooks(settings, db),
            *await look_at_forges(settings, db),
            *await _look_at_workers(db),
        ]:
            yield finding
    except StoreError as error:
        yield "store", "problem", str(error)
    finally:
        await db.close()


async def _look_at_secrets(settings: "Settings", db: "Database") -> list[Finding]:
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.organizations.secrets import check_secrets
    from agentjobs.problems import Problem

    try:
        number = await check_secrets(db, SealingKeys.load(settings))
    except Problem as problem:
        return [("secrets", "problem", problem.message)]
    return [("secrets", "ok", f"{number} stored, all open with the key at hand")]


async def _look_at_webhooks(settings: "Settings", db: "Database") -> list[Finding]:
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.problems import Problem
    from agentjobs.settings import SettingsError
    from agentjobs.webhooks.allowed_addresses import SETTING, load_allow_list
    from agentjobs.webhooks.secret_rotation import check_endpoint_secrets

    found: list[Finding] = []
    try:
        allowed = await load_allow_list(db, settings)
    except SettingsError:
        # Told where the settings are looked at.
        return found
    if allowed.networks:
        networks = ", ".join(map(str, allowed.networks))
        found.append(("webhooks", "note", f"may reach {networks} ({SETTING}, or a laptop's own)"))
    try:
        number = await check_endpoint_secrets(db, SealingKeys.load(settings))
    except Problem as problem:
        return [*found, ("webhooks", "problem", problem.message)]
    return [*found, ("webhooks", "ok", f"{number} endpoints, whose secrets open")]


async def _look_at_workers(db: "Database") -> list[Finding]:
    from agentjobs.clock import iso_utc
    from agentjobs.jobs.queue.leases import list_workers

    found: list[Finding] = []
    for worker, seen_at in await list_workers(db):
        seen = f"{worker.hostname}, {worker.slots} slots, last seen {iso_utc(seen_at)}"
        found.append(("workers", "ok", seen))
        for agent, reason in worker.unready.items():
            found.append(("workers", "note", f"{worker.hostname} cannot run {agent}: {reason}"))
    if not found:
        return [("workers", "note", "none is running: start `agentjobs up` or `agentjobs worker`")]
    return found


async def _look_at_agents(settings: "Settings") -> list[Finding]:
    from agentjobs.agents.catalog import build_catalog
    from agentjobs.agents.readiness import check_readiness

    in_sandbox = settings.has_sandbox
    found: list[Finding] = []
    for agent in build_catalog(settings).all():
        seen = await check_readiness(agent, in_sandbox=in_sandbox)
        version = f" {seen.version}" if seen.version else ""
        words = f"{agent.id}{version}"
        if seen.reason is None:
            found.append(("agents", "ok", f"{words} can run here"))
        else:
            found.append(("agents", "problem", f"{words}: {seen.reason}"))
    return found
