"""Records of the commands that run in pods, by which a restarted worker finds its way back."""

import contextlib
import logging
from pathlib import Path

import msgspec

from agentjobs_kubernetes.credentials import Credentials
from agentjobs_runtime.private_files import replace_private_file

_log = logging.getLogger(__name__)


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """`started_at` is a Unix time: the time limit counts from there."""

    pod: str
    address: str
    job_id: str
    step: str
    fence: int
    started_at: float
    credentials: Credentials


class RunRecords:
    """One private file per run. Blocking, briefly."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, run: StoredRun) -> None:
        """Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_private_file(self._path(run.pod), msgspec.json.encode(run))

    def remove(self, pod: str) -> None:
        with contextlib.suppress(OSError):
            self._path(pod).unlink(missing_ok=True)

    def remove_step(self, job_id: str, step: str) -> None:
        for run in self._load():
            if (run.job_id, run.step) == (job_id, step):
                self.remove(run.pod)

    def find(self, job_id: str, step: str, fence: int) -> StoredRun | None:
        for run in self._load():
            if (run.job_id, run.step, run.fence) == (job_id, step, fence):
                return run
        return None

    def pods(self) -> set[str]:
        return {run.pod for run in self._load()}

    def _load(self) -> list[StoredRun]:
        runs = []
        for path in sorted(self._directory.glob("*.json")):
            try:
                runs.append(msgspec.json.decode(path.read_bytes(), type=StoredRun))
            except (OSError, msgspec.MsgspecError) as error:
                _log.warning("The record %s of a run cannot be read: %s", path, error)
        return runs

    def _path(self, pod: str) -> Path:
        return self._directory / f"{pod}.json"
