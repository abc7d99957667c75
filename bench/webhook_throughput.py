"""A queue of deliveries until all are sent and recorded, compared to plain POSTs without recording.

Both run in the same process with the same receiver, concurrency, size of body and headers,
alternately. A figure is the median over the rounds of the ratio within a round.
"""

import contextlib
import statistics
from typing import Any

from bench.report import verdict
from bench.webhook_process import Ask, in_a_process
from bench.webhook_service import writing_service
from bench.webhook_setup import STORES, WebhookSetup, paths_of, webhook_setup

ORGANIZATIONS = 4
ENDPOINTS_EACH = 5
DELIVERIES = 3_000
ROUNDS = 7
GOAL_RATIO = 0.5
AT_ONCE = 64
_ENVIRONMENT = {
    "AGENTJOBS_WEBHOOK_CONCURRENCY": str(AT_ONCE),
    "AGENTJOBS_WEBHOOK_ENDPOINT_CONCURRENCY": "8",
}

Rates = list[tuple[float, float]]


def measure() -> list[dict[str, Any]]:
    rates: dict[str, Rates] = {store: [] for store in STORES}
    with webhook_setup() as setup, contextlib.ExitStack() as stack:
        services = {store: _service(setup, stack, store) for store in STORES}
        for number in range(ROUNDS + 1):
            for store, service in services.items():
                rates[store].append(_round(setup, service, is_bare_first=number % 2 == 0))
                if number == 0:
                    service("settle_in")
    # The first round warms up.
    return [_figure(store, rates[store][1:]) for store in STORES]


def _service(setup: WebhookSetup, stack: contextlib.ExitStack, store: str) -> Ask:
    place = setup.make(store, paths_of(ORGANIZATIONS, ENDPOINTS_EACH), _ENVIRONMENT)
    return stack.enter_context(in_a_process(writing_service, place))


def _round(setup: WebhookSetup, service: Ask, *, is_bare_first: bool) -> tuple[float, float]:
    """Deliveries and plain POSTs per second."""
    service("fill", DELIVERIES // ENDPOINTS_EACH)
    bare = service("post", DELIVERIES) if is_bare_first else 0.0
    setup.receiver("take")
    own = service("drain")
    arrived = len(setup.receiver("take"))
    if arrived != DELIVERIES:
        raise RuntimeError(f"{arrived} requests for {DELIVERIES} deliveries")
    return DELIVERIES / own, DELIVERIES / (bare or service("post", DELIVERIES))


def _figure(store: str, rates: Rates) -> dict[str, Any]:
    ratios = [own / bare for own, bare in rates]
    return {
        "store": store,
        "deliveries": DELIVERIES,
        "at once": AT_ONCE,
        "per second": round(statistics.median(own for own, _ in rates)),
        "bare POSTs": round(statistics.median(bare for _, bare in rates)),
        "ratio": round(statistics.median(ratios), 2),
        "lowest": round(min(ratios), 2),
        "highest": round(max(ratios), 2),
        "goal": GOAL_RATIO,
        "verdict": verdict(met=statistics.median(ratios) >= GOAL_RATIO),
    }
