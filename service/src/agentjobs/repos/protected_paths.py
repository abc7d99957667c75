"""Lets admins remove the service's default protection from paths of a repository.

The paths that a repository protects in `.agentjobs.toml` are not affected.
"""

import logging
from collections.abc import Callable

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.repo_files.patterns import Pattern

MAX_PATTERNS = 100

_log = logging.getLogger(__name__)

Patterns = tuple[str, ...]


async def remove_protection(
    db: Database, organization: str, full_name: str, pattern: str
) -> RepoView:
    """Idempotent."""
    try:
        Pattern.parse(pattern)
    except ValueError as error:
        raise Problem("invalid_pattern", f"{error}.") from None
    entry = audit.entry("repo.path_lifted", full_name, pattern=pattern)
    return await _change(
        db, organization, full_name, lambda patterns: _add(patterns, pattern), entry
    )


async def restore_protection(
    db: Database, organization: str, full_name: str, pattern: str
) -> RepoView:
    """Undo `remove_protection`; the pattern must be exactly one that was passed to it."""
    entry = audit.entry("repo.path_protected", full_name, pattern=pattern)
    return await _change(
        db, organization, full_name, lambda patterns: _remove(patterns, pattern), entry
    )


async def _change(
    db: Database,
    organization: str,
    full_name: str,
    change: Callable[[Patterns], Patterns],
    entry: audit.Entry,
) -> RepoView:
    owner = await find_organization(db, organization)
    repo = await find_repo(db, owner.id, full_name)
    patterns = await db.transact(_store, owner.id, repo.id, change, entry)
    _log.info("unprotected paths of %s are now: %s", full_name, ", ".join(patterns) or "none")
    return msgspec.structs.replace(repo, lifted_paths=patterns)


async def _store(
    tx: Transaction,
    organization_id: str,
    repo_id: str,
    change: Callable[[Patterns], Patterns],
    entry: audit.Entry,
) -> Patterns:
    row = await tx.fetch_one(
        "SELECT lifted_paths FROM repos WHERE id = :id /*postgresql FOR UPDATE */", id=repo_id
    )
    before = () if row is None else msgspec.json.decode(row["lifted_paths"], type=Patterns)
    patterns = change(before)
    if patterns == before:
        return patterns
    await tx.execute(
        "UPDATE repos SET lifted_paths = :patterns WHERE id = :id",
        id=repo_id,
        patterns=msgspec.json.encode(patterns).decode(),
    )
    await audit.write(tx, organization_id, entry)
    await tx.invalidate("repos")
    return patterns


def _add(patterns: Patterns, pattern: str) -> Patterns:
    if pattern in patterns:
        return patterns
    if len(patterns) >= MAX_PATTERNS:
        raise Problem(
            "too_many_patterns", f"A repository has at most {MAX_PATTERNS} unprotected paths."
        )
    return (*patterns, pattern)


def _remove(patterns: Patterns, pattern: str) -> Patterns:
    if pattern not in patterns:
        current = ", ".join(patterns) or "none"
        message = f"{pattern!r} is not an unprotected path; the unprotected paths are: {current}."
        raise Problem("not_lifted", message)
    return tuple(other for other in patterns if other != pattern)
