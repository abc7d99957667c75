"""Checks of `agentjobs doctor` on the data directory: access to it, and free space."""

from pathlib import Path

from agentjobs.cli.doctor.finding import Finding
from agentjobs_runtime.free_space import MIB, free_bytes
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.file_access import find_access_problem, find_other_owner

_GIB = 1024**3
# Below so many times the floor, the disk will soon be full.
_WARNING_FACTOR = 2


def check_data_directory(settings: Settings) -> list[Finding]:
    path = settings.data_path
    if (problem := find_access_problem(path)) is not None:
        return [Finding("data", "problem", problem)]
    if (owner := find_other_owner(path)) is not None:
        text = f"{path} belongs to {owner}: run commands as that user (`sudo -u {owner} …`)"
        return [Finding("data", "note", f"{text}, so that the service can read what they write")]
    return []


def check_disk(settings: Settings) -> list[Finding]:
    directories = [settings.data_path]
    if settings.repositories_dir:
        directories.append(settings.repositories_path)
    return [_check(directory, settings.disk_floor_mib) for directory in directories]


def _check(directory: Path, floor_mib: int) -> Finding:
    try:
        free = free_bytes(directory)
    except OSError as error:
        reason = f"{directory} cannot be read ({error.strerror}): run doctor as the service's user"
        return Finding("disk", "problem", reason)
    text = f"{free / _GIB:.1f} GiB free at {directory}"
    floor = f"disk_floor_mib ({floor_mib / 1024:.1f} GiB)"
    if free < floor_mib * MIB:
        reason = "no job, import or push starts: free some space, or lower cache_max_bytes"
        return Finding("disk", "problem", f"{text}, less than {floor}; {reason}")
    if free < _WARNING_FACTOR * floor_mib * MIB:
        reason = "below it no job, import or push starts; free some space, or lower cache_max_bytes"
        return Finding("disk", "note", f"{text}, little more than {floor}: {reason}")
    return Finding("disk", "ok", text)
