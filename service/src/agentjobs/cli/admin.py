"""Opens the store for an administrative command, whether or not the service is running."""

import asyncio
import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agentjobs.cli.output import print_note

if TYPE_CHECKING:
    from agentjobs.organizations.audit import Actor
    from agentjobs.organizations.organizations import Organization
    from agentjobs.organizations.plans import Plans
    from agentjobs.repos.queries import RepoView
    from agentjobs.store.database import Database
    from agentjobs_runtime.settings import Settings

T = TypeVar("T")

_MAX_NAME_LENGTH = 100


class Admin(NamedTuple):
    """The context of an administrative command."""

    db: "Database"
    settings: "Settings"
    plans: "Plans"

    async def find_organization(self, name: str) -> "Organization":
        from agentjobs.organizations.organizations import find_organization

        return await find_organization(self.db, name)

    async def find_repo(self, org: str, name: str) -> "tuple[str, RepoView]":
        """The ID of the organization, and its repository."""
        from agentjobs.repos.queries import find_repo

        owner = await self.find_organization(org)
        return owner.id, await find_repo(self.db, owner.id, name)


def load_settings(data_dir: Path | None) -> "Settings":
    from agentjobs_runtime.settings import load

    return load(data_dir=None if data_dir is None else str(data_dir))


def with_store(
    data_dir: Path | None, work: Callable[[Admin], Awaitable[T]], *, migrate: bool = False
) -> T:
    """An old schema is refused, unless `migrate` is set: only `agentjobs migrate` sets it."""
    return asyncio.run(_with_store(load_settings(data_dir), work, migrate))


async def _with_store(
    settings: "Settings", work: Callable[[Admin], Awaitable[T]], migrate: bool
) -> T:
    from agentjobs.organizations.audit import acting_as
    from agentjobs.organizations.organizations import ensure_default
    from agentjobs.organizations.plans import Plans
    from agentjobs.store.opening import open_database
    from agentjobs_runtime.settings import prepare_data_directory

    plans = Plans(settings.plans)
    is_new = not settings.database_url and not settings.database_file.exists()
    if not settings.database_url:
        # The data directory holds the database, so only its owner may read it.
        prepare_data_directory(settings)
    db = await open_database(
        settings.effective_database_url,
        migrate=migrate,
        convert=migrate,
        create=settings.auto_migrate,
        direct_url=settings.database_direct_url,
    )
    if is_new:
        # A mistyped --data-dir would otherwise look like lost data.
        print_note(f"Created a new store in {settings.data_dir}")
    try:
        # Keys can be created before the service first starts.
        await ensure_default(db, plans)
        with acting_as(operator()):
            return await work(Admin(db, settings, plans))
    finally:
        await db.close()


def operator() -> "Actor":
    """The user who runs the command, for the audit log only."""
    from agentjobs.organizations.audit import Actor

    return Actor(
        "operator", _login_name(), address=_printable(socket.gethostname()) or "unknown host"
    )


def _login_name() -> str:
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        name = ""
    return _printable(name) or f"uid {os.getuid()}"


def _printable(text: str) -> str:
    """The empty string if the text is not printable."""
    return text[:_MAX_NAME_LENGTH] if text.isprintable() else ""
