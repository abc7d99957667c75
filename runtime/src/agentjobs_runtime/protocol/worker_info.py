"""A worker as the queue knows it."""

import msgspec

from agentjobs_runtime.free_space import DiskSpace


class WorkerInfo(msgspec.Struct):
    """A registered worker. `agents` can run on it; `unready` has the reasons for the others.

    While its disk is full, or its sandbox has a problem, none can run.
    """

    id: str
    hostname: str
    slots: int
    agents: list[str]
    unready: dict[str, str] = {}
    is_disk_full: bool = False
    # The space of its data directory; None before the first check.
    disk_space: DiskSpace | None = None
    # How much longer its leases are than the setting, because its machine is starved.
    extra_lease_seconds: float = 0.0
    # Why it cannot start a sandbox now; empty if it can.
    sandbox_problem: str = ""
    # How far its clock is ahead of the database's, if that is too much.
    clock_ahead_seconds: int | None = None
    version: str = ""
    configuration_digest: str = ""
    tags: list[str] = []
    # Identifies its data directory, which has the snapshots of environments.
    location: str = ""
