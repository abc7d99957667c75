"""From the commit of an event to the first byte at its receiver, at 200 deliveries per second.

Ten endpoints of five organizations, so that each event has two deliveries; jobs with three events
each; events occur at random times. The time starts when the transaction that recorded the event
has returned, and ends at the receiver, a separate process.
"""

import contextlib
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentjobs.webhooks.events import JOB_COMPLETED, JOB_QUEUED, JOB_STARTED
from agentjobs_runtime.identifiers import new_id
from bench.report import verdict
from bench.webhook_process import Ask, in_a_process
from bench.webhook_receiver import HANGING
from bench.webhook_service import Commits, Event, sending_service, writing_service
from bench.webhook_setup import WebhookSetup, paths_of, webhook_setup

DELIVERIES_PER_SECOND = 200
ORGANIZATIONS = 5
ENDPOINTS_EACH = 2
ROUNDS = 4
SECONDS = 5
WARM_UP_SECONDS = 1
GOAL_P95_MS = 50.0
_RATE = DELIVERIES_PER_SECOND / ENDPOINTS_EACH
_JOBS_AT_ONCE = 10
_LIFE = (JOB_QUEUED, JOB_STARTED, JOB_COMPLETED)
_LONGEST_WAIT_SECONDS = 60


@dataclass(frozen=True)
class Case:
    store: str
    written_by: str
    writer: Ask


def measure() -> list[dict[str, Any]]:
    with webhook_setup() as setup, contextlib.ExitStack() as stack:
        cases = _cases(setup, stack)
        names = sorted(paths_of(ORGANIZATIONS, ENDPOINTS_EACH))
        for case in cases:
            latencies(setup, case.writer, events_for(names, _RATE, WARM_UP_SECONDS), ENDPOINTS_EACH)
        found: list[list[float]] = [[] for _ in cases]
        for _ in range(ROUNDS):
            for case, times in zip(cases, found, strict=True):
                events = events_for(names, _RATE, SECONDS)
                times.extend(latencies(setup, case.writer, events, ENDPOINTS_EACH))
    return [_figure(case, times) for case, times in zip(cases, found, strict=True)]


def _cases(setup: WebhookSetup, stack: contextlib.ExitStack) -> list[Case]:
    paths = paths_of(ORGANIZATIONS, ENDPOINTS_EACH)
    cases = []
    for store in ("sqlite", "postgresql"):
        service = stack.enter_context(in_a_process(sending_service, setup.make(store, paths)))
        cases.append(Case(store, "the sender's process", service))
    place = setup.make("postgresql", paths)
    stack.enter_context(in_a_process(sending_service, place))
    writer = stack.enter_context(in_a_process(writing_service, place))
    return [*cases, Case("postgresql", "another process", writer)]


def events_for(organizations: Sequence[str], per_second: float, seconds: float) -> list[Event]:
    """Some jobs run concurrently until each has all its events; then others follow."""
    at = 0.0
    events: list[Event] = []
    while at < seconds:
        for number in range(_JOBS_AT_ONCE * len(_LIFE)):
            turn, lane = divmod(number, _JOBS_AT_ONCE)
            if turn == 0 and lane == 0:
                jobs = [new_id("job") for _ in range(_JOBS_AT_ONCE)]
            at += random.expovariate(per_second)
            organization = organizations[lane % len(organizations)]
            events.append(Event(at, organization, jobs[lane], turn + 1, _LIFE[turn]))
    return [event for event in events if event.after_seconds < seconds]


def latencies(
    setup: WebhookSetup, writer: Ask, events: list[Event], endpoints_each: int
) -> list[float]:
    """In milliseconds, for deliveries with a response; all must arrive."""
    setup.receiver("take")
    commits: Commits = writer("emit", events)
    _wait_until_answered(setup, len(events) * endpoints_each)
    return [
        (arrival.at_ns - commits[arrival.job_id, arrival.sequence]) / 1e6
        for arrival in setup.receiver("take")
        if not arrival.path.startswith(HANGING) and (arrival.job_id, arrival.sequence) in commits
    ]


def _wait_until_answered(setup: WebhookSetup, count: int) -> None:
    give_up = time.monotonic() + _LONGEST_WAIT_SECONDS
    while (answered := setup.receiver("answered")) < count:
        if time.monotonic() > give_up:
            raise RuntimeError(f"only {answered} of {count} deliveries arrived")
        time.sleep(0.05)


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[18]


def _figure(case: Case, times: list[float]) -> dict[str, Any]:
    return {
        "store": case.store,
        "written by": case.written_by,
        "deliveries": len(times),
        "per second": DELIVERIES_PER_SECOND,
        "p50 ms": round(statistics.median(times), 1),
        "p95 ms": round(p95(times), 1),
        "longest ms": round(max(times), 1),
        "goal p95 ms": GOAL_P95_MS,
        "verdict": verdict(met=p95(times) <= GOAL_P95_MS),
    }
