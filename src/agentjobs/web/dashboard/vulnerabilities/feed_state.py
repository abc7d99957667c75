"""Whether advisories are known at all, and how fresh they are: what a page says of the feeds.

Tells neither the operator's paths nor addresses.
"""

from collections.abc import Sequence

import msgspec

from agentjobs.advisories.feeds import Feed, list_feeds
from agentjobs.settings import Settings
from agentjobs.web.dashboard.request_context import PageRequest

SETTING = "AGENTJOBS_ADVISORIES_SOURCE"


class FeedState(msgspec.Struct, frozen=True):
    """`synced_at` is when the one that is behind most was complete; None: one never was yet."""

    is_configured: bool
    setting: str
    feeds: tuple[Feed, ...]
    records: int
    synced_at: int | None
    failed: tuple[Feed, ...]


async def is_looked_for(request: PageRequest) -> bool:
    """Whether anything is held against advisories: no finding means something only then."""
    return bool(request.settings.advisories_source or await list_feeds(request.db))


def feed_state(settings: Settings, feeds: Sequence[Feed]) -> FeedState:
    synced = [feed.synced_at for feed in feeds]
    known = [at for at in synced if at is not None]
    return FeedState(
        # Where only workers are told of a source, its feeds are there all the same.
        is_configured=bool(settings.advisories_source or feeds),
        setting=SETTING,
        feeds=tuple(feeds),
        records=sum(feed.records for feed in feeds),
        synced_at=min(known) if known and len(known) == len(synced) else None,
        failed=tuple(feed for feed in feeds if feed.error),
    )
