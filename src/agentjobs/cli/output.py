"""How commands answer: results plain on stdout, remarks on stderr, tables for people.

Keys and addresses never pass through Rich, which would wrap and colour them. What an agent wrote
may hold escape sequences: none reaches a terminal.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

# They change the order in which a line is shown, and are not seen themselves.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f{_BIDI}]")
_STRANGE = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}]")
_CONTROL_BUT_LAYOUT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f]")


def answer(text: str) -> None:
    """The thing that was asked for, alone on stdout."""
    # The line and its end in one: who reads along must not see one without the other.
    sys.stdout.write(f"{_fit_for(sys.stdout, text)}\n")
    sys.stdout.flush()


def answer_json(value: Any) -> None:
    import msgspec

    document = msgspec.json.format(msgspec.json.encode(value), indent=2)
    # The encoder leaves these as they are; escaped they are the same document.
    print(_CONTROL_IN_JSON.sub(_as_json_escape, document.decode()), flush=True)


def why_not_shown(show: Callable[[], None]) -> str | None:
    """Of a secret that is shown once: None if it was written, else what came in its way."""
    if sys.stdout is None:
        return "stdout is closed"
    try:
        show()
    except OSError as error:
        return error.strerror or str(error)
    return None


def remark(text: str) -> None:
    """Everything a person may want to know and a program must not have to parse."""
    print(_fit_for(sys.stderr, text), file=sys.stderr, flush=True)


def on_one_line(text: str) -> str:
    """With every control character, line breaks too, written as an escape."""
    return _CONTROL.sub(_as_escape, text)


def of_a_stranger(text: str) -> str:
    """The same with lines and tabs as they are: for a terminal that a pipe may end at, too."""
    return _STRANGE.sub(_as_escape, text)


def answer_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on a terminal; lines of tab-separated values for anything else."""
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
    shown = [[_fit_for(sys.stdout, cell) for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    if sum(widths) + 2 * len(widths) > console.width:
        _print_blocks(columns, shown)
        return
    table = Table(*columns, box=SIMPLE_HEAD)
    for line in shown:
        # Text, not str: a name may hold what Rich would read as markup.
        table.add_row(*(Text(cell) for cell in line))
    console.print(table)


def _print_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """What is too wide for the terminal: a line a value, none of them broken."""
    width = max(map(len, columns))
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            print(f"{column:<{width}}  {cell}")
        print(flush=True)


def _fit_for(stream: TextIO, text: str) -> str:
    return _CONTROL_BUT_LAYOUT.sub(_as_escape, text) if stream.isatty() else text


def _as_escape(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def _as_json_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split())
