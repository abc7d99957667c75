"""Connecting repositories by https for tenants: fetched through the guard, in the background.

Owns the tasks and their bounds. What is told of them is in `import_rows`; a credential is in the
memory of its task and nowhere else.
"""

import asyncio
import contextlib
import logging
import shutil
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from agentjobs.clock import now_ms
from agentjobs.git.process import GitError
from agentjobs.git.remote import Remote
from agentjobs.identifiers import new_id
from agentjobs.local_git import repositories
from agentjobs.local_git.fetch_errors import unreadable
from agentjobs.local_git.repositories import ImportedRepository
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization
from agentjobs.outbound.egress.tunnel import open_tunnel
from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.outbound.guard.resolver import LookUp, system_addresses
from agentjobs.problems import Problem
from agentjobs.repos.connect import NewRepo, insert_repository
from agentjobs.repos.imports import rows
from agentjobs.repos.imports.fetch import fetch_watched
from agentjobs.repos.imports.progress import Pace
from agentjobs.repos.imports.rows import ImportView
from agentjobs.repos.imports.source import ImportSource, authorization, checked_source
from agentjobs.repos.names import checked_name, name_from
from agentjobs.settings import Settings, SettingsError
from agentjobs.store.database import Database, IntegrityError, StoreError, Transaction

MAX_BYTES = 10 * 2**30
MAX_AT_ONCE = 4
_STORE_AGAIN_SECONDS = 5.0
_OWN_FAULT = "Something failed inside the service; try again, or tell the operator."
_log = logging.getLogger(__name__)


class _Order(msgspec.Struct, frozen=True):
    import_id: str
    organization_id: str
    full_name: str
    source: ImportSource
    entry: audit.Entry

    @property
    def repo_id(self) -> str:
        return _repo_id(self.import_id)


class Imports:
    """One for a process; `recover` before the first `start`, `close` before the store's end.

    `certificates` is a file with all authorities git shall trust; None: the system's.
    Raises SettingsError.
    """

    def __init__(
        self,
        db: Database,
        settings: Settings,
        certificates: Path | None = None,
        *,
        most_bytes: int = MAX_BYTES,
        look_up: LookUp = system_addresses,
        new_pace: Callable[[], Pace] = Pace,
    ) -> None:
        self._db = db
        self._data_path = settings.data_path
        self._allowed = _allowed(settings)
        self._certificates = certificates
        self._most_bytes = most_bytes
        self._look_up = look_up
        self._new_pace = new_pace
        self._is_open = True
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starting = asyncio.Lock()
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        # An organization's imports follow each other, so that none takes all places.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def start(
        self,
        organization: Organization,
        address: str,
        *,
        name: str | None = None,
        user: str = "",
        token: str = "",
    ) -> ImportView:
        """Raises Problem for what can be known at once; the rest is told by the import's row."""
        source = checked_source(address)
        header = authorization(user, token)
        full_name = checked_name(name) if name else name_from(source.url, organization.name)
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
        order = _Order(view.id, organization.id, full_name, source, entry)
        # On PostgreSQL two could pass the check for a free name side by side.
        async with self._starting:
            if not self._is_open:
                raise Problem("unavailable", "The service is stopping; try again in a minute.")
            await self._db.transact(rows.insert, organization.id, view)
            task = asyncio.create_task(self._run(order, header), name=view.id)
            self._tasks[view.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(view.id))
        return view

    async def cancel(self, organization_id: str, import_id: str) -> str:
        """The full name of what is not connected now, of which nothing is left.

        Raises Problem unless it runs.
        """
        # From here on it cannot be connected any more, however far it is.
        full_name = await self._db.transact(rows.cancel, organization_id, import_id)
        task = self._tasks.get(import_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await asyncio.to_thread(_remove, self._data_path, _repo_id(import_id))
        await self._db.transact(rows.forget, organization_id, import_id)
        return full_name

    async def recover(self) -> None:
        """What a killed service left: told as failed, its files removed."""
        await self._db.transact(rows.fail_all_running)
        for import_id in await rows.failed_imports(self._db):
            await asyncio.to_thread(_remove, self._data_path, _repo_id(import_id))

    async def close(self) -> None:
        """What is under way ends at once and is told as failed."""
        async with self._starting:
            self._is_open = False
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            await self.recover()
        except StoreError as error:
            _log.warning("imports that were stopped are told at the next start: %s", error)

    async def _run(self, order: _Order, header: str | None) -> None:
        try:
            async with self._turns[order.organization_id], self._places:
                await self._import(order, header)
        except Problem as problem:
            await self._fail(order, problem.message)
        except GitError as error:
            await self._fail(order, unreadable(order.source.url, error).message)
        except Exception:  # noqa: BLE001 - nobody else would hear of it
            _log.exception("the import %s failed", order.import_id)
            await self._fail(order, _OWN_FAULT)

    async def _import(self, order: _Order, header: str | None) -> None:
        source = order.source
        directory = repositories.path(self._data_path, order.repo_id)
        async with open_tunnel(
            source.host,
            source.port,
            self._allowed,
            most_bytes=self._most_bytes,
            look_up=self._look_up,
        ) as (tunnel, proxy):
            remote = Remote(source.url, header, proxy, self._certificates)
            imported = await fetch_watched(
                remote, directory, tunnel, self._new_pace(), partial(self._tell, order)
            )
        try:
            await self._db.transact(_connect, order, imported)
        except IntegrityError:
            raise rows.name_taken(order.full_name) from None

    async def _tell(self, order: _Order, words: str) -> None:
        # The next words are told all the same.
        with contextlib.suppress(StoreError):
            await self._db.transact(rows.note, order.import_id, words, "running")

    async def _fail(self, order: _Order, message: str) -> None:
        while True:
            try:
                await self._clean_up(order, message)
            except StoreError as error:
                _log.warning("the failure of %s is not written yet: %s", order.import_id, error)
                await asyncio.sleep(_STORE_AGAIN_SECONDS)
            else:
                return

    async def _clean_up(self, order: _Order, message: str) -> None:
        # The store may have connected it in the very moment in which it was lost.
        if await rows.is_running(self._db, order.import_id):
            # The files first: once the row has failed, nobody looks for them any more.
            await asyncio.to_thread(_remove, self._data_path, order.repo_id)
            await self._db.transact(rows.note, order.import_id, message, "failed")


async def _connect(tx: Transaction, order: _Order, imported: ImportedRepository) -> None:
    if not await rows.end(tx, order.organization_id, order.import_id):
        raise Problem("import_not_found", rows.STOPPED)
    repo = NewRepo(
        id=order.repo_id,
        organization_id=order.organization_id,
        full_name=order.full_name,
        source=order.source.url,
        default_branch=imported.default_branch,
        head_commit=imported.head_commit,
    )
    await insert_repository(tx, repo, order.entry)


def _allowed(settings: Settings) -> Allowed:
    try:
        return Allowed.parse(settings.egress_allow)
    except ValueError as error:
        raise SettingsError(f"AGENTJOBS_EGRESS_ALLOW: {error}") from None


def _repo_id(import_id: str) -> str:
    """Known from the start, so that whoever finds the row finds the files."""
    return f"repo_{import_id.removeprefix('imp_')}"


def _remove(data_path: Path, repo_id: str) -> None:
    target = repositories.path(data_path, repo_id)
    for directory in (target, repositories.incoming_path(target)):
        shutil.rmtree(directory, ignore_errors=True)
