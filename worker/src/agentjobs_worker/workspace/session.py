"""A directory for one running process, and the removal of those whose process died."""

import os
import secrets
from pathlib import Path

from agentjobs_runtime.files.locks import blocking_lock, try_lock
from agentjobs_runtime.files.removal import remove


class Session:
    """Unfinished work is in `directory`, which stays locked while the process runs."""

    def __init__(self, root: Path) -> None:
        self._sessions = root / "sessions"
        self._lock_file = root / "sessions.lock"
        self._descriptor: int | None = None
        self.directory = self._sessions / f"{os.getpid()}-{secrets.token_hex(4)}"

    def open(self) -> None:
        """Blocks for microseconds only. A second call does nothing."""
        if self._descriptor is not None:
            return
        self._sessions.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sessions.mkdir(mode=0o700, exist_ok=True)
        # Without this lock, a sweep could find the directory before it is locked.
        with blocking_lock(self._lock_file):
            # The sweep at the start runs in a thread, beside jobs that were adopted.
            if self._descriptor is None:
                self.directory.mkdir(mode=0o700)
                self._descriptor = try_lock(self.directory)

    def close(self) -> None:
        if self._descriptor is not None:
            remove(self.directory)
            os.close(self._descriptor)
            self._descriptor = None

    def new_directory(self) -> Path:
        path = self.directory / secrets.token_hex(8)
        path.mkdir(mode=0o700)
        return path

    def sweep(self) -> None:
        """Blocking: remove the directories of dead processes."""
        self.open()
        for leftover in self._claim_abandoned():
            remove(leftover)

    def _claim_abandoned(self) -> list[Path]:
        abandoned = []
        with blocking_lock(self._lock_file):
            for path in self._sessions.iterdir():
                if path == self.directory or (descriptor := try_lock(path)) is None:
                    continue
                abandoned.append(path.rename(self.directory / f"swept-{path.name}"))
                os.close(descriptor)
        return abandoned
