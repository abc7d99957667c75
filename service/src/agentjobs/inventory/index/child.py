"""The main function of the index process: reads one request, writes messages, exits.

Repositories are hostile; whatever one does to this process, the service only sees it exit.
Imports little, because every index pays for starting this process.
"""

import ctypes
import errno
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from agentjobs.inventory.index.fixtures import mark_fixtures
from agentjobs.inventory.index.install_files import read_installed_together
from agentjobs.inventory.index.pom_cache import PomCache
from agentjobs.inventory.index.scan import CONFIGURATION_PATH, scan_commit, scan_manifests
from agentjobs.inventory.index.wire import (
    LENGTH,
    DependencyBatch,
    Failed,
    Message,
    Progress,
    Request,
    Result,
    encode_frame,
)
from agentjobs_dependencies.formats.maven.published import PublishedPoms
from agentjobs_dependencies.graph.encoding import pack_graph
from agentjobs_dependencies.imports.external_names import ExternalNames
from agentjobs_dependencies.imports.imported import mark_imported
from agentjobs_dependencies.index import assembly
from agentjobs_dependencies.index.commit_index import CommitIndex
from agentjobs_dependencies.model import Dependency, IndexWarning
from agentjobs_runtime.git.blocking import GitReadError, list_files
from agentjobs_runtime.git.limits import NICE

_PR_SET_PDEATHSIG = 1
_PROGRESS_SECONDS = 0.2
_MAX_AT_ONCE = 2_000


def main() -> None:
    # The data has no reference cycles; looking for some takes a tenth of the time.
    gc.disable()
    # The service stays responsive while this process and its git processes compute.
    os.nice(NICE)
    # The kernel kills this process when the service dies, even while it is busy. If the service
    # has already exited, stdin is closed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    request = _read_request(sys.stdin.buffer)
    if request is None:
        return
    _limit_memory(request.memory_mib)
    for message in _split_batches(respond(request)):
        _send(sys.stdout.buffer, message)


def respond(request: Request) -> Result | Failed:
    try:
        return _index(request) if request.task == "index" else _read_dependencies(request)
    except GitReadError as error:
        return Failed(f"The commit could not be read: {error}.")
    except BrokenPipeError:
        raise
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            return Failed(f"The index could not be built: {error}.")
        return Failed(
            f"The index needs more than {request.memory_mib} MiB of memory;"
            " AGENTJOBS_INDEX_MEMORY_MIB sets the limit."
        )


def _split_batches(response: Result | Failed) -> Iterator[Message]:
    while isinstance(response, Result) and len(response.dependencies or ()) > _MAX_AT_ONCE:
        dependencies = response.dependencies or ()
        yield DependencyBatch(dependencies[:_MAX_AT_ONCE])
        response = msgspec.structs.replace(response, dependencies=dependencies[_MAX_AT_ONCE:])
    yield response


def _index(request: Request) -> Result:
    git_dir = Path(request.git_dir)
    index = scan_commit(git_dir, list_files(git_dir, request.commit), _Progress())
    dependencies = _find_dependencies(request, index, assembly.collect_external_names(index))
    result = _result(index, dependencies)
    is_unchanged = result.dependencies_digest == request.stored_digest
    return msgspec.structs.replace(result, dependencies=None) if is_unchanged else result


def _read_dependencies(request: Request) -> Result:
    git_dir = Path(request.git_dir)
    records = list_files(git_dir, request.commit)
    index = scan_manifests(git_dir, records)
    dependencies = _find_dependencies(request, index, ExternalNames({}, frozenset()))
    groups = read_installed_together(git_dir, records, index.manifests)
    return msgspec.structs.replace(_result(index, dependencies), installed_together=groups)


class _Dependencies(NamedTuple):
    dependencies: tuple[Dependency, ...]
    warnings: tuple[IndexWarning, ...]
    missing_poms: tuple[str, ...]


def _find_dependencies(
    request: Request, index: CommitIndex, externals: ExternalNames
) -> _Dependencies:
    poms = PublishedPoms(PomCache(Path(request.poms_path), request.maven_registry).load)
    combined = assembly.combine_dependencies(index, poms)
    dependencies = mark_fixtures(combined.dependencies, index.contents.get(CONFIGURATION_PATH))
    dependencies = mark_imported(dependencies, index.manifests, externals)
    return _Dependencies(dependencies, combined.warnings, tuple(poms.missing))


def _result(index: CommitIndex, dependencies: _Dependencies) -> Result:
    return Result(
        line_count=index.line_count,
        file_count=index.file_count,
        languages=assembly.list_languages(index),
        warnings=assembly.collect_warnings(index, dependencies.warnings),
        dependencies_digest=assembly.digest_dependencies(dependencies.dependencies),
        dependencies=dependencies.dependencies,
        graph=pack_graph(index.graph),
        configuration=index.contents.get(CONFIGURATION_PATH),
        missing_poms=dependencies.missing_poms,
    )


class _Progress:
    """Sends progress messages at a limited rate."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._done = -1

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done != self._done and (now - self._sent_at >= _PROGRESS_SECONDS or done == total):
            self._sent_at, self._done = now, done
            _send(sys.stdout.buffer, Progress(done, total))


def _limit_memory(memory_mib: int) -> None:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory_mib * 1024 * 1024
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard_limit < 0 else min(limit, hard_limit), hard_limit)
    )
    # A crash must not leave a core dump of the repository's files on disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read_request(stream: BinaryIO) -> Request | None:
    """None if the service has exited."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    return msgspec.msgpack.decode(stream.read(length), type=Request)


def _send(stream: BinaryIO, message: Message) -> None:
    stream.write(encode_frame(message))
    stream.flush()
