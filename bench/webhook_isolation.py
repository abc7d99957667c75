"""What an endpoint feels of another one that hangs until the timeout: from commit to first byte.

Three services on a store of their own, in turns: with one endpoint alone, with a second one that
answers, with a second one that never does and whose queue only grows. The second healthy one has
no goal: it shows what a second delivery per event costs, whatever its receiver does.
"""

import contextlib
import statistics
from typing import Any

from bench.report import verdict
from bench.webhook_latency import events_for, latencies, p95
from bench.webhook_places import STORES, Places, places
from bench.webhook_process import Ask, in_a_process
from bench.webhook_receiver import HANGING
from bench.webhook_service import sending_service

EVENTS_PER_SECOND = 100
ROUNDS = 6
SECONDS = 4
WARM_UP_SECONDS = 1
GOAL_RATIO = 1.2
_ORGANIZATION = "acme"
_OWN = "/own"
ALONE, HEALTHY, HANGS = "alone", "beside a healthy one", "beside one that hangs"
_ENDPOINTS = {ALONE: [_OWN], HEALTHY: [_OWN, "/other"], HANGS: [_OWN, HANGING]}
# Short enough to be reached over and over, long enough to count as slow.
_ENVIRONMENT = {
    "AGENTJOBS_WEBHOOK_TIMEOUT_SECONDS": "2.5",
    "AGENTJOBS_WEBHOOK_CONNECT_SECONDS": "1",
}

Times = dict[str, list[float]]


def measure() -> list[dict[str, Any]]:
    found: dict[str, Times] = {store: {name: [] for name in _ENDPOINTS} for store in STORES}
    with places() as where, contextlib.ExitStack() as stack:
        services = {
            (store, name): _service(where, stack, store, name)
            for store in STORES
            for name in _ENDPOINTS
        }
        for place, service in services.items():
            _p95_of(where, service, place[1], WARM_UP_SECONDS)
        for _ in range(ROUNDS):
            for (store, name), service in services.items():
                found[store][name].append(_p95_of(where, service, name, SECONDS))
    return [_figure(store, name, found[store]) for store in STORES for name in (HEALTHY, HANGS)]


def _service(where: Places, stack: contextlib.ExitStack, store: str, name: str) -> Ask:
    place = where.make(store, {_ORGANIZATION: _ENDPOINTS[name]}, _ENVIRONMENT)
    return stack.enter_context(in_a_process(sending_service, place))


def _p95_of(where: Places, service: Ask, name: str, seconds: float) -> float:
    answering = sum(path != HANGING for path in _ENDPOINTS[name])
    events = events_for([_ORGANIZATION], EVENTS_PER_SECOND, seconds)
    return p95(latencies(where, service, events, answering))


def _figure(store: str, name: str, found: Times) -> dict[str, Any]:
    ratios = [own / alone for own, alone in zip(found[name], found[ALONE], strict=True)]
    ratio = statistics.median(ratios)
    return {
        "store": store,
        "endpoint": name,
        "events per second": EVENTS_PER_SECOND,
        "p95 ms": round(statistics.median(found[name]), 1),
        "alone p95 ms": round(statistics.median(found[ALONE]), 1),
        "ratio": round(ratio, 2),
        "lowest": round(min(ratios), 2),
        "highest": round(max(ratios), 2),
        "goal": GOAL_RATIO if name == HANGS else "-",
        "verdict": verdict(met=ratio <= GOAL_RATIO) if name == HANGS else "-",
    }
