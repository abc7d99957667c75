"""How commands answer: results plain on stdout, remarks on stderr, tables for people.

Keys and addresses never pass through Rich, which would wrap and colour them.
"""

import sys
from collections.abc import Sequence
from typing import Any


def answer(text: str) -> None:
    """The thing that was asked for, alone on stdout."""
    print(text, flush=True)


def answer_json(value: Any) -> None:
    import msgspec

    document = msgspec.json.format(msgspec.json.encode(value), indent=2)
    print(document.decode(), flush=True)


def remark(text: str) -> None:
    """Everything a person may want to know and a program must not have to parse."""
    print(text, file=sys.stderr, flush=True)


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

    table = Table(*columns, box=SIMPLE_HEAD)
    for line in cells:
        # Text, not str: a name may hold what Rich would read as markup.
        table.add_row(*(Text(cell, overflow="fold") for cell in line))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split())
