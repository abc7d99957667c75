"""Sources of advisories: a directory, a zip or a URL, in the layout of OSV's bucket."""

from pathlib import Path

import aiohttp
from yarl import URL

from agentjobs.advisories.sources.remote import RemoteSource
from agentjobs_dependencies.advisories.sources.local import LocalSource
from agentjobs_dependencies.advisories.sources.source import Source


def open_source(source: str, session: aiohttp.ClientSession, work_dir: Path) -> Source:
    """Does not access the source yet. `work_dir` is for temporary downloads."""
    if "://" in source:
        return RemoteSource(source, session, work_dir)
    return LocalSource(Path(source).expanduser(), work_dir)


def redact_source(source: str) -> str:
    """The source without the credentials of a URL."""
    return str(URL(source).with_user(None)) if "://" in source else source
