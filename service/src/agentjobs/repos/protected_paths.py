"""Lets admins remove the service's default protection from paths of a repository.

The paths that a repository protects in `.agentjobs.toml` are not affected.
"""

import logging

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.queries import RepoView, lock_repo
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.repo_files.patterns import Pattern

MAX_PATTERNS = 100

_log = logging.getLogger(__name__)


@audit.in_transaction
async def remove_protection(
    tx: Transaction, organization: str, full_name: str, pattern: str
) -> RepoView:
    """Idempotent."""
    try:
        Pattern.parse(pattern)
    except ValueError as error:
        raise Problem("invalid_pattern", f"{error}.") from None
    owner = await find_organization(tx, organization)
    repo = await lock_repo(tx, owner.id, full_name)
    if pattern in repo.lifted_paths:
        return repo
    if len(repo.lifted_paths) >= MAX_PATTERNS:
        raise Problem(
            "too_many_patterns", f"A repository has at most {MAX_PATTERNS} unprotected paths."
        )
    changed = msgspec.structs.replace(repo, lifted_paths=(*repo.lifted_paths, pattern))
    await audit.record(tx, owner.id, "repo.path_lifted", full_name, pattern=pattern)
    return await _store(tx, changed)


@audit.in_transaction
async def restore_protection(
    tx: Transaction, organization: str, full_name: str, pattern: str
) -> RepoView:
    """Undo `remove_protection`; the pattern must be exactly one that was passed to it."""
    owner = await find_organization(tx, organization)
    repo = await lock_repo(tx, owner.id, full_name)
    if pattern not in repo.lifted_paths:
        current = ", ".join(repo.lifted_paths) or "none"
        message = f"{pattern!r} is not an unprotected path; the unprotected paths are: {current}."
        raise Problem("not_lifted", message)
    left = tuple(other for other in repo.lifted_paths if other != pattern)
    await audit.record(tx, owner.id, "repo.path_protected", full_name, pattern=pattern)
    return await _store(tx, msgspec.structs.replace(repo, lifted_paths=left))


async def _store(tx: Transaction, repo: RepoView) -> RepoView:
    await tx.execute(
        "UPDATE repos SET lifted_paths = :patterns WHERE id = :id",
        id=repo.id,
        patterns=msgspec.json.encode(repo.lifted_paths).decode(),
    )
    await tx.invalidate("repos")
    patterns = ", ".join(repo.lifted_paths) or "none"
    _log.info("unprotected paths of %s are now: %s", repo.full_name, patterns)
    return repo
