"""Where and how often jobs of a repository run: the tags its workers need, and its limit.

Operators set both, because workers belong to the whole service.
"""

import re
from typing import Any

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.queries import RepoView, lock_repo
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tags import split_tags, tags_fault

NONE = "none"

_MAX_JOBS = 1_000_000
_NUMBER = re.compile(r"[0-9]{1,9}")


@audit.in_transaction
async def set_scheduling(
    tx: Transaction,
    organization: str,
    full_name: str,
    *,
    tags: str | None = None,
    max_concurrent_jobs: str | None = None,
) -> RepoView:
    """`none` removes a value; one that is not given stays unchanged."""
    changes: dict[str, Any] = {}
    if tags is not None:
        changes["required_tags"] = parse_tags(tags)
    if max_concurrent_jobs is not None:
        changes["max_concurrent_jobs"] = parse_limit(max_concurrent_jobs)
    owner = await find_organization(tx, organization)
    before = await lock_repo(tx, owner.id, full_name)
    repo = msgspec.structs.replace(before, **changes)
    if repo == before:
        return repo
    await tx.execute(
        "UPDATE repos SET required_tags = :tags, max_concurrent_jobs = :jobs WHERE id = :id",
        id=repo.id,
        tags=msgspec.json.encode(repo.required_tags).decode(),
        jobs=repo.max_concurrent_jobs,
    )
    await audit.record(tx, owner.id, "repo.scheduling_set", full_name, **changes)
    await tx.invalidate("repos")
    # Jobs that waited for the former values may start now.
    tx.announce("jobs")
    return repo


def parse_tags(text: str) -> tuple[str, ...]:
    tags = () if text.strip().lower() == NONE else tuple(split_tags(text))
    if fault := tags_fault(tags):
        raise Problem("invalid_tags", f"The tags are not valid: {fault}.")
    return tags


def parse_limit(text: str) -> int | None:
    if text.strip().lower() == NONE:
        return None
    if not (_NUMBER.fullmatch(text) and 1 <= int(text) <= _MAX_JOBS):
        raise Problem(
            "invalid_limit",
            f"{text!r} is not a number of jobs; use a whole number from 1 to {_MAX_JOBS}, or "
            f"`{NONE}` for no limit.",
        )
    return int(text)
