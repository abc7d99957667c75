"""Reads a token or a private key for a command: never an argument, which every user of the machine
sees and shells keep."""

import sys
from pathlib import Path

_MOST_BYTES = 64 * 1024
STANDARD_INPUT = "-"


def read_token(asked_for: str) -> str:
    """From standard input, or asked for without an echo; empty if there is none."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return _ask(asked_for)
    return sys.stdin.buffer.read(_MOST_BYTES).decode().strip()


def read_private_key(path: str) -> str:
    if path != STANDARD_INPUT:
        with Path(path).open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    if sys.stdin is None:
        return ""
    return sys.stdin.buffer.read(_MOST_BYTES).decode("utf-8", "replace")


def _ask(asked_for: str) -> str:
    import getpass

    try:
        return getpass.getpass(f"{asked_for}: ").strip()
    except EOFError:
        return ""
