"""Schedules with a purpose: one or two faults at exactly the phases where they hurt.

They are quick, and the same every time: a fault begins when a process reaches a phase, and ends
when another process has gone on far enough. Every fault must happen; otherwise a run fails.
"""

from tests.faults.checker import RETRIES
from tests.faults.schedule import Fault, PlannedFault, PlannedJob, Schedule, Topology

_PROCESSES = ("serve-1", "worker-1", "worker-2")
# Either of two processes can publish.
_SERVES = ("serve-1", "serve-2", "worker-1")
# Faults that end with a phase end by time only if that is never reached.
_LONG_SECONDS = 60.0
# In which all faults of a scenario begin.
BEGIN_SECONDS = 60.0


def _at(
    phase: str, fault: Fault, *, occurrence: int = 1, until: str = "", seconds: float = 0.0
) -> PlannedFault:
    lasts = _LONG_SECONDS if until else seconds
    return PlannedFault(fault, lasts, phase=phase, occurrence=occurrence, until=until)


def _scenario(
    agent: str,
    *faults: PlannedFault,
    is_on_platform: bool = False,
    settings: tuple[tuple[str, str], ...] = (),
    processes: tuple[str, ...] = _PROCESSES,
    jobs: int = 1,
    max_parallel: int | None = None,
) -> Schedule:
    topology = Topology.PLATFORM if is_on_platform else Topology.FLEET
    job = PlannedJob(0.0, agent, None, is_on_platform)
    return Schedule(0, topology, processes, (job,) * jobs, faults, settings, max_parallel)


SCENARIOS: dict[str, Schedule] = {
    # The agent of the next claim runs when the first worker stores that its agent failed.
    "late-failure": _scenario("crash", _at("finishing", Fault.STOP, until="started")),
    # The agent of the next claim runs when the first worker hands over its work.
    "late-work": _scenario("edit", _at("finishing", Fault.STOP, until="started")),
    # The job is complete when the process that opened the pull request says so.
    "late-completion": _scenario(
        "edit", _at("storing", Fault.STOP, until="finished"), processes=_SERVES
    ),
    # The pull request of the next claim is open when the first process pushes.
    "late-push": _scenario(
        "edit",
        _at("pushing", Fault.STOP, until="finished"),
        is_on_platform=True,
        processes=_SERVES,
    ),
    # The process ends while the platform does not accept the work that is done.
    "drained-while-pushing": _scenario(
        "edit",
        _at("pushing", Fault.PLATFORM_STALLED, until="publishing-kept"),
        _at("pushing", Fault.TERMINATE),
        is_on_platform=True,
        processes=_SERVES,
    ),
    # The pull request is open, and nobody has stored that the job is complete.
    "killed-after-publishing": _scenario("edit", _at("pull-opened", Fault.KILL), processes=_SERVES),
    "killed-after-opening": _scenario(
        "edit", _at("pull-opened", Fault.KILL), is_on_platform=True, processes=_SERVES
    ),
    # Of two lost claims, only the second one is that of a dead worker.
    "cut-off-then-killed": _scenario(
        "edit",
        _at("started", Fault.STOP, until="started"),
        _at("started", Fault.KILL, occurrence=2),
        settings=((RETRIES, "1"),),
    ),
    # The database answers again after all leases have expired.
    "database-hangs": _scenario(
        "slow",
        _at("started", Fault.DATABASE_FROZEN, seconds=7.0),
        settings=((RETRIES, "0"),),
    ),
    # A push waits for its repository when its job is cancelled.
    "cancelled-before-push": _scenario(
        "edit",
        _at("authorized", Fault.CANCEL),
        processes=_SERVES,
    ),
    # The machine cannot start another process when the agent is to be started.
    "no-processes": _scenario("edit", _at("started", Fault.NO_PROCESSES, until="finished")),
    # The only worker does not renew its leases in time, as on a machine that is starved.
    "two-jobs-lost": _scenario(
        "slow",
        _at("started", Fault.STOP, occurrence=2, until="rescued"),
        processes=("serve-1", "worker-1"),
        jobs=2,
        max_parallel=1,
    ),
    # The data directory, or everything beyond the machine, answers later than a lease lasts.
    "disk-frozen": _scenario("edit", _at("preparing", Fault.DISK_FROZEN, seconds=6.0)),
    "network-frozen": _scenario("edit", _at("pushing", Fault.NETWORK_FROZEN, seconds=6.0)),
    "no-memory": _scenario("slow", _at("started", Fault.NO_MEMORY, seconds=3.0)),
    # What the agent prints cannot be stored at first.
    "database-away-while-logging": _scenario(
        "slow", _at("logging", Fault.DATABASE_DROPPED, seconds=1.0)
    ),
}
