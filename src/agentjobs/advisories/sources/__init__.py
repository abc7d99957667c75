"""Where advisories come from: a directory, a zip or an address, in the layout of OSV's bucket."""

from pathlib import Path

import aiohttp
from yarl import URL

from agentjobs.advisories.sources.local import LocalSource
from agentjobs.advisories.sources.remote import RemoteSource
from agentjobs.advisories.sources.source import Source


def open_source(source: str, session: aiohttp.ClientSession, work_dir: Path) -> Source:
    """Touches nothing yet. `work_dir` is where a download may take room while it is read."""
    if "://" in source:
        return RemoteSource(source, session, work_dir)
    return LocalSource(Path(source).expanduser(), work_dir)


def redact_source(source: str) -> str:
    """As it may be shown: without the credentials of an address."""
    return str(URL(source).with_user(None)) if "://" in source else source
