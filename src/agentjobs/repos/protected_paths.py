"""Lifting the service's own protection from paths of one repository: an administrator's decision.

The repository's protected_paths are its own and stay; `.agentjobs.toml` is where they are changed.
"""

import logging
from collections.abc import Callable

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.problems import Problem
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.store.database import Database, Transaction
from agentjobs.workspace.patterns import Pattern

MAX_LIFTED = 100

_log = logging.getLogger(__name__)

Patterns = tuple[str, ...]


async def lift(db: Database, organization: str, full_name: str, pattern: str) -> RepoView:
    """Doing it twice is doing it once."""
    try:
        Pattern.parse(pattern)
    except ValueError as error:
        raise Problem("invalid_pattern", f"{error}.") from None
    entry = audit.entry("repo.path_lifted", full_name, pattern=pattern)
    return await _change(db, organization, full_name, lambda lifted: _with(lifted, pattern), entry)


async def protect(db: Database, organization: str, full_name: str, pattern: str) -> RepoView:
    """Undo a lift; the pattern must be one that was lifted, word for word."""
    entry = audit.entry("repo.path_protected", full_name, pattern=pattern)
    return await _change(
        db, organization, full_name, lambda lifted: _without(lifted, pattern), entry
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
    lifted = await db.transact(_store, owner.id, repo.id, change, entry)
    _log.info("lifted paths of %s are now: %s", full_name, ", ".join(lifted) or "none")
    return msgspec.structs.replace(repo, lifted_paths=lifted)


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
    lifted = change(before)
    if lifted == before:
        return lifted
    await tx.execute(
        "UPDATE repos SET lifted_paths = :lifted WHERE id = :id",
        id=repo_id,
        lifted=msgspec.json.encode(lifted).decode(),
    )
    await audit.write(tx, organization_id, entry)
    await tx.invalidate("repos")
    return lifted


def _with(lifted: Patterns, pattern: str) -> Patterns:
    if pattern in lifted:
        return lifted
    if len(lifted) >= MAX_LIFTED:
        raise Problem("too_many_patterns", f"A repository has at most {MAX_LIFTED} lifted paths.")
    return (*lifted, pattern)


def _without(lifted: Patterns, pattern: str) -> Patterns:
    if pattern not in lifted:
        known = ", ".join(lifted) or "none"
        message = f"{pattern!r} was not lifted; lifted are: {known}."
        raise Problem("not_lifted", message)
    return tuple(one for one in lifted if one != pattern)
