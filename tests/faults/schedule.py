"""A schedule of jobs and faults: random, and the same for the same seed. Knows no process.

`scenarios.py` has those that are written by hand.
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

FAULT_SECONDS = 5.0
# Longer than a lease, so that another worker takes over.
_TAKEOVER_SECONDS = (5.5, 8.5)
_MAX_CLOCK_STEP_SECONDS = 7_200.0


class Fault(StrEnum):
    """What happens to a process, to the database or to another part of the deployment."""

    KILL = "kill"
    STOP = "stop"
    TERMINATE = "terminate"
    AWAY = "away"
    DISK_FULL = "disk-full"
    DISK_FROZEN = "disk-frozen"
    NO_PROCESSES = "no-processes"
    NO_MEMORY = "no-memory"
    CLOCK_STEP = "clock-step"
    DATABASE_KILLED = "database-killed"
    DATABASE_DROPPED = "database-dropped"
    DATABASE_STALLED = "database-stalled"
    DATABASE_FROZEN = "database-frozen"
    STANDBY_PROMOTED = "standby-promoted"
    POOLER_KILLED = "pooler-killed"
    PLATFORM_DROPPED = "platform-dropped"
    PLATFORM_STALLED = "platform-stalled"
    PLATFORM_FAILS = "platform-fails"
    RECEIVER_FAILS = "receiver-fails"
    RECEIVER_HANGS = "receiver-hangs"
    SERVICE_STALLED = "service-stalled"
    NETWORK_FROZEN = "network-frozen"
    # No fault, but a client's; only scenarios plan it.
    CANCEL = "cancel"


class Topology(StrEnum):
    """What a deployment consists of."""

    SINGLE = "single"
    FLEET = "fleet"
    POOLED = "pooled"
    REPLICATED = "replicated"
    PLATFORM = "platform"
    CLOCKS = "clocks"


TOPOLOGIES: dict[str, tuple[Topology, ...]] = {
    "sqlite": (Topology.SINGLE, Topology.FLEET, Topology.PLATFORM, Topology.CLOCKS),
    "postgresql": (
        Topology.FLEET,
        Topology.POOLED,
        Topology.REPLICATED,
        Topology.PLATFORM,
        Topology.CLOCKS,
    ),
}

OF_PROCESSES = (Fault.KILL, Fault.STOP, Fault.TERMINATE, Fault.AWAY)
OF_DATABASE = (Fault.DATABASE_KILLED, Fault.DATABASE_DROPPED, Fault.DATABASE_STALLED)
OF_RECEIVER = (Fault.RECEIVER_FAILS, Fault.RECEIVER_HANGS)
OF_PLATFORM = (Fault.PLATFORM_DROPPED, Fault.PLATFORM_STALLED, Fault.PLATFORM_FAILS)
# Meets one process: the one that is named, or the one that reached the phase.
LOCAL = (
    *OF_PROCESSES,
    *(Fault.DISK_FULL, Fault.DISK_FROZEN, Fault.NO_PROCESSES, Fault.NO_MEMORY, Fault.CLOCK_STEP),
)
# Nothing fails, and nothing answers either, possibly for longer than a lease.
_FROZEN = (
    *(Fault.DATABASE_FROZEN, Fault.DISK_FROZEN),
    *(Fault.SERVICE_STALLED, Fault.NETWORK_FROZEN),
)
# What a topology is for, so that each of its schedules has it.
_PURPOSE: dict[Topology, tuple[Fault, ...]] = {
    Topology.POOLED: (Fault.POOLER_KILLED,),
    Topology.REPLICATED: (Fault.STANDBY_PROMOTED,),
    Topology.PLATFORM: OF_PLATFORM,
    Topology.CLOCKS: (Fault.CLOCK_STEP,),
}

_SEVERAL_SERVES = (Topology.FLEET, Topology.PLATFORM)
# The phases of `failpoints.py`, and how often a schedule chooses them.
_PHASES = {
    "accepted": 1,
    "claimed": 2,
    "preparing": 1,
    "started": 4,
    "agent-ended": 2,
    "pushing": 3,
    "received": 1,
    "pushed": 2,
    "pull-opened": 2,
    "keeping": 1,
    "publishing-kept": 1,
    "finishing": 2,
    "storing": 2,
    "finished": 1,
    "sending": 1,
    "sent": 1,
}


# Where a worker that returns too late would do the most harm.
_TAKEOVER_PHASES = {
    "claimed": 1,
    "preparing": 1,
    "started": 2,
    "agent-ended": 2,
    "pushing": 3,
    "pull-opened": 2,
    "keeping": 1,
    "publishing-kept": 1,
    "finishing": 3,
    "storing": 3,
    "sending": 1,
}


@dataclass(frozen=True)
class PlannedFault:
    """Begins at a time, or `delay` after a phase was reached for the `occurrence`-th time.

    Ends after `seconds`, or when a process reaches the phase `until`.
    """

    fault: Fault
    seconds: float
    at: float | None = None
    target: str = ""
    phase: str = ""
    occurrence: int = 1
    delay: float = 0.0
    until: str = ""
    # How far a clock steps.
    step_seconds: float = 0.0


@dataclass(frozen=True)
class PlannedJob:
    """`cancel_after` is the time from the response to the cancel."""

    at: float
    agent: str
    cancel_after: float | None
    is_on_platform: bool = False


@dataclass(frozen=True)
class Schedule:
    seed: int
    topology: Topology
    processes: tuple[str, ...]
    jobs: tuple[PlannedJob, ...]
    faults: tuple[PlannedFault, ...]
    # Settings of all processes that differ from those of other runs.
    settings: tuple[tuple[str, str], ...] = ()
    # How many jobs may run at a time after claims were lost; None if that does not matter.
    max_parallel: int | None = None

    @property
    def cancels_jobs(self) -> bool:
        return any(planned.fault is Fault.CANCEL for planned in self.faults)


def plan(
    seed: int,
    engine: str,
    seconds: float = FAULT_SECONDS,
    *,
    topology: Topology | None = None,
    can_fill_disks: bool = True,
    can_limit_processes: bool = True,
) -> Schedule:
    """Faults begin within `seconds`. The seed decides on the topology, unless it is given."""
    topology = topology or TOPOLOGIES[engine][seed % len(TOPOLOGIES[engine])]
    random = Random(f"{engine}-{topology}-{seed}")
    processes = _processes(engine, topology)
    jobs = tuple(_job(random, seconds, topology) for _ in range(random.randint(3, 5)))
    kinds = _kinds(engine, topology, can_fill_disks=can_fill_disks)
    purpose = _PURPOSE.get(topology)
    faults = [_fault(random, random.choice(purpose), processes, seconds)] if purpose else []
    faults += [
        _fault(random, random.choice(kinds), processes, seconds)
        for _ in range(random.randint(5, 9))
    ]
    scarce = _scarcities(
        engine, topology, has_disks=can_fill_disks, has_processes=can_limit_processes
    )
    faults.append(_fault(random, random.choice(scarce), processes, seconds))
    return Schedule(seed, topology, processes, jobs, tuple(faults))


def _processes(engine: str, topology: Topology) -> tuple[str, ...]:
    if engine == "sqlite":
        # All processes of a machine have the same clock.
        is_alone = topology in (Topology.SINGLE, Topology.CLOCKS)
        return ("up",) if is_alone else ("serve-1", "worker-1", "worker-2")
    serves = ("serve-1", "serve-2") if topology in _SEVERAL_SERVES else ("serve-1",)
    return (*serves, "worker-1", "worker-2")


def _kinds(engine: str, topology: Topology, *, can_fill_disks: bool) -> list[Fault]:
    kinds = [*OF_PROCESSES * 3, Fault.STOP, Fault.STOP, *OF_RECEIVER]
    if can_fill_disks:
        kinds.append(Fault.DISK_FULL)
    if engine == "postgresql" and topology is not Topology.REPLICATED:
        kinds += OF_DATABASE
    if topology in (Topology.PLATFORM, Topology.CLOCKS):
        kinds += _PURPOSE[topology]
    return kinds


def _scarcities(
    engine: str, topology: Topology, *, has_disks: bool, has_processes: bool
) -> list[Fault]:
    """What answers late or not at all. One of them is added to every schedule."""
    kinds = [Fault.SERVICE_STALLED, Fault.NETWORK_FROZEN, Fault.NO_MEMORY]
    if has_disks:
        kinds.append(Fault.DISK_FROZEN)
    if has_processes:
        kinds.append(Fault.NO_PROCESSES)
    if engine == "postgresql" and topology is not Topology.REPLICATED:
        kinds += [Fault.DATABASE_FROZEN] * 2
    return kinds


def _job(random: Random, seconds: float, topology: Topology) -> PlannedJob:
    agent = random.choices(("edit", "slow", "idle", "crash"), (4, 5, 2, 2))[0]
    cancel_after = random.uniform(0, 3) if random.random() < 0.15 else None
    is_on_platform = topology is Topology.PLATFORM and random.random() < 0.75
    return PlannedJob(random.uniform(0, seconds * 0.6), agent, cancel_after, is_on_platform)


def _fault(
    random: Random, fault: Fault, processes: tuple[str, ...], seconds: float
) -> PlannedFault:
    lasts = random.uniform(0.1, seconds * (1.7 if fault in _FROZEN else 0.7))
    step = random.choice((-1, 1)) * random.uniform(1, _MAX_CLOCK_STEP_SECONDS)
    if random.random() < 0.3:
        target = random.choice(processes) if fault in LOCAL else ""
        at = random.uniform(0, seconds)
        return PlannedFault(fault, lasts, at=at, target=target, step_seconds=step)
    phases = _PHASES
    if fault is Fault.STOP:
        lasts, phases = random.uniform(*_TAKEOVER_SECONDS), _TAKEOVER_PHASES
    (phase,) = random.choices(tuple(phases), tuple(phases.values()))
    # While the agent runs.
    delay = random.uniform(0.1, 1.5) if phase == "started" and random.random() < 0.6 else 0.0
    return PlannedFault(
        fault,
        lasts,
        phase=phase,
        occurrence=random.choice((1, 1, 2, 2, 3)),
        delay=delay,
        step_seconds=step,
    )
