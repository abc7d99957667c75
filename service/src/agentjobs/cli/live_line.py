"""A line at the end of a terminal that changes while a command waits."""

import os
import sys

_CLEAR = "\r\x1b[K"
_DEFAULT_COLUMNS = 80


def can_show_line() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def show_line(line: str) -> None:
    """Replaces the line. The text must not contain control characters."""
    # The last column stays empty, because some terminals wrap after it.
    _write(_CLEAR + fit(line, _columns() - 1))


def clear_line() -> None:
    _write(_CLEAR)


def fit(line: str, columns: int) -> str:
    """Cuts the line to the columns, marked with … if it was cut."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(line) <= columns:
        return line
    return f"{set_cell_size(line, columns - 1)}…" if columns > 0 else ""


def _columns() -> int:
    """The width of the terminal at stderr: stdout may be a pipe."""
    try:
        given = int(os.environ.get("COLUMNS", "0"))
        return given or os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_COLUMNS
    except (OSError, ValueError):
        return _DEFAULT_COLUMNS


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
