"""`agentjobs advisories`: known vulnerabilities and the state of their feeds."""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, load_settings, with_store
from agentjobs.cli.advisories.text import (
    advisory_document,
    cell,
    feed_document,
    known_ecosystem,
    result_document,
)
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import Table, escape_line, print_answer, print_note
from agentjobs.cli.store_command import Work, store_command

if TYPE_CHECKING:
    from agentjobs_dependencies.advisories.sources.source import Source

advisories = typer.Typer(
    no_args_is_help=True, help="Manage advisories about vulnerabilities (OSV)."
)

HOW_TO_CONFIGURE = (
    "No source of advisories is configured, so dependencies are not scanned. Set "
    "AGENTJOBS_ADVISORIES_SOURCE to a directory, a zip or a URL in the layout of OSV's bucket "
    "(the public one is https://osv-vulnerabilities.storage.googleapis.com)."
)
_MAX_WARNINGS = 5
_MAX_LIMIT = 1_000
_BUSY_SECONDS = 0.5
_PROGRESS_SECONDS = 2.0


@advisories.command("sync")
def sync_advisories(data_dir: DataDir = None, json: Json = False) -> None:
    """Synchronize all feeds now; exits with 1 if a feed could not be refreshed."""
    settings = load_settings(data_dir)
    if not settings.advisories_source:
        from agentjobs_runtime.problems import Problem

        raise Problem("no_source", HOW_TO_CONFIGURE)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from agentjobs.advisories.sources import open_source
        from agentjobs.advisories.sync import configure_feeds
        from agentjobs.app.outbound_setup import open_session

        async with open_session(settings) as session:
            source = open_source(settings.advisories_source, session, settings.data_path)
            ecosystems = settings.advisories_ecosystems
            await configure_feeds(admin.db, ecosystems, source.name)
            return [await _sync(admin, source, ecosystem) for ecosystem in ecosystems]

    results = with_store(data_dir, work)
    columns = ("ecosystem", "result", "changed", "removed", "records")
    rows = [[feed.get(name) for name in columns] for feed in results]
    print_answer(Table({"feeds": results}, columns, rows), json=json)
    if any(feed["result"] == "failed" for feed in results):
        raise typer.Exit(1)
    if not any(feed["records"] for feed in results):
        from agentjobs.advisories.sources import redact_source

        source = redact_source(settings.advisories_source)
        print_note(f"{source} has no records for: {', '.join(settings.advisories_ecosystems)}.")
        raise typer.Exit(1)


@advisories.command("status")
@store_command
async def show_status(admin: Admin) -> Table:
    """Show the state of each ecosystem's feed."""
    from agentjobs.advisories.feeds import list_feeds
    from agentjobs.advisories.sources import redact_source

    feeds = await list_feeds(admin.db)
    documents = [feed_document(feed) for feed in feeds]
    source = redact_source(admin.settings.advisories_source)
    columns = ("ecosystem", "records", "state", "synced_at", "next_at", "error")
    return Table(
        {"source": source or None, "feeds": documents},
        columns,
        [[feed[name] for name in columns] for feed in documents],
        [note for feed in feeds for note in _warning_notes(feed.ecosystem, feed.warnings)],
        [] if source else [HOW_TO_CONFIGURE],
    )


@advisories.command("search")
@store_command
def search_advisories(
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="An id, an alias, a package, or text of the summary."),
    ],
    ecosystem: Annotated[
        str | None,
        typer.Option("--ecosystem", metavar="NAME", help="Only this ecosystem, such as PyPI."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=_MAX_LIMIT, help="Maximum number of results.")
    ] = 100,
) -> Work:
    """Search the stored advisories."""
    if ecosystem is not None:
        ecosystem = known_ecosystem(ecosystem)
    if not text.strip():
        raise typer.BadParameter("enter text to search for")

    async def work(admin: Admin) -> Table:
        from agentjobs.advisories.rows import load_relatives, search

        # One more than shown, to know whether there are more.
        records = await search(admin.db, text, ecosystem=ecosystem, limit=limit + 1)
        relatives = await load_relatives(admin.db, records)
        documents = [advisory_document(record, relatives[record.id]) for record in records[:limit]]
        remarks = []
        if len(records) > limit:
            hint = f"add `--limit {min(2 * limit, _MAX_LIMIT)}`, or " if limit < _MAX_LIMIT else ""
            remarks.append(f"There are more results: {hint}use a more specific search.")
        if not documents and not admin.settings.advisories_source:
            remarks.append(HOW_TO_CONFIGURE)
        columns = ("id", "severity", "packages", "aliases", "summary")
        rows = [[cell(document[name]) for name in columns] for document in documents]
        return Table({"advisories": documents}, columns, rows, remarks=remarks)

    return work


async def _sync(admin: Admin, source: "Source", ecosystem: str) -> dict[str, Any]:
    import asyncio

    from agentjobs.advisories.feeds import claim_feed
    from agentjobs.advisories.sync import sync_claimed
    from agentjobs_dependencies.advisories.sources.source import SourceError
    from agentjobs_runtime.protocol.errors import ClaimLost

    has_reported = False
    while (feed := await claim_feed(admin.db, [ecosystem], even_if_not_due=True)) is None:
        if not has_reported:
            print_note(f"{ecosystem}: waiting for a running service to finish")
            has_reported = True
        await asyncio.sleep(_BUSY_SECONDS)
    progress = _Progress(ecosystem)
    hours = admin.settings.advisories_refresh_hours
    try:
        result = await sync_claimed(admin.db, feed, source, hours, progress.report)
    except (SourceError, ClaimLost) as error:
        reason = escape_line(str(error))
        print_note(f"{ecosystem}: not refreshed: {reason}")
        return {
            "ecosystem": ecosystem,
            "result": "failed",
            "changed": 0,
            "removed": 0,
            "records": feed.records,
            "error": reason,
        }
    for note in _warning_notes(ecosystem, result.warnings):
        print_note(note)
    return result_document(result)


class _Progress:
    """Prints progress at intervals; nothing for a quick synchronization."""

    def __init__(self, ecosystem: str) -> None:
        self._ecosystem = ecosystem
        self._last = time.monotonic()

    def report(self, done: int, total: int | None) -> None:
        if time.monotonic() - self._last >= _PROGRESS_SECONDS and sys.stderr is not None:
            self._last = time.monotonic()
            of_all = "" if total is None else f" of {total}"
            print_note(f"{self._ecosystem}: {done}{of_all} records")


def _warning_notes(ecosystem: str, warnings: "tuple[Any, ...]") -> Iterator[str]:
    for warning in warnings[:_MAX_WARNINGS]:
        yield f"{ecosystem}: {escape_line(warning.path)}: {escape_line(warning.reason)}"
    if len(warnings) > _MAX_WARNINGS:
        yield f"{ecosystem}: and {len(warnings) - _MAX_WARNINGS} more warnings"
