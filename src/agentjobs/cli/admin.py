"""Opens the store for one administrative command, beside a running service or without one."""

import asyncio
import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agentjobs.cli.output import remark

if TYPE_CHECKING:
    from agentjobs.organizations.audit import Actor
    from agentjobs.organizations.plans import Plans
    from agentjobs.settings import Settings
    from agentjobs.store.database import Database

T = TypeVar("T")

_MOST_NAME_LENGTH = 100


class Admin(NamedTuple):
    """What an administrative command works with."""

    db: "Database"
    settings: "Settings"
    plans: "Plans"


def load_settings(data_dir: Path | None) -> "Settings":
    from agentjobs.settings import load

    return load(data_dir=None if data_dir is None else str(data_dir))


def with_store(data_dir: Path | None, work: Callable[[Admin], Awaitable[T]]) -> T:
    return asyncio.run(_with_store(load_settings(data_dir), work))


async def _with_store(settings: "Settings", work: Callable[[Admin], Awaitable[T]]) -> T:
    from agentjobs.organizations.audit import acting_as
    from agentjobs.organizations.organizations import ensure_default
    from agentjobs.organizations.plans import Plans
    from agentjobs.store.opening import open_database

    plans = Plans(settings.plans)
    is_new = not settings.database_url and not (settings.data_path / "agentjobs.db").exists()
    if not settings.database_url:
        # The database lies in the data directory; nobody else may read what is kept there.
        settings.data_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    db = await open_database(settings.effective_database_url, migrate=True)
    if is_new:
        # Said, because a mistyped --data-dir looks like a service that lost everything.
        remark(f"Made a new store in {settings.data_dir}")
    try:
        # So that a key can be made before the service was ever started.
        await ensure_default(db, plans)
        with acting_as(operator()):
            return await work(Admin(db, settings, plans))
    finally:
        await db.close()


def operator() -> "Actor":
    """Who typed the command, as far as this machine knows: for the audit log, not for a check."""
    from agentjobs.organizations.audit import Actor

    return Actor("operator", _login_name(), address=_plain(socket.gethostname()) or "unknown host")


def _login_name() -> str:
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        # A container's user need have no name.
        name = ""
    return _plain(name) or f"uid {os.getuid()}"


def _plain(text: str) -> str:
    """Nothing, if it is what no store or page would take."""
    return text[:_MOST_NAME_LENGTH] if text.isprintable() else ""
