"""Makes what strangers wrote into a ticket: bounded, and without what a terminal would obey."""

from collections.abc import Iterable

from agentjobs.safe_text import (
    ellipsize,
    single_line,
    strip_control_characters,
    truncate_bytes,
)
from agentjobs.tickets.protocol import Ticket

MOST_TEXT_BYTES = 48 * 1024
MOST_TITLE = 255
MOST_LABELS = 50
MOST_LABEL = 100
MOST_URL = 2_000
CUT_NOTICE = "\n[cut here: the ticket's text was longer than an agent is given]"


def bounded_ticket(id: str, title: str, text: str, labels: Iterable[str], url: str) -> Ticket:
    """`id` is the caller's own spelling."""
    return Ticket(
        id=id,
        title=one_line(title, MOST_TITLE) or id,
        text=bounded_text(text),
        labels=_bounded_labels(labels),
        url=url if _is_plain_link(url) else "",
    )


def one_line(text: str, most: int) -> str:
    # Cut twice: first what no cleaning shall cost time for, then what is left.
    return ellipsize(single_line(text[: 8 * most]), most)


def bounded_text(text: str) -> str:
    lines = text[: MOST_TEXT_BYTES + 1].replace("\r\n", "\n").replace("\r", "\n")
    plain = strip_control_characters(lines).strip()
    if len(text) <= MOST_TEXT_BYTES:
        return truncate_bytes(plain, MOST_TEXT_BYTES, CUT_NOTICE)
    return truncate_bytes(plain, MOST_TEXT_BYTES - len(CUT_NOTICE.encode())) + CUT_NOTICE


def _is_plain_link(url: str) -> bool:
    return url.startswith(("https://", "http://")) and len(url) <= MOST_URL and url.isprintable()


def _bounded_labels(labels: Iterable[str]) -> tuple[str, ...]:
    lines = (one_line(label, MOST_LABEL) for label in labels)
    return tuple(dict.fromkeys(line for line in lines if line))[:MOST_LABELS]
