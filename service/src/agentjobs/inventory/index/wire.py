"""Messages between the service and the index process: a four-byte length, then MessagePack."""

import struct
from typing import Literal

import msgspec

from agentjobs_dependencies.languages import LanguageLines
from agentjobs_dependencies.model import Dependency, IndexWarning

MAX_FRAME_BYTES = 512 * 1024 * 1024

LENGTH = struct.Struct(">I")


class Request(msgspec.Struct, frozen=True, array_like=True):
    """`stored_digest` is that of the stored dependencies, which are not sent again if unchanged.

    Poms of `maven_registry` are read from the cache at `poms_path` only.
    """

    task: Literal["index", "dependencies"]
    git_dir: str
    commit: str
    poms_path: str
    memory_mib: int
    stored_digest: str = ""
    maven_registry: str = ""


class Progress(msgspec.Struct, frozen=True, array_like=True, tag="progress"):
    done: int
    total: int


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """No result follows; `reason` is shown to the repository's owner."""

    reason: str


class DependencyBatch(msgspec.Struct, frozen=True, array_like=True, tag="dependencies"):
    """Dependencies of the result that follows. One large message would block the service."""

    dependencies: tuple[Dependency, ...]


class Result(msgspec.Struct, frozen=True, array_like=True, tag="result"):
    """`graph` is packed by `graph.encoding`; `configuration` is the content of `.agentjobs.toml`.

    `dependencies` is None if unchanged. `installed_together` are groups of manifests, only for the
    task `dependencies`. `missing_poms` are the coordinates of parents and BOMs that are neither in
    the repository nor cached.
    """

    line_count: int
    file_count: int
    languages: tuple[LanguageLines, ...]
    warnings: tuple[IndexWarning, ...]
    dependencies_digest: str
    dependencies: tuple[Dependency, ...] | None
    graph: bytes
    configuration: bytes | None
    installed_together: tuple[tuple[str, ...], ...] = ()
    missing_poms: tuple[str, ...] = ()


Message = Progress | Failed | DependencyBatch | Result


def encode_frame(message: Request | Message) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body
