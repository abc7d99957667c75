"""How long jobs run, learned from those that ended last. Pure."""

import random
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

# Fewer jobs of an agent in one repository say less than its jobs in all of them.
_MIN_SAMPLES_OF_REPO = 5
_MAX_SAMPLES = 100
_UNKNOWN_MS = 60_000


class FinishedJob(msgspec.Struct, frozen=True):
    agent: str
    repo_id: str
    duration_ms: int


class Durations:
    """`finished` are the jobs that ended last, newest first."""

    def __init__(self, finished: Iterable[FinishedJob] = ()) -> None:
        samples: dict[tuple[str, ...], list[int]] = {}
        for job in finished:
            for key in ((job.agent, job.repo_id), (job.agent,), ()):
                if len(of_key := samples.setdefault(key, [])) < _MAX_SAMPLES:
                    of_key.append(job.duration_ms)
        self._samples: Mapping[tuple[str, ...], Sequence[int]] = {
            key: sorted(durations) for key, durations in samples.items()
        }
        self._typical_ms: dict[str, int] = {}

    def of(self, agent: str, repo_id: str = "") -> Sequence[int]:
        """Samples of the agent in the repository if there are enough, of the agent, or of all. In
        ascending order, and never empty."""
        samples = self._samples
        if len(of_repo := samples.get((agent, repo_id), ())) >= _MIN_SAMPLES_OF_REPO:
            return of_repo
        return samples.get((agent,)) or samples.get(()) or (_UNKNOWN_MS,)

    def typical_ms(self, agent: str) -> int:
        if agent not in self._typical_ms:
            self._typical_ms[agent] = round(statistics.fmean(self.of(agent)))
        return self._typical_ms[agent]


def draw_remaining_ms(samples: Sequence[int], elapsed_ms: int, chance: random.Random) -> float:
    """Draws the remaining time of a job that has run for `elapsed_ms` from jobs that took longer.

    If none did, half of such jobs are expected to run for as long again.
    """
    shorter = bisect_right(samples, elapsed_ms) if elapsed_ms else 0
    longer = len(samples) - shorter
    if longer:
        return samples[shorter + int(chance.random() * longer)] - elapsed_ms
    return elapsed_ms * (1 / (1 - chance.random()) - 1)
