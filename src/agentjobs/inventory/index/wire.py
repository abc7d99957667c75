"""What the service and the process that reads repositories say to each other.

Each message is its length in four bytes and then MessagePack. Knows neither of the two.
"""

import struct
from typing import Literal

import msgspec

from agentjobs.inventory.model import Dependency, IndexWarning, LanguageLines

MAX_FRAME_BYTES = 512 * 1024 * 1024

LENGTH = struct.Struct(">I")


class Request(msgspec.Struct, frozen=True, array_like=True):
    """What is stored is told: the graph of `indexed_commit`, the digest of dependencies.

    What would be the same is not sent again.
    """

    task: Literal["index", "dependencies"]
    git_dir: str
    commit: str
    cache_path: str
    memory_mib: int
    repo_id: str = ""
    indexed_commit: str = ""
    known_dependencies: str = ""


class Progress(msgspec.Struct, frozen=True, array_like=True, tag="progress"):
    done: int
    total: int


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Why there will be no result, in words for the repository's owner."""

    reason: str


class MoreDependencies(msgspec.Struct, frozen=True, array_like=True, tag="dependencies"):
    """The first of those of the result that follows: all at once would hold up the service."""

    dependencies: tuple[Dependency, ...]
    purls: tuple[str, ...]


class Result(msgspec.Struct, frozen=True, array_like=True, tag="result"):
    """`graph` as `graph_data` packs it; `configuration` is the repository's own file.

    `graph` and `dependencies` are None when they are those that are stored; `purls` go with the
    latter.
    """

    line_count: int
    file_count: int
    languages: tuple[LanguageLines, ...]
    warnings: tuple[IndexWarning, ...]
    dependencies_digest: str
    dependencies: tuple[Dependency, ...] | None
    purls: tuple[str, ...]
    graph: bytes | None
    configuration: bytes | None


Message = Progress | Refused | MoreDependencies | Result


def framed(message: Request | Message) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body
