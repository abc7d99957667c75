"""All checks of `agentjobs doctor`, in the order in which it reports them."""

import platform

from agentjobs.build_info import describe_build
from agentjobs.cli.doctor.disk import check_data_directory, check_disk
from agentjobs.cli.doctor.finding import Finding
from agentjobs.cli.doctor.machine import (
    check_git,
    check_network_settings,
    check_sandbox_and_agents,
)
from agentjobs.cli.doctor.platforms import check_platforms
from agentjobs.cli.doctor.processes import check_processes, is_only_api_here
from agentjobs.cli.doctor.public_url import check_public_url
from agentjobs.cli.doctor.stored import (
    check_model_keys,
    check_pauses,
    check_secrets,
    check_webhooks,
)
from agentjobs.cli.doctor.workers import check_workers
from agentjobs.store.database import Database, StoreError
from agentjobs.store.database_clock import clock_problem
from agentjobs.store.opening import find_schema_differences, open_database
from agentjobs_runtime.settings import Settings


async def check_all(settings: Settings) -> list[Finding]:
    program = f"agentjobs {describe_build()}, Python {platform.python_version()}"
    findings = [
        Finding("version", "ok", program),
        *check_data_directory(settings),
        *check_disk(settings),
        *await check_git(),
        *check_network_settings(settings),
    ]
    needs_agents = True
    if settings.database_url or settings.database_file.exists():
        needs_agents = await _check_stored(settings, findings)
    else:
        reason = f"{settings.database_file} does not exist yet; the first command creates it"
        findings += [Finding("store", "note", reason), *await check_public_url(settings, None)]
    on_workers = await check_sandbox_and_agents(settings)
    return findings + (on_workers if needs_agents else list(map(_excuse, on_workers)))


def _excuse(finding: Finding) -> Finding:
    if finding.state != "problem":
        return finding
    reason = "only workers need this, and none runs on this machine"
    return Finding(finding.subject, "note", f"{finding.message} ({reason})")


async def _check_stored(settings: Settings, findings: list[Finding]) -> bool:
    """Whether this machine needs what agents need, as far as the store tells."""
    try:
        db = await open_database(
            settings.effective_database_url,
            migrate=False,
            direct_url=settings.database_direct_url,
        )
    except StoreError as error:
        findings.append(Finding("store", "problem", str(error)))
        findings += await check_public_url(settings, None)
        return True
    try:
        findings += await _check_store(settings, db)
        return not await is_only_api_here(settings, db)
    except StoreError as error:
        findings.append(Finding("store", "problem", str(error)))
        return True
    finally:
        await db.close()


async def _check_store(settings: Settings, db: Database) -> list[Finding]:
    await db.ping()
    findings = [
        Finding("store", "problem", f"{difference.what}; {difference.remedy}")
        for difference in await find_schema_differences(db)
    ] or [Finding("store", "ok", f"{db.engine}, schema current")]
    if problem := clock_problem(await db.clock_ms()):
        findings.append(Finding("clock", "problem", problem))
    return [
        *findings,
        *await check_secrets(settings, db),
        *await check_model_keys(settings, db),
        *await check_webhooks(settings, db),
        *await check_platforms(settings, db),
        *await check_workers(settings, db),
        *await check_pauses(db),
        *await check_processes(settings, db),
        *await check_public_url(settings, db),
    ]
