"""Makes what strangers wrote into a ticket: bounded, and without what a terminal would obey."""

from collections.abc import Iterable

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
    line = " ".join(_plain(text[: 8 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def bounded_text(text: str) -> str:
    plain = _plain(text[: MOST_TEXT_BYTES + 1]).strip()
    encoded = plain.encode()
    if len(text) <= MOST_TEXT_BYTES and len(encoded) <= MOST_TEXT_BYTES:
        return plain
    room = MOST_TEXT_BYTES - len(CUT_NOTICE.encode())
    return encoded[:room].decode(errors="ignore") + CUT_NOTICE


def _is_plain_link(url: str) -> bool:
    return url.startswith(("https://", "http://")) and len(url) <= MOST_URL and url.isprintable()


def _bounded_labels(labels: Iterable[str]) -> tuple[str, ...]:
    lines = (one_line(label, MOST_LABEL) for label in labels)
    return tuple(dict.fromkeys(line for line in lines if line))[:MOST_LABELS]


def _plain(text: str) -> str:
    """Lines and tabs stay; other spaces become one, control and format characters are dropped."""
    whole = text.replace("\r\n", "\n").replace("\r", "\n").encode(errors="replace").decode()
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(map(_plain_character, whole))


def _plain_character(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return " " if character.isspace() else ""
