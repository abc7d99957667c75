"""Reads a token or a private key from standard input or a prompt.

Never from an argument, which other users can see and shells keep in their history.
"""

import os
import stat
import sys
from pathlib import Path

_MAX_BYTES = 64 * 1024
STANDARD_INPUT = "-"


def read_token(prompt: str) -> str:
    """Reads standard input, or prompts without echo; empty if there is none."""
    return read_secret(prompt, _MAX_BYTES).strip()


def read_secret(prompt: str, max_bytes: int) -> str:
    """Like `read_token`, but only the end of the last line is removed."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return prompt_secretly(prompt)
    return sys.stdin.buffer.read(max_bytes).decode().removesuffix("\n").removesuffix("\r")


def read_piped_token() -> str:
    """Reads standard input if it is a pipe or a file; otherwise empty."""
    if sys.stdin is None:
        return ""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return read_token("") if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else ""


def read_key_file(path: str) -> str:
    if path != STANDARD_INPUT:
        with Path(path).open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    if sys.stdin is None:
        return ""
    return sys.stdin.buffer.read(_MAX_BYTES).decode("utf-8", "replace")


def prompt_secretly(prompt: str) -> str:
    import getpass

    try:
        return getpass.getpass(f"{prompt}: ")
    except EOFError:
        return ""
