"""The minimum severity at which an advisory starts a job automatically.

Three sources, the first that is set wins: `.agentjobs.toml` of the default branch, the repository's
setting, the organization's default.
"""

from typing import Literal, get_args

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization, update_auto_trigger
from agentjobs.repos.queries import find_repo
from agentjobs.repos.queues import request_scan, request_scans
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.repo_configuration import SEVERITY_ALIASES, Severity

LEVELS: tuple[str, ...] = get_args(Severity)
INHERIT = "default"

ThresholdSource = Literal["file", "repository", "organization", "default"]


class Threshold(msgspec.Struct, frozen=True):
    """`level` is `none` if no job starts automatically; `source` is where it was set."""

    level: str
    source: ThresholdSource

    @property
    def is_off(self) -> bool:
        return self.level == "none"


class Thresholds(msgspec.Struct, frozen=True):
    """The level set in each source; None where none is set."""

    file: str | None
    repository: str | None
    organization: str | None

    @property
    def effective(self) -> Threshold:
        if self.file is not None:
            return Threshold(self.file, "file")
        if self.repository is not None:
            return Threshold(self.repository, "repository")
        if self.organization is not None:
            return Threshold(self.organization, "organization")
        return Threshold("none", "default")


async def load_thresholds(db: Database | Transaction, repo_id: str) -> Thresholds:
    row = await db.fetch_one(
        "SELECT i.configured_trigger, r.auto_trigger, o.auto_trigger AS organization_trigger"
        " FROM repos r JOIN organizations o ON o.id = r.organization_id"
        " LEFT JOIN repo_index i ON i.repo_id = r.id WHERE r.id = :repo_id",
        repo_id=repo_id,
    )
    if row is None:
        raise Problem("repo_not_connected", "The repository was deleted with its organization.")
    return thresholds_from_row(row)


def thresholds_from_row(row: Row) -> Thresholds:
    return Thresholds(row["configured_trigger"], row["auto_trigger"], row["organization_trigger"])


async def load_organization_threshold(db: Database, organization_id: str) -> str | None:
    row = await db.fetch_one(
        "SELECT auto_trigger FROM organizations WHERE id = :id", id=organization_id
    )
    return None if row is None else row["auto_trigger"]


@audit.in_transaction
async def set_repo_threshold(
    tx: Transaction, organization: str, full_name: str, level: str
) -> Thresholds:
    """`default` uses the organization's setting."""
    owner = await find_organization(tx, organization)
    repo = await find_repo(tx, owner.id, full_name)
    stored = parse_level(level)
    await tx.execute(
        "UPDATE repos SET auto_trigger = :level WHERE id = :repo_id AND disconnected_at IS NULL",
        level=stored,
        repo_id=repo.id,
    )
    await audit.record(tx, owner.id, "repo.auto_trigger_set", full_name, level=stored or INHERIT)
    await tx.invalidate("repos")
    await request_scan(tx, repo.id)
    return await load_thresholds(tx, repo.id)


@audit.in_transaction
async def set_organization_threshold(tx: Transaction, organization: str, level: str) -> str | None:
    """Applies to repositories without a setting of their own; `default` turns it off."""
    owner = await find_organization(tx, organization)
    stored = parse_level(level)
    await update_auto_trigger(tx, owner.id, stored)
    await audit.record(
        tx, owner.id, "organization.auto_trigger_set", owner.name, level=stored or INHERIT
    )
    await request_scans(tx, "r.organization_id = :organization_id", organization_id=owner.id)
    return stored


def parse_level(text: str) -> str | None:
    """None for `default`."""
    name = text.strip().lower()
    level = SEVERITY_ALIASES.get(name, name)
    if level == INHERIT:
        return None
    if level not in LEVELS:
        choices = ", ".join((*LEVELS, INHERIT))
        raise Problem("invalid_severity", f"{text!r} is not a severity; use one of: {choices}.")
    return level
