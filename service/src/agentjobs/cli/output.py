"""Output of commands: results on stdout, notes on stderr.

Keys and URLs bypass Rich, which would wrap and colour them. Escape sequences, such as in text
written by agents, never reach a terminal.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import typer

if TYPE_CHECKING:
    from agentjobs.cli.admin import Admin

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
    # On stderr, with --json too.
    remarks: Iterable[str] = ()
    exit_code: int = 0

    def print_text(self) -> None:
        for line in self.lines:
            print_result(line)
        print_notes(self.notes)


class Table(NamedTuple):
    """A document for --json; otherwise a table, then notes on stderr."""

    document: Any
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Iterable[str] = ()
    remarks: Iterable[str] = ()
    exit_code: int = 0

    def print_text(self) -> None:
        print_table(self.columns, self.rows)
        print_notes(self.notes)


class Secret(NamedTuple):
    """A secret that is printed once, after the notes, or in a document."""

    document: Any
    notes: Iterable[str]
    secret: str
    # What follows if it cannot be printed.
    remedy: str
    undo: "Callable[[Admin], Awaitable[object]] | None" = None
    what: str = "secret"
    remarks: Iterable[str] = ()


def print_answer(answer: Answer | Table, *, json: bool) -> None:
    if json:
        print_json(answer.document)
    else:
        answer.print_text()
    print_notes(answer.remarks)
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)


def to_document(
    source: object, fields: Iterable[str], times: Iterable[str] = (), **others: Any
) -> dict[str, Any]:
    """The fields of an object, and `others`; times become ISO 8601."""
    from agentjobs_runtime.clock import iso_utc_or_none

    texts = {name: iso_utc_or_none(getattr(source, name)) for name in times}
    return {**{name: getattr(source, name) for name in fields}, **others, **texts}


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


def print_secret(secret: Secret, *, json: bool) -> str | None:
    """Returns the reason if it could not be printed."""
    if sys.stdout is None:
        return "stdout is closed"
    try:
        print_notes(secret.remarks)
        if json:
            print_json(secret.document)
        else:
            print_notes(secret.notes)
            print_result(secret.secret)
    except OSError as error:
        return error.strerror or str(error)
    return None


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print_note(note)


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
