"""Files of the worker that a command names, such as certificates: a pod gets copies of them.

Programs and libraries are part of its image.
"""

import dataclasses
import shutil
import stat
import sys
from pathlib import Path, PurePosixPath

from agentjobs_runtime.sandboxes.directories import RUN_DIRECTORY
from agentjobs_worker.sandbox.protocol import SandboxTask

# Larger ones are programs.
MAX_FILE_BYTES = 4 * 1024**2
_DIRECTORY = "files"
_IN_THE_IMAGE = ("/usr", "/bin", "/sbin", "/lib", "/lib64", sys.prefix, sys.base_prefix)


def copy_worker_files(task: SandboxTask) -> SandboxTask:
    """Copy them to the run directory, and let the command and its environment name the copies.

    Blocking. Raises OSError.
    """
    directory = task.run_dir / _DIRECTORY
    copies: dict[str, str] = {}
    for number, path in enumerate(filter(is_copied, task.read_only)):
        copy = directory / str(number) / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, copy)
        copies[str(path)] = str(PurePosixPath(RUN_DIRECTORY, copy.relative_to(task.run_dir)))
    return dataclasses.replace(
        task,
        argv=tuple(copies.get(word, word) for word in task.argv),
        environment={name: copies.get(text, text) for name, text in task.environment.items()},
        read_only=(),
    )


def is_copied(path: Path) -> bool:
    """Otherwise it is expected in the image."""
    if any(path.is_relative_to(directory) for directory in _IN_THE_IMAGE):
        return False
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES


def _replace(path: Path, copy: Path) -> None:
    # An earlier command of the job had the same directory.
    copy.unlink(missing_ok=True)
    shutil.copyfile(path, copy)
    copy.chmod(0o555 if path.stat().st_mode & 0o111 else 0o444)
