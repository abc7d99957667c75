"""All bad receivers at once against one running service: recorded outcomes and isolation.

All are endpoints of one organization and receive the same job, next to a healthy endpoint.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from ssl import SSLContext
from typing import Any

from tests.support import bad_receivers as bad
from tests.support.bad_receivers import Authority, Behaviour, new_authority
from tests.support.receiver import Receiver, receiver
from tests.support.service import Service, wait_until
from tests.support.webhook_service import (
    QUICK,
    REPO,
    RETRY_SECONDS,
    WebhookHarness,
    bad_receivers,
    open_harness,
    outcomes,
    running,
)

ATTEMPTS = 1 + len(RETRY_SECONDS)
# The log rounds times to milliseconds.
CLOCK_TICK = 0.003
HERE = "127.0.0.1"

# The status or the error class of each attempt.
Outcomes = list[str | int]


def always(error_class: str) -> Outcomes:
    return [error_class] * ATTEMPTS


def cuts_its_body() -> Behaviour:
    at_once = asyncio.Event()
    at_once.set()
    return bad.resets_mid_body(at_once)


def asks_to_wait(*names: str) -> Behaviour:
    responses = (bad.response(429, {"Retry-After": bad.RETRY_AFTER[name]}) for name in names)
    return bad.in_sequence(*responses)


BOMB = "gzip bomb"
PLAIN: dict[str, tuple[Behaviour, Outcomes]] = {
    "never answers": (bad.never_responds, always("timeout")),
    "drips its head": (bad.drips_head(), always("timeout")),
    "drips its body": (bad.drips_body(), [200]),
    "endless body": (bad.endless_body, [200]),
    BOMB: (bad.gzip_bomb, [200]),
    "10 MB of headers": (bad.many_headers, always("protocol")),
    "reset after the request's head": (bad.resets_after_request_head, always("protocol")),
    "reset after the request": (bad.resets_after_request, always("protocol")),
    "reset within the head": (bad.resets_mid_head, always("protocol")),
    "reset within the body": (cuts_its_body(), [200]),
    "301": (bad.redirects(301), always("redirect")),
    "307": (bad.redirects(307), always("redirect")),
    "429 that asks for time": (asks_to_wait("seconds", "date", "huge"), always("http_status")),
    "429 with nonsense": (asks_to_wait("nonsense"), always("http_status")),
    "410": (bad.responds(410), ["http_status"]),
    "204": (bad.responds(204), [204]),
    "500 thrice": (bad.fails_thrice(), [*["http_status"] * 3, 200]),
}
# The URL is https, but the socket does not use TLS.
NO_TLS: dict[str, tuple[Behaviour, Outcomes]] = {
    "reset in the handshake": (bad.resets_in_handshake, always("tls")),
    "plain text": (bad.speaks_plain_text, always("tls")),
    "no handshake": (bad.never_starts_tls, always("timeout")),
}
CERTIFICATES: dict[str, Outcomes] = {
    "good certificate": [200],
    "self-signed": always("tls"),
    "wrong name": always("tls"),
    "expired": always("tls"),
}
NO_SUCH_NAME = "no such name"
# The client may notice the reset before or after it is connected.
RESET_AT_ONCE = "reset at once"
EXPECTED: dict[str, Outcomes] = {
    **{name: outcome for name, (_, outcome) in (PLAIN | NO_TLS).items()},
    **CERTIFICATES,
    NO_SUCH_NAME: always("dns"),
}


@dataclass(frozen=True)
class ReceiverHarness:
    harness: WebhookHarness
    healthy: Receiver
    received: dict[str, bad.Receiver]
    # Endpoint IDs of the bad receivers.
    ids: dict[str, str]


@contextmanager
def open_receivers(home: Path) -> Iterator[ReceiverHarness]:
    authority = new_authority(home)
    environment = {
        **QUICK,
        "AGENTJOBS_WEBHOOK_TIMEOUT_SECONDS": "2",
        "AGENTJOBS_WEBHOOK_CONNECT_SECONDS": "2",
        "AGENTJOBS_WEBHOOK_LEASE_SECONDS": "7",
        "AGENTJOBS_CA_FILE": str(authority.file),
        "AGENTJOBS_DRAIN_GRACE_SECONDS": "0.2",
    }
    behaviours = served(authority)
    # Generating the bomb would block the event loop of receivers with exact timing.
    bomb = {BOMB: behaviours.pop(BOMB)}
    with (
        receiver() as healthy,
        bad_receivers(behaviours) as received,
        bad_receivers(bomb) as apart,
        # The service stops before the receivers, so that no connection is open then.
        running(Service(home / "data", environment)) as service,
    ):
        harness = open_harness(service, home)
        received.update(apart)
        yield ReceiverHarness(harness, healthy, received, add_all(harness, urls_of(received)))


def served(authority: Authority) -> dict[str, tuple[Behaviour, SSLContext | None]]:
    contexts = {
        "good certificate": authority.certificate(HERE),
        "self-signed": authority.untrusted(HERE),
        "wrong name": authority.certificate("other.example"),
        "expired": authority.certificate(HERE, expired=True),
    }
    return {
        **{name: (behaviour, None) for name, (behaviour, _) in (PLAIN | NO_TLS).items()},
        RESET_AT_ONCE: (bad.resets_at_once, None),
        **{name: (bad.responds(200), context) for name, context in contexts.items()},
    }


def urls_of(received: dict[str, bad.Receiver]) -> dict[str, str]:
    return {
        **{name: receiver.url() for name, receiver in received.items()},
        **{name: f"https://{HERE}:{received[name].port}/" for name in NO_TLS},
        NO_SUCH_NAME: "https://hooks.invalid/",
    }


def add_all(harness: WebhookHarness, urls: dict[str, str]) -> dict[str, str]:
    with ThreadPoolExecutor(2) as commands:
        added = commands.map(lambda url: harness.add(url, "--events", "job.queued"), urls.values())
        return {name: endpoint.id for name, endpoint in zip(urls, added, strict=True)}


Log = dict[str, dict[str, Any]]


def test_bad_receivers_are_classified_and_do_not_affect_others(tmp_path: Path) -> None:
    with open_receivers(tmp_path) as receivers:
        healthy = receivers.harness.add(receivers.healthy.url)
        assert receivers.harness.api.finish(REPO, "idle")["status"] == "failed"
        receivers.healthy.wait_for(3)
        receivers.harness.check_healthy()
        hanging = receivers.received["never answers"]
        wait_until(lambda: len(hanging.requests) == ATTEMPTS, "the last attempt that hangs")
        everything = receivers.harness.settled("--limit", "200")
        log = {
            name: delivery
            for name, endpoint_id in receivers.ids.items()
            for delivery in everything
            if delivery["endpoint"] == endpoint_id
        }
        healthy_deliveries = [
            delivery for delivery in everything if delivery["endpoint"] == healthy.id
        ]

        check_outcomes(log)
        check_addresses(log, receivers.received)
        check_waits(log)
        check_requests(receivers.received)
        check_only_the_gone_one_is_disabled(receivers)
        check_healthy_one_was_not_delayed(
            receivers.healthy, healthy_deliveries, log["never answers"]
        )
        receivers.harness.check_healthy()


def check_outcomes(log: Log) -> None:
    at_once = outcomes(log[RESET_AT_ONCE])
    assert len(at_once) == ATTEMPTS
    assert set(at_once) <= {"connect", "protocol"}
    assert {name: outcomes(log[name]) for name in EXPECTED} == EXPECTED
    for name, delivery in log.items():
        succeeded = isinstance(outcomes(delivery)[-1], int)
        assert delivery["status"] == ("delivered" if succeeded else "failed"), name
        assert delivery["next_attempt_at"] is None
        for each in delivery["attempts"]:
            assert bool(each["error"]) == bool(each["error_class"]), name


def check_addresses(log: Log, received: dict[str, bad.Receiver]) -> None:
    dialled = {name: {each["address"] for each in log[name]["attempts"]} for name in log}
    assert dialled == {
        **{name: {f"{HERE}:{receiver.port}"} for name, receiver in received.items()},
        NO_SUCH_NAME: {None},
    }


def check_waits(log: Log) -> None:
    """`Retry-After` extends each wait to twice its length; other waits may be 20 % shorter."""
    for name, factor in {"429 that asks for time": 2, "429 with nonsense": 0.8, "301": 0.8}.items():
        for waited, planned in zip(waits(log[name]), RETRY_SECONDS, strict=True):
            assert waited >= planned * factor - CLOCK_TICK, name


def waits(delivery: dict[str, Any]) -> list[float]:
    """Seconds between the end of an attempt and the start of the next."""
    began = [datetime.fromisoformat(each["at"]).timestamp() for each in delivery["attempts"]]
    took = [each["duration_ms"] / 1_000 for each in delivery["attempts"]]
    return [
        after - before - seconds
        for (before, after), seconds in zip(itertools.pairwise(began), took, strict=False)
    ]


def check_requests(received: dict[str, bad.Receiver]) -> None:
    """Every attempt is the same event; without an accepted certificate nothing is sent."""
    for name in ("never answers", "500 thrice", "301", "reset after the request"):
        requests = received[name].requests
        assert len(requests) == ATTEMPTS, name
        assert len({request.headers["webhook-id"] for request in requests}) == 1
        assert len({request.headers["x-service-delivery"] for request in requests}) == 1
        assert len({request.body for request in requests}) == 1
    for name in ("self-signed", "wrong name", "expired", "plain text"):
        assert received[name].requests == [], name


def check_only_the_gone_one_is_disabled(receivers: ReceiverHarness) -> None:
    listed = json.loads(receivers.harness.webhooks("list", "--json"))["webhooks"]
    disabled = {
        endpoint["id"]: endpoint["disabled_reason"]
        for endpoint in listed
        if not endpoint["enabled"]
    }
    assert disabled == {receivers.ids["410"]: "gone"}


def check_healthy_one_was_not_delayed(
    healthy: Receiver, deliveries: list[dict[str, Any]], hanging: dict[str, Any]
) -> None:
    assert [request.event for request in healthy.received] == [
        "job.queued",
        "job.started",
        "job.failed",
    ]
    assert [outcomes(delivery) for delivery in deliveries] == [[204]] * 3
    # The end of the job was delivered before the hanging deliveries timed out.
    assert deliveries[-1]["attempts"][0]["at"] < hanging["attempts"][-1]["at"]
