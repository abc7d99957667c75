"""Synchronizes advisory feeds that are due, one at a time."""

import logging
from pathlib import Path

import aiohttp

from agentjobs.advisories.feeds import Feed, claim_feed
from agentjobs.advisories.sources import open_source
from agentjobs.advisories.sync import configure_feeds, sync_claimed
from agentjobs.store.database import Database
from agentjobs_dependencies.advisories.sources.source import Source, SourceError
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.settings import Settings

_log = logging.getLogger(__name__)
_POLL_SECONDS = 60.0


class AdvisoryLoop:
    name = "advisories"

    def __init__(self, db: Database, settings: Settings, session: aiohttp.ClientSession) -> None:
        self._db = db
        self._settings = settings
        self._session = session

    async def run(self) -> None:
        """Returns immediately if no source is configured."""
        if not self._settings.advisories_source:
            return
        source = open_source(
            self._settings.advisories_source, self._session, Path(self._settings.data_dir)
        )
        await configure_feeds(self._db, self._settings.advisories_ecosystems, source.name)
        with self._db.changes.listen("advisories") as signal:
            while True:
                if not await self.sync_one(source):
                    await signal.wait(_POLL_SECONDS)

    async def sync_one(self, source: Source) -> bool:
        """False if no feed was due."""
        feed = await claim_feed(self._db, self._settings.advisories_ecosystems)
        if feed is None:
            return False
        await self._sync(feed, source)
        return True

    async def _sync(self, feed: Feed, source: Source) -> None:
        fields = {"ecosystem": feed.ecosystem}
        try:
            result = await sync_claimed(
                self._db, feed, source, self._settings.advisories_refresh_hours
            )
        except SourceError as error:
            _log.warning("advisories not refreshed: %s", error, extra={"fields": fields})
            return
        except ClaimLost:
            _log.warning("advisories are refreshed by another process", extra={"fields": fields})
            return
        for warning in result.warnings[:3] if result.kind != "unchanged" else ():
            _log.warning("%s: %s", warning.path, warning.reason, extra={"fields": fields})
        counts = {"changed": result.changed, "removed": result.removed, "records": result.records}
        _log.info("advisories refreshed", extra={"fields": {**fields, **counts}})
