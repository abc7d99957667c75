"""Reads the report an agent left for the pull request, and trusts nothing about it."""

from pathlib import Path

import msgspec

from agentjobs.agents.run_files import read_head
from agentjobs.safe_text import single_line, strip_control_characters
from agentjobs.sandbox.protocol import REPORT_DIRECTORY, REPORT_FILE

REPORT_BYTES = 256 * 1024
TITLE_CHARACTERS = 200


class Report(msgspec.Struct, frozen=True):
    """`title` may be empty when the agent wrote only a body."""

    title: str
    body: str


def read_report(run_dir: Path) -> Report | None:
    """None when there is none, or it is a link, no regular file, empty, or above 256 KiB."""
    content = read_head(run_dir / REPORT_DIRECTORY / REPORT_FILE, REPORT_BYTES + 1)
    if content is None or len(content) > REPORT_BYTES:
        return None
    text = strip_control_characters(content.decode("utf-8", "replace")).lstrip("\n")
    title, _, body = text.partition("\n")
    report = Report(title=_title(title), body=body.strip())
    return report if report.title or report.body else None


def _title(line: str) -> str:
    """One line of text, also when the agent made it a Markdown heading."""
    title = single_line(line.lstrip("#"))
    if len(title) > TITLE_CHARACTERS:
        return title[: TITLE_CHARACTERS - 1].rstrip() + "…"
    return title
