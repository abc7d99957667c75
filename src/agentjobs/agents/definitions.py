"""What an agent is: a command and its bounds. Knows nothing of callers, plans' ranks or jobs."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent type. `read_only` are files of the machine it sees, at the same path, beside the
    system's."""

    id: str
    name: str
    plan_required: str
    command: tuple[str, ...]
    timeout_seconds: float
    environment: Mapping[str, str] = {}
    network: tuple[str, ...] = ()
    read_only: tuple[Path, ...] = ()


def named_files(command: Iterable[str]) -> tuple[Path, ...]:
    """Files a command names by their absolute path: naming one is the consent to show it.

    Only files, never a directory: `/` in a command must not open the machine.
    """
    paths = (Path(word) for word in command if word.startswith("/"))
    return tuple(path for path in paths if path.is_file())
