"""Imports tenants' repositories over https, through the outbound guard, in background tasks.

Owns the tasks and their limits. `rows` stores their state. A credential exists only in the memory
of its task.
"""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agentjobs.fleet.repositories_directory import RepositoriesDirectory
from agentjobs.local_git import repositories
from agentjobs.local_git.fetch_errors import fetch_problem
from agentjobs.local_git.repositories import ImportedRepository, remove_repository
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization
from agentjobs.repos.connect import NewRepo, insert_repository
from agentjobs.repos.disk_quota import RepositoryQuota
from agentjobs.repos.imports import rows
from agentjobs.repos.imports.rows import ImportView
from agentjobs.repos.imports.source import ImportSource, authorization, parse_source
from agentjobs.repos.names import derive_name, name_taken, validate_name
from agentjobs.store.database import (
    Database,
    IntegrityError,
    StoreError,
    Transaction,
)
from agentjobs.store.leases import run_renewing
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.fair_slots import FairSlots
from agentjobs_runtime.free_space import MIB, FreeSpace
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.outbound.egress.tunnel import Tunnel, open_tunnel
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import Lookup, system_lookup
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.settings import Settings, SettingsError

MAX_BYTES = 10 * 2**30
MAX_AT_ONCE = 4
# Slow servers would otherwise keep other organizations waiting until the timeout of an hour.
_MAX_SLOT_SECONDS = 600.0
# How soon an import stops that another process cancelled, and how often its progress is stored.
_RENEW_SECONDS = 3.0
# A server that trickles bytes would occupy a slot forever.
_MIN_RATE = {"http.lowSpeedLimit": "1024", "http.lowSpeedTime": "60"}
_INTERNAL_ERROR = "An internal error occurred; try again, or contact the operator."
_log = logging.getLogger(__name__)


@dataclass
class _Import:
    import_id: str
    organization_id: str
    full_name: str
    source: ImportSource
    entry: audit.Entry
    # Once it has a slot.
    tunnel: Tunnel | None = None

    @property
    def repo_id(self) -> str:
        return _repo_id(self.import_id)

    @property
    def progress(self) -> str:
        if self.tunnel is None:
            return rows.WAITING
        received = self.tunnel.received_bytes
        return f"{received / MIB:.1f} MiB received" if received else "Waiting for the server"


class Imports:
    """One per process. One process of the fleet calls `recover` regularly. Call `close` before
    closing the store.

    `certificates` is a file with the CA certificates git trusts; None uses the system's.
    Raises SettingsError.
    """

    def __init__(
        self,
        db: Database,
        settings: Settings,
        repositories: RepositoriesDirectory,
        quota: RepositoryQuota,
        certificates: Path | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._db = db
        self._repositories = repositories
        self._quota = quota
        self._root = settings.repositories_path
        self._free_space = FreeSpace(settings.repositories_path, settings.disk_floor_mib)
        self._allowed = _parse_allowed(settings)
        self._certificates = certificates
        self._max_bytes = max_bytes
        self._lookup = lookup
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = FairSlots(MAX_AT_ONCE, per_organization=1, max_seconds=_MAX_SLOT_SECONDS)

    async def start(
        self,
        organization: Organization,
        address: str,
        *,
        name: str | None = None,
        user: str = "",
        token: str = "",
    ) -> ImportView:
        """Raises Problem for errors known immediately; the import's row reports later ones."""
        self._repositories.require()
        self._free_space.check()
        await self._quota.check(organization.id)
        source = parse_source(address)
        header = authorization(user, token)
        full_name = validate_name(name) if name else derive_name(source.url, organization.name)
        now = now_ms()
        view = ImportView(
            id=new_id("imp"),
            full_name=full_name,
            source=source.url,
            state="running",
            message=rows.WAITING,
            started_by=audit.current_actor().name,
            created_at=now,
            updated_at=now,
        )
        entry = audit.entry("repo.connected", full_name, source=source.url)
        request = _Import(view.id, organization.id, full_name, source, entry)
        await self._db.transact(rows.insert, organization.id, view)
        task = asyncio.create_task(self._run(request, header), name=view.id)
        self._tasks[view.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(view.id))
        return view

    async def cancel(self, organization_id: str, import_id: str) -> str:
        """Cancel a running import, remove its files and return its full name.

        Raises Problem unless it is running.
        """
        # After this commit, the import can no longer connect its repository.
        full_name = await self._db.transact(rows.cancel, organization_id, import_id)
        task = self._tasks.get(import_id)
        if task is None:
            # The process that runs it notices soon, and removes the files and the row.
            return full_name
        task.cancel()
        await asyncio.wait([task])
        await self._remove_cancelled(organization_id, import_id)
        return full_name

    async def recover(self) -> None:
        """Mark imports whose process was killed as failed, and remove their files."""

        def may_judge() -> bool:
            return self._db.contact.has_lasted(rows.LEASE_MS)

        for import_id in await self._db.transact(rows.fail_abandoned, may_judge):
            await asyncio.to_thread(remove_repository, self._root, _repo_id(import_id))
            await self._db.transact(rows.clear_lease, import_id)

    async def close(self) -> None:
        """Stop running imports and mark them as failed."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, request: _Import, header: str | None) -> None:
        import_id = request.import_id
        try:
            await run_renewing(
                self._wait_and_import(request, header),
                partial(self._renew, request),
                _RENEW_SECONDS,
                # No other process takes over an import.
                lease_ms=DAY_MS,
            )
        except ClaimLost:
            await self._remove_cancelled(request.organization_id, import_id)
        except asyncio.CancelledError:
            await self._fail(request, rows.STOPPED)
            raise
        except Problem as problem:
            await self._fail(request, problem.message)
        except GitError as error:
            await self._fail(request, fetch_problem(request.source.url, error).message)
        except Exception:  # noqa: BLE001 - the task has no other observer
            _log.exception("import %s failed", request.import_id)
            await self._fail(request, _INTERNAL_ERROR)

    async def _renew(self, request: _Import) -> bool:
        return await self._db.transact(rows.renew, request.import_id, request.progress)

    async def _wait_and_import(self, request: _Import, header: str | None) -> None:
        async with self._slots.hold(request.organization_id):
            await self._import(request, header)

    async def _remove_cancelled(self, organization_id: str, import_id: str) -> None:
        # Without a row, its repository is connected.
        if await rows.find_state(self._db, import_id) == "failed":
            await asyncio.to_thread(remove_repository, self._root, _repo_id(import_id))
            await self._db.transact(rows.delete_failed, organization_id, import_id)

    async def _import(self, request: _Import, header: str | None) -> None:
        source = request.source
        directory = repositories.path(self._root, request.repo_id)
        left_bytes = await self._quota.check(request.organization_id)
        async with open_tunnel(
            source.host,
            source.port,
            self._allowed,
            max_bytes=min(self._max_bytes, left_bytes),
            lookup=self._lookup,
        ) as (tunnel, proxy):
            request.tunnel = tunnel
            remote = Remote(source.url, header, proxy, self._certificates)
            try:
                imported = await repositories.import_from(
                    remote, directory, protocols="https", configuration=_MIN_RATE
                )
            except (Problem, GitError):
                if tunnel.refusal is not None:
                    raise Problem("address_refused", tunnel.refusal) from None
                raise
        self._quota.add(request.organization_id, tunnel.received_bytes)
        try:
            await self._db.transact(_connect, request, imported)
        except IntegrityError:
            raise name_taken(request.full_name) from None

    async def _fail(self, request: _Import, message: str) -> None:
        """If the store is away, the import counts as stopped once its lease has ended."""
        try:
            # False if the repository is connected by now, or the import was cancelled.
            if await self._db.transact(rows.fail, request.import_id, message):
                await asyncio.to_thread(remove_repository, self._root, request.repo_id)
        except StoreError as error:
            _log.warning("the failure of %s was not stored: %s", request.import_id, error)


async def _connect(tx: Transaction, request: _Import, imported: ImportedRepository) -> None:
    if not await rows.complete(tx, request.organization_id, request.import_id):
        raise Problem("import_not_found", rows.STOPPED)
    repo = NewRepo(
        id=request.repo_id,
        organization_id=request.organization_id,
        full_name=request.full_name,
        source=request.source.url,
        default_branch=imported.default_branch,
        head_commit=imported.head_commit,
    )
    await insert_repository(tx, repo, request.entry)


def _parse_allowed(settings: Settings) -> AllowList:
    try:
        return AllowList.parse(settings.egress_allow)
    except ValueError as error:
        raise SettingsError(f"AGENTJOBS_EGRESS_ALLOW: {error}") from None


def _repo_id(import_id: str) -> str:
    """Derived from the import's id, so that the row leads to the files."""
    return f"repo_{import_id.removeprefix('imp_')}"
