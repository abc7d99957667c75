"""Checks of `agentjobs doctor` on what the database holds: secrets, webhooks and pauses."""

from agentjobs.app.sealed_columns import SEALED_COLUMNS
from agentjobs.cli.doctor.finding import Finding, count
from agentjobs.organizations import secrets
from agentjobs.organizations.key_rotation import is_unfinished
from agentjobs.organizations.pauses import load_pauses
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database
from agentjobs.webhooks.allowed_addresses import SETTING, load_allow_list
from agentjobs.worker_part.agents import build_catalog
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, SettingsError


async def check_secrets(settings: Settings, db: Database) -> list[Finding]:
    try:
        number = sum(await _count_readable(settings, db, "secrets", "environments"))
    except Problem as problem:
        return [Finding("secrets", "problem", _reason(problem))]
    findings: list[Finding] = [Finding("secrets", "ok", f"{number} stored, all readable")]
    if is_unfinished(settings):
        reason = "a rotation of the encryption key is unfinished: run agentjobs secrets rotate-key"
        findings.append(Finding("secrets", "note", reason))
    return findings


async def _count_readable(settings: Settings, db: Database, *kinds: str) -> list[int]:
    """The number of encrypted values in each column of these kinds. Raises Problem."""
    keys = SealingKeys.load(settings)
    columns = [column for column in SEALED_COLUMNS if column.kind in kinds]
    return [await column.count_readable(db, keys) for column in columns]


def _reason(problem: Problem) -> str:
    """The reason for operators, if there is another one for tenants."""
    return getattr(problem, "reason", problem.message)


async def check_model_keys(settings: Settings, db: Database) -> list[Finding]:
    """`agentjobs agents doctor` checks the key of one organization."""
    stored = await secrets.list_secret_names(db)
    return [
        Finding(
            "secrets",
            "note",
            f"no organization has the key of {agent.id}: run "
            f"`agentjobs secrets set {agent.model.secret}`",
        )
        for agent in build_catalog(settings).all()
        if agent.model is not None and agent.model.secret not in stored
    ]


async def check_webhooks(settings: Settings, db: Database) -> list[Finding]:
    findings: list[Finding] = []
    try:
        allowed = await load_allow_list(db, settings)
    except SettingsError:
        # Reported with the settings.
        return findings
    if allowed.networks:
        networks = ", ".join(map(str, allowed.networks))
        findings.append(
            Finding(
                "webhooks",
                "note",
                f"can reach {networks} ({SETTING}, or loopback for `agentjobs up`)",
            )
        )
    try:
        _, number = await _count_readable(settings, db, "webhooks")
    except Problem as problem:
        return [*findings, Finding("webhooks", "problem", _reason(problem))]
    return [
        *findings,
        Finding("webhooks", "ok", f"{count(number, 'endpoint')}, all secrets readable"),
    ]


async def check_pauses(db: Database) -> list[Finding]:
    pauses = await load_pauses(db)
    findings: list[Finding] = []
    if pauses.service_since is not None:
        since = iso_utc(pauses.service_since)
        findings.append(Finding("queue", "note", f"paused since {since}: run `agentjobs resume`"))
    return findings + [
        Finding(
            "queue",
            "note",
            f"{name} is paused since {iso_utc(at)}: run `agentjobs resume --org {name}`",
        )
        for name, at in pauses.organizations.items()
    ]
