"""Output of commands: results on stdout, notes on stderr.

Keys and URLs bypass Rich, which would wrap and colour them. Escape sequences, such as in text
written by agents, never reach a terminal.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TextIO

# Invisible characters that change the order in which a line is displayed.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f{_BIDI}]")
_UNSAFE = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}]")
_CONTROL_EXCEPT_LAYOUT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f]")


class Answer(NamedTuple):
    """A document for --json; otherwise lines on stdout, then notes on stderr."""

    document: Any
    lines: Iterable[str]
    notes: Iterable[str] = ()

    def print_text(self) -> None:
        for line in self.lines:
            print_result(line)
        for note in self.notes:
            print_note(note)


class Table(NamedTuple):
    """A document for --json; otherwise a table."""

    document: Any
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def print_text(self) -> None:
        print_table(self.columns, self.rows)


def print_answer(answer: Answer | Table, *, json: bool) -> None:
    if json:
        print_json(answer.document)
    else:
        answer.print_text()


def print_result(text: str) -> None:
    """The result of a command, on stdout."""
    # One write, so that readers never see a line without its end.
    sys.stdout.write(f"{_escape_for(sys.stdout, text)}\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    import msgspec

    document = msgspec.json.format(msgspec.json.encode(value), indent=2)
    # The encoder does not escape these; escaping does not change the document.
    print(_CONTROL_IN_JSON.sub(_json_escape, document.decode()), flush=True)


def print_secret(show: Callable[[], None]) -> str | None:
    """Prints a secret that is shown only once; returns the reason if that fails."""
    if sys.stdout is None:
        return "stdout is closed"
    try:
        show()
    except OSError as error:
        return error.strerror or str(error)
    return None


def print_once(document: Any, note: str, secret: str, *, json: bool) -> str | None:
    """Prints a secret after a note, or in a document; returns the reason if that fails."""

    def show() -> None:
        if json:
            print_json(document)
        else:
            print_note(note)
            print_result(secret)

    return print_secret(show)


def print_note(text: str) -> None:
    """Information for people, on stderr, so that programs need not parse it."""
    print(_escape_for(sys.stderr, text), file=sys.stderr, flush=True)


def escape_line(text: str) -> str:
    """Escapes all control characters, including line breaks."""
    return _CONTROL.sub(_escape, text)


def escape_text(text: str) -> str:
    """Escapes control characters except line breaks and tabs, also for pipes."""
    return _UNSAFE.sub(_escape, text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on a terminal, tab-separated values otherwise."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for line in ([*columns], *cells):
            print("\t".join(line))
        sys.stdout.flush()
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    escaped = [[_escape_for(sys.stdout, cell) for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(columns, *escaped, strict=True)]
    if sum(widths) + 2 * len(widths) > console.width:
        _print_blocks(columns, escaped)
        return
    table = Table(*columns, box=SIMPLE_HEAD)
    for line in escaped:
        # Text instead of str, because a name may contain Rich markup.
        table.add_row(*(Text(cell) for cell in line))
    console.print(table)


def _print_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints tables that are too wide with one line per value, without wrapping."""
    width = max(map(len, columns))
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            print(f"{column:<{width}}  {cell}")
        print(flush=True)


def _escape_for(stream: TextIO, text: str) -> str:
    return _CONTROL_EXCEPT_LAYOUT.sub(_escape, text) if stream.isatty() else text


def _escape(match: re.Match[str]) -> str:
    return repr(match[0])[1:-1]


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split())
