"""Makes text from outside safe to store, to send and to print on a terminal. Pure functions."""

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Parts of a character class. Tabs, line feeds and carriage returns are not in it.
CONTROL_CHARACTERS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
)


def replace_unstorable(text: str) -> str:
    """Replace NUL and lone surrogates, which neither databases nor platforms accept."""
    return text.replace("\x00", REPLACEMENT).encode("utf-8", "replace").decode()


def strip_escape_sequences(text: str) -> str:
    """Remove ANSI escape sequences: colours, cursor movements, titles, links."""
    return _ESCAPE_SEQUENCE.sub("", text)


def strip_control_characters(text: str) -> str:
    """Keep line feeds and tabs, replace other white space by spaces, drop what is not printable."""
    whole = text.replace("\r\n", "\n").encode(errors="replace").decode()
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(map(_without_control, whole))


def mask_unprintable(text: str, mask: str = "?") -> str:
    return "".join(character if character.isprintable() else mask for character in text)


def escape_unprintable(text: str) -> str:
    """Show control characters as Python escapes, such as `\\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def single_line(text: str) -> str:
    """One printable line, with runs of white space collapsed."""
    return " ".join(strip_control_characters(text).split())


def ellipsize(text: str, max_characters: int) -> str:
    """Cut to `max_characters`, the last of which is then an ellipsis."""
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"


def truncate_bytes(text: str, max_bytes: int, notice: str = "") -> str:
    """Cut to `max_bytes` of UTF-8 between characters; the notice ends a text that was cut."""
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    head = encoded[: max_bytes - len(notice.encode())]
    return head.decode(errors="ignore") + notice


def _without_control(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return " " if character.isspace() else ""
