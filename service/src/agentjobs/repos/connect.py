"""Connects a repository: imports its objects and refs, and makes it due for indexing."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from agentjobs.fleet.repositories_directory import RepositoriesDirectory
from agentjobs.local_git import repositories
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization, find_organization
from agentjobs.repos.hook_rows import request_removal
from agentjobs.repos.names import derive_name, name_taken, validate_name
from agentjobs.repos.queries import RepoView, find_repo, lock_repo
from agentjobs.repos.queues import remove_requests, request_index
from agentjobs.store.database import Database, IntegrityError, StoreError, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.git.remote import strip_credentials
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.messages import DISCONNECTED_TOPIC
from agentjobs_runtime.settings import Settings

InSameTransaction = Callable[[Transaction, str], Awaitable[None]]


class NewRepo(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    full_name: str
    source: str
    default_branch: str
    head_commit: str


async def connect_repository(
    db: Database,
    settings: Settings,
    organization: str,
    source: str,
    name: str | None = None,
    *,
    certificates: Path | None = None,
) -> RepoView:
    """`source` is a path (operators only) or an http(s) URL.

    `certificates` is a file with the CAs that git trusts; None means the system's.
    """
    if not source.strip():
        raise Problem("invalid_source", "Enter a path or an http(s) URL to connect.")
    owner = await find_organization(db, organization)
    full_name = validate_name(name) if name else derive_name(source, organization)
    await _check_name_is_free(db, owner, full_name)
    await RepositoriesDirectory(db, settings).check_for_operator()
    repo_id = new_id("repo")
    directory = repositories.path(settings.repositories_path, repo_id)
    imported = await repositories.import_repository(source, directory, certificates)
    repo = NewRepo(
        id=repo_id,
        organization_id=owner.id,
        full_name=full_name,
        source=strip_credentials(source),
        default_branch=imported.default_branch,
        head_commit=imported.head_commit,
    )
    try:
        await db.transact(insert_repository, repo, audit.entry("repo.connected", full_name))
    except StoreError as error:
        # Not on cancellation: the row may have been committed, and then needs its directory.
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        if isinstance(error, IntegrityError):
            raise name_taken(full_name) from None
        raise
    return await find_repo(db, owner.id, full_name)


@audit.in_transaction
async def disconnect_repository(
    tx: Transaction, organization: str, full_name: str, *, also: InSameTransaction
) -> RepoView:
    """Keeps the jobs, pull requests and bare repository; new jobs are rejected."""
    owner = await find_organization(tx, organization)
    repo = await lock_repo(tx, owner.id, full_name)
    await tx.execute(
        "UPDATE repos SET disconnected_at = :now WHERE id = :id", id=repo.id, now=now_ms()
    )
    await remove_requests(tx, "r.id = :repo_id", repo_id=repo.id)
    await request_removal(tx, [repo.id])
    await also(tx, repo.id)
    await audit.record(tx, owner.id, "repo.disconnected", full_name)
    await tx.invalidate("repos")
    tx.announce(DISCONNECTED_TOPIC)
    return repo


async def _check_name_is_free(db: Database, owner: Organization, full_name: str) -> None:
    try:
        await find_repo(db, owner.id, full_name)
    except Problem:
        return
    raise name_taken(full_name)


async def insert_repository(tx: Transaction, repo: NewRepo, entry: audit.Entry) -> None:
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at) VALUES (:id, :organization_id, :full_name, 'local', :source,"
        " :default_branch, :head_commit, :now)",
        **msgspec.structs.asdict(repo),
        now=await tx.clock_ms(),
    )
    await request_index(tx, repo.id)
    await audit.write(tx, repo.organization_id, entry)
    await tx.invalidate("repos")


async def disconnect_all(tx: Transaction, organization_id: str) -> None:
    """Disconnects the repositories of a deleted organization: no sync or index starts any more."""
    await tx.execute(
        "UPDATE repos SET disconnected_at = COALESCE(disconnected_at, :now)"
        " WHERE organization_id = :organization_id",
        organization_id=organization_id,
        now=await tx.clock_ms(),
    )
    await remove_requests(
        tx, "r.organization_id = :organization_id", organization_id=organization_id
    )
    await tx.invalidate("repos")
    tx.announce(DISCONNECTED_TOPIC)
