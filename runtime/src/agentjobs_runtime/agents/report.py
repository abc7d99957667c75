"""Reads the files that an agent left, such as its report. Trusts nothing about them."""

import os
import stat
from pathlib import Path

import msgspec

from agentjobs_runtime.safe_text import single_line, strip_control_characters
from agentjobs_runtime.sandboxes.directories import (
    DRAFT_FILE,
    REPORT_DIRECTORY,
    REPORT_FILE,
    RESULT_FILE,
)

MAX_REPORT_BYTES = 256 * 1024
MAX_TITLE_CHARACTERS = 200
MAX_DRAFT_BYTES = 16 * 1024
MAX_DRAFT_REASONS = 20


class Report(msgspec.Struct, frozen=True):
    """`title` may be empty if the agent wrote only a body.

    With `draft_reasons`, the agent requests a draft.
    """

    title: str
    body: str
    draft_reasons: tuple[str, ...] = ()


def read_report(run_dir: Path) -> Report | None:
    """None if it is missing, a link, not a regular file, empty, or above 256 KiB, and the agent
    requests no draft."""
    title, _, body = (read_markdown(run_dir) or "").lstrip("\n").partition("\n")
    report = Report(_title(title), body.strip(), _read_draft_reasons(run_dir))
    return report if report.title or report.body or report.draft_reasons else None


def read_markdown(run_dir: Path) -> str | None:
    """The whole report; None if it is missing, a link, not a regular file, blank, or too long."""
    content = _read_whole(run_dir / REPORT_DIRECTORY / REPORT_FILE)
    text = "" if content is None else _decode(content)
    return text if text.strip() else None


def read_result(run_dir: Path) -> bytes | None:
    """The JSON result, unchecked; None if it is missing, no regular file, or above 256 KiB."""
    return _read_whole(run_dir / REPORT_DIRECTORY / RESULT_FILE)


def _read_whole(path: Path) -> bytes | None:
    content = read_head(path, MAX_REPORT_BYTES + 1)
    return None if content is None or len(content) > MAX_REPORT_BYTES else content


def _read_draft_reasons(run_dir: Path) -> tuple[str, ...]:
    """Each line of the draft file is a reason. An empty or a long file requests a draft too."""
    content = read_head(run_dir / REPORT_DIRECTORY / DRAFT_FILE, MAX_DRAFT_BYTES)
    if content is None:
        return ()
    lines = (single_line(line.lstrip("-* ")) for line in _decode(content).split("\n"))
    reasons = [line for line in lines if line]
    return tuple(reasons[:MAX_DRAFT_REASONS]) or ("The agent gave no reason.",)


def _decode(content: bytes) -> str:
    return strip_control_characters(content.decode("utf-8", "replace"))


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
