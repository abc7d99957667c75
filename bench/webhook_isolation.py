"""How an endpoint that hangs until the timeout affects another one: from commit to first byte.

Three services, each on its own store, are measured alternately: with one endpoint, with a second
one that responds, and with a second one that never does and whose queue grows. The second healthy
endpoint has no goal: it shows what a second delivery per event costs.
"""

import contextlib
import statistics
from typing import Any

from bench.report import verdict
from bench.webhook_latency import events_for, latencies, p95
from bench.webhook_process import Ask, in_a_process
from bench.webhook_receiver import HANGING
from bench.webhook_service import sending_service
from bench.webhook_setup import STORES, WebhookSetup, webhook_setup

EVENTS_PER_SECOND = 100
ROUNDS = 6
SECONDS = 4
WARM_UP_SECONDS = 1
GOAL_RATIO = 1.2
_ORGANIZATION = "acme"
_OWN = "/own"
ALONE, HEALTHY, HANGS = "alone", "beside a healthy one", "beside one that hangs"
_ENDPOINTS = {ALONE: [_OWN], HEALTHY: [_OWN, "/other"], HANGS: [_OWN, HANGING]}
# Short enough to occur often, long enough to count as slow.
_ENVIRONMENT = {
    "AGENTJOBS_WEBHOOK_TIMEOUT_SECONDS": "2.5",
    "AGENTJOBS_WEBHOOK_CONNECT_SECONDS": "1",
}

Times = dict[str, list[float]]


def measure() -> list[dict[str, Any]]:
    found: dict[str, Times] = {store: {name: [] for name in _ENDPOINTS} for store in STORES}
    with webhook_setup() as setup, contextlib.ExitStack() as stack:
        services = {
            (store, name): _service(setup, stack, store, name)
            for store in STORES
            for name in _ENDPOINTS
        }
        for place, service in services.items():
            _p95_of(setup, service, place[1], WARM_UP_SECONDS)
        for _ in range(ROUNDS):
            for (store, name), service in services.items():
                found[store][name].append(_p95_of(setup, service, name, SECONDS))
    return [_figure(store, name, found[store]) for store in STORES for name in (HEALTHY, HANGS)]


def _service(setup: WebhookSetup, stack: contextlib.ExitStack, store: str, name: str) -> Ask:
    place = setup.make(store, {_ORGANIZATION: _ENDPOINTS[name]}, _ENVIRONMENT)
    return stack.enter_context(in_a_process(sending_service, place))


def _p95_of(setup: WebhookSetup, service: Ask, name: str, seconds: float) -> float:
    answering = sum(path != HANGING for path in _ENDPOINTS[name])
    events = events_for([_ORGANIZATION], EVENTS_PER_SECOND, seconds)
    return p95(latencies(setup, service, events, answering))


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
