"""Formats advisories and feeds for commands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from agentjobs.cli.output import escape_line
from agentjobs_runtime.clock import iso_utc, iso_utc_or_none, now_ms

if TYPE_CHECKING:
    from agentjobs.advisories.feeds import Feed
    from agentjobs.advisories.sync import SyncResult
    from agentjobs_dependencies.advisories.model import Advisory


def result_document(result: "SyncResult") -> dict[str, Any]:
    return {
        "ecosystem": result.ecosystem,
        "result": result.kind,
        "changed": result.changed,
        "removed": result.removed,
        "records": result.records,
        "seconds": result.seconds,
        "warnings": result.warnings[:100],
    }


def feed_document(feed: "Feed") -> dict[str, Any]:
    is_running = feed.checked_at is None and feed.due_at > now_ms()
    state = "syncing" if is_running else "failed" if feed.error else "current"
    if state == "current" and feed.synced_at is None:
        state = "waiting"
    return {
        "ecosystem": feed.ecosystem,
        "source": feed.source,
        "state": state,
        "records": feed.records,
        "newest": feed.newest,
        "synced_at": iso_utc_or_none(feed.synced_at),
        "checked_at": iso_utc_or_none(feed.checked_at),
        "next_at": None if is_running or not feed.due_at else iso_utc(feed.due_at),
        "failures": feed.failures,
        "error": feed.error,
        "warnings": feed.warnings,
    }


def advisory_document(advisory: "Advisory", relatives: "Sequence[Advisory]" = ()) -> dict[str, Any]:
    """`relatives` are other records of the vulnerability, which may have its severity."""
    from agentjobs_dependencies.advisories.matching import describe_affected, fixed_versions
    from agentjobs_dependencies.advisories.severity import find_severity

    severity = find_severity(advisory, relatives)
    packages = sorted({(item.ecosystem, item.name) for item in advisory.affected})
    return {
        "id": advisory.id,
        "aliases": advisory.aliases,
        "severity": severity.level,
        "score": severity.score,
        "severity_source": severity.source,
        "summary": advisory.summary,
        "modified": advisory.modified,
        "url": advisory.url,
        "packages": [
            {
                "ecosystem": ecosystem,
                "name": name,
                "affected": describe_affected(advisory, ecosystem, name),
                "fixed": fixed_versions(advisory, ecosystem, name),
            }
            for ecosystem, name in packages
        ],
    }


def cell(value: Any) -> Any:
    if isinstance(value, list):
        names = [f"{package['ecosystem']}/{package['name']}" for package in value]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return ", ".join(value) if isinstance(value, tuple) else escape_line(str(value))


def known_ecosystem(name: str) -> str:
    from agentjobs_runtime.settings.registries import ECOSYSTEMS

    known = {ecosystem.lower(): ecosystem for ecosystem in ECOSYSTEMS}
    if name.lower() not in known:
        raise typer.BadParameter(f"{name!r} is not one of: {', '.join(ECOSYSTEMS)}")
    return known[name.lower()]
