"""Bounds and cleans untrusted text of tickets."""

from collections.abc import Iterable

from agentjobs.tickets.protocol import Ticket
from agentjobs_runtime.safe_text import (
    ellipsize,
    single_line,
    strip_control_characters,
    truncate_bytes,
)

MAX_TEXT_BYTES = 48 * 1024
MAX_TITLE_CHARACTERS = 255
MAX_LABELS = 50
MAX_LABEL_CHARACTERS = 100
MAX_URL_CHARACTERS = 2_000
TRUNCATION_NOTICE = "\n[truncated: the ticket's text exceeds the limit]"


def build_ticket(id: str, title: str, text: str, labels: Iterable[str], url: str) -> Ticket:
    """`id` is as the caller writes it."""
    return Ticket(
        id=id,
        title=one_line(title, MAX_TITLE_CHARACTERS) or id,
        text=truncate_text(text),
        labels=_clean_labels(labels),
        url=url if _is_plain_link(url) else "",
    )


def one_line(text: str, max_characters: int) -> str:
    # Truncated before cleaning too, which takes time.
    return ellipsize(single_line(text[: 8 * max_characters]), max_characters)


def truncate_text(text: str) -> str:
    lines = text[: MAX_TEXT_BYTES + 1].replace("\r\n", "\n").replace("\r", "\n")
    plain = strip_control_characters(lines).strip()
    if len(text) <= MAX_TEXT_BYTES:
        return truncate_bytes(plain, MAX_TEXT_BYTES, TRUNCATION_NOTICE)
    return (
        truncate_bytes(plain, MAX_TEXT_BYTES - len(TRUNCATION_NOTICE.encode())) + TRUNCATION_NOTICE
    )


def _is_plain_link(url: str) -> bool:
    return (
        url.startswith(("https://", "http://"))
        and len(url) <= MAX_URL_CHARACTERS
        and url.isprintable()
    )


def _clean_labels(labels: Iterable[str]) -> tuple[str, ...]:
    lines = (one_line(label, MAX_LABEL_CHARACTERS) for label in labels)
    return tuple(dict.fromkeys(line for line in lines if line))[:MAX_LABELS]
