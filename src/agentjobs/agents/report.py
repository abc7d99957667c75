"""Reads the files that an agent left, such as its report. Trusts nothing about them."""

import os
import stat
from pathlib import Path

import msgspec

from agentjobs.safe_text import single_line, strip_control_characters
from agentjobs.sandbox.protocol import REPORT_DIRECTORY, REPORT_FILE

MAX_REPORT_BYTES = 256 * 1024
MAX_TITLE_CHARACTERS = 200


class Report(msgspec.Struct, frozen=True):
    """`title` may be empty if the agent wrote only a body."""

    title: str
    body: str


def read_report(run_dir: Path) -> Report | None:
    """None if it is missing, a link, not a regular file, empty, or above 256 KiB."""
    content = read_head(run_dir / REPORT_DIRECTORY / REPORT_FILE, MAX_REPORT_BYTES + 1)
    if content is None or len(content) > MAX_REPORT_BYTES:
        return None
    text = strip_control_characters(content.decode("utf-8", "replace")).lstrip("\n")
    title, _, body = text.partition("\n")
    report = Report(title=_title(title), body=body.strip())
    return report if report.title or report.body else None


def _title(line: str) -> str:
    """One line of text, even if the agent wrote a Markdown heading."""
    title = single_line(line.lstrip("#"))
    if len(title) > MAX_TITLE_CHARACTERS:
        return title[: MAX_TITLE_CHARACTERS - 1].rstrip() + "…"
    return title


def read_head(path: Path, max_bytes: int) -> bytes | None:
    """The first bytes of a file; None if it is missing, a link, or not a regular file."""
    # Non-blocking, because opening a FIFO would wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(max_bytes) if is_regular else None
    except OSError:
        return None
