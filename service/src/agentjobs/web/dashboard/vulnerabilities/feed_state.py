"""Whether advisories are configured and how recent they are, without the operator's paths."""

from collections.abc import Sequence

import msgspec

from agentjobs.advisories.feeds import Feed, list_feeds
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.settings import Settings

SETTING = "AGENTJOBS_ADVISORIES_SOURCE"


class FeedState(msgspec.Struct, frozen=True):
    """`synced_at` is the oldest complete sync of any feed; None if one never completed."""

    is_configured: bool
    setting: str
    feeds: tuple[Feed, ...]
    records: int
    synced_at: int | None
    failed: tuple[Feed, ...]


async def has_advisories(request: PageRequest) -> bool:
    """Whether dependencies are matched against advisories at all."""
    return bool(request.settings.advisories_source or await list_feeds(request.db))


def feed_state(settings: Settings, feeds: Sequence[Feed]) -> FeedState:
    synced = [feed.synced_at for feed in feeds]
    known = [at for at in synced if at is not None]
    return FeedState(
        # Feeds exist even if only another process has the setting.
        is_configured=bool(settings.advisories_source or feeds),
        setting=SETTING,
        feeds=tuple(feeds),
        records=sum(feed.records for feed in feeds),
        synced_at=min(known) if known and len(known) == len(synced) else None,
        failed=tuple(feed for feed in feeds if feed.error),
    )
