"""Formats trackers as table rows and JSON documents, without tokens."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentjobs.tickets.rows import ConfiguredTracker

TABLE = ("name", "kind", "url", "account", "links back", "state", "checked")


def document(tracker: "ConfiguredTracker") -> dict[str, Any]:
    from agentjobs_runtime.clock import iso_utc, iso_utc_or_none

    return {
        "id": tracker.id,
        "name": tracker.name,
        "kind": tracker.kind,
        "flavour": tracker.flavour,
        "url": tracker.url,
        "account": tracker.account,
        "link_back": tracker.link_back,
        "error": tracker.error,
        "checked_at": iso_utc_or_none(tracker.checked_at),
        "created_at": iso_utc(tracker.created_at),
    }


def line(tracker: "ConfiguredTracker") -> list[Any]:
    checked = document(tracker)["checked_at"]
    state = tracker.error or ("accepted" if checked else "not checked")
    if tracker.kind == "issues":
        state = "uses the connection of each repository"
    return [
        *(tracker.name, tracker.flavour or tracker.kind, tracker.url, tracker.account),
        *(tracker.link_back, state, checked),
    ]
