"""A random schedule of jobs and faults, the same for the same seed. Knows no process."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

FAULT_SECONDS = 6.0


class Fault(StrEnum):
    """What happens to a process, the database, its network or the webhook receiver."""

    KILL = "kill"
    STOP = "stop"
    TERMINATE = "terminate"
    AWAY = "away"
    DATABASE_KILLED = "database-killed"
    DATABASE_DROPPED = "database-dropped"
    DATABASE_STALLED = "database-stalled"
    RECEIVER_FAILS = "receiver-fails"
    RECEIVER_HANGS = "receiver-hangs"


_OF_PROCESSES = (Fault.KILL, Fault.STOP, Fault.TERMINATE, Fault.AWAY)
_OF_DATABASE = (Fault.DATABASE_KILLED, Fault.DATABASE_DROPPED, Fault.DATABASE_STALLED)
_OF_RECEIVER = (Fault.RECEIVER_FAILS, Fault.RECEIVER_HANGS)


@dataclass(frozen=True)
class PlannedFault:
    """`target` is the name of a process, or empty."""

    at: float
    seconds: float
    fault: Fault
    target: str = ""


@dataclass(frozen=True)
class PlannedJob:
    """`cancel_after` is the time from the response to the cancel."""

    at: float
    agent: str
    cancel_after: float | None


@dataclass(frozen=True)
class Schedule:
    seed: int
    jobs: tuple[PlannedJob, ...]
    faults: tuple[PlannedFault, ...]

    def count(self, target: str, *faults: Fault) -> int:
        """How often one of the faults meets processes whose names start with `target`."""
        return sum(each.fault in faults and each.target.startswith(target) for each in self.faults)


def plan(
    seed: int, processes: tuple[str, ...], seconds: float = FAULT_SECONDS, *, has_server: bool
) -> Schedule:
    """Faults begin within `seconds`. `has_server`: the database is a server and can be away."""
    random = Random(seed)
    kinds = [*_OF_PROCESSES * 3, *_OF_RECEIVER, *(_OF_DATABASE * 2 if has_server else ())]
    jobs = tuple(_job(random, seconds) for _ in range(random.randint(8, 12)))
    faults = [
        _fault(random, random.choice(kinds), processes, seconds)
        for _ in range(random.randint(7, 12))
    ]
    return Schedule(seed, jobs, tuple(sorted(faults, key=lambda fault: fault.at)))


def _job(random: Random, seconds: float) -> PlannedJob:
    agent = random.choices(("edit", "slow", "idle", "crash"), (3, 7, 1, 1))[0]
    cancel_after = random.uniform(0, 3) if random.random() < 0.2 else None
    return PlannedJob(random.uniform(0, seconds * 0.7), agent, cancel_after)


def _fault(
    random: Random, fault: Fault, processes: tuple[str, ...], seconds: float
) -> PlannedFault:
    target = random.choice(processes) if fault in _OF_PROCESSES else ""
    lasts = random.uniform(0.1, seconds * 0.7)
    return PlannedFault(random.uniform(0, seconds), lasts, fault, target)
