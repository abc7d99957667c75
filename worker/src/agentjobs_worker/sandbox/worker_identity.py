"""What a worker with agents in pods keeps over a restart: its id, and which workers died before it.

One process at a time has a data directory: whoever gets its lock knows that the others are dead.
That is not true of a copy of the directory, so a copy makes another worker.
"""

import fcntl
import hashlib
import hmac
import logging
import os
import secrets
import socket
from pathlib import Path
from typing import Self

import msgspec

from agentjobs_runtime.private_files import replace_private_file
from agentjobs_worker.sandbox.protocol import SandboxUnavailable

DIRECTORY = "sandbox"
_LOCK = "worker.lock"
_FILE = "worker.json"

_log = logging.getLogger(__name__)


class _Record(msgspec.Struct, frozen=True):
    """`workers` registered from this directory and may have jobs. `secret` derives tokens. `place`
    is the machine and the file of the lock, which a copy has not in common."""

    id: str
    secret: str
    place: str
    workers: tuple[str, ...] = ()


class WorkerIdentity:
    """Locked until `close`. `id` identifies the data directory."""

    def __init__(self, directory: Path, lock: int, record: _Record) -> None:
        self.directory = directory
        self._lock = lock
        self._record = record

    @classmethod
    def open(cls, data_path: Path) -> Self:
        """Blocks for milliseconds only. Raises SandboxUnavailable."""
        directory = data_path / DIRECTORY
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(directory, lock, _load(directory / _FILE, _describe_place(lock)))
        except BlockingIOError:
            os.close(lock)
            raise SandboxUnavailable(
                f"another worker runs with the data directory {data_path}: stop it, or give this "
                "one a data directory of its own with AGENTJOBS_DATA_DIR"
            ) from None
        except BaseException:
            os.close(lock)
            raise

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def dead_workers(self) -> tuple[str, ...]:
        """Earlier workers whose jobs nobody has adopted."""
        return self._record.workers

    def add(self, worker_id: str) -> None:
        """Record a worker. Call it before the worker claims its first job."""
        self._replace((*self._record.workers, worker_id))

    def keep_only(self, worker_id: str) -> None:
        """Forget the other workers, whose jobs have been adopted."""
        self._replace((worker_id,))

    def derive_token(self, purpose: str) -> str:
        """The same secret token for every worker that runs in this data directory."""
        key = bytes.fromhex(self._record.secret)
        return hmac.new(key, purpose.encode(), hashlib.sha256).hexdigest()[:48]

    def close(self) -> None:
        os.close(self._lock)

    def _replace(self, workers: tuple[str, ...]) -> None:
        self._record = msgspec.structs.replace(self._record, workers=workers)
        replace_private_file(self.directory / _FILE, msgspec.json.encode(self._record))


def _describe_place(lock: int) -> str:
    return f"{socket.gethostname()} {os.fstat(lock).st_ino}"


def _load(path: Path, place: str) -> _Record:
    try:
        record = msgspec.json.decode(path.read_bytes(), type=_Record)
    except (FileNotFoundError, msgspec.DecodeError):
        # An unreadable record has no owner: pods with its id are found by their jobs.
        return _new_record(place)
    if record.place == place:
        return record
    _log.warning(
        "%s is a copy, or was moved: this worker leaves the agents of the other one alone", path
    )
    return _new_record(place)


def _new_record(place: str) -> _Record:
    return _Record(id=secrets.token_hex(8), secret=secrets.token_hex(32), place=place)
