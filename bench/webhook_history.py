"""Thirty days of deliveries, written directly into the tables of a store."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at
from bench.bulk_load import load_tables

ORGANIZATIONS = tuple(f"org-{number}" for number in range(4))
ENDPOINTS = 5
EVENTS_OF_A_JOB = 3
_DAYS = 29
_FAILED_EVERY = 13
_TIME_LENGTH = len("dlv_") + 10
_LIFE = ("job.queued", "job.started", "job.completed")

_COLUMNS = {
    "organizations": "id name plan created_at",
    "webhook_endpoints": "id organization_id url sealed key_id created_at updated_at",
    "events": "job_id sequence id event body created_at",
    "deliveries": "id organization_id endpoint_id job_id sequence event_id event status attempts"
    " failures due_at created_at fence",
    "delivery_attempts": "delivery_id id at duration_ms status_code error_class error address"
    " request_headers response_headers response_body",
}
_REQUEST = [
    ["Host", "hooks.example.com"],
    ["User-Agent", "agentjobs/1.0.0"],
    ["Accept-Encoding", "identity"],
    ["Content-Type", "application/json"],
    ["X-Service-Event", "job.queued"],
    ["X-Service-Delivery", "dlv_" + "0" * 26],
    ["X-Service-Sequence", "1"],
    ["X-Service-Signature-256", "sha256=" + "0" * 64],
    ["webhook-id", "evt_" + "0" * 26],
    ["webhook-timestamp", "1700000000"],
    ["webhook-signature", "v1," + "0" * 44],
    ["Content-Length", "170"],
]
_RESPONSE = [
    ["Date", "Tue, 14 Nov 2023 22:13:20 GMT"],
    ["Server", "nginx"],
    ["Content-Type", "text/plain; charset=utf-8"],
    ["Content-Length", "2"],
    ["Connection", "keep-alive"],
]
_HEADERS = (json.dumps(_REQUEST), json.dumps(_RESPONSE))

Rows = Iterator[tuple[Any, ...]]


@dataclass(frozen=True)
class History:
    """Each event goes to all endpoints of its organization, evenly distributed over time."""

    deliveries: int
    until_ms: int

    def at_ms(self, delivery: int) -> int:
        """The time of its event; deliveries are numbered from the oldest."""
        event = delivery // ENDPOINTS
        return (
            self.until_ms - _DAYS * DAY_MS + event * _DAYS * DAY_MS * ENDPOINTS // self.deliveries
        )

    def job_of(self, delivery: int) -> str:
        """An event of the first organization near that delivery."""
        job = delivery // ENDPOINTS // EVENTS_OF_A_JOB
        return self._job(job - job % len(ORGANIZATIONS))

    def tables(self) -> dict[str, Rows]:
        return {
            "organizations": ((name, name, "free", 0) for name in ORGANIZATIONS),
            "webhook_endpoints": (
                (
                    _endpoint(name, number),
                    name,
                    f"https://hooks.example.com/{number}",
                    b"s",
                    "k",
                    0,
                    0,
                )
                for name in ORGANIZATIONS
                for number in range(ENDPOINTS)
            ),
            "events": map(self._event, range(self.deliveries // ENDPOINTS)),
            "deliveries": map(self._delivery, range(self.deliveries)),
            "delivery_attempts": map(self._attempt, range(self.deliveries)),
        }

    def _event(self, number: int) -> tuple[Any, ...]:
        at = self.at_ms(number * ENDPOINTS)
        job, turn = divmod(number, EVENTS_OF_A_JOB)
        body = json.dumps(
            {"event": _LIFE[turn], "job_id": self._job(job), "repo": "acme/shop", "pr_url": None}
        )
        return self._job(job), turn + 1, _id("evt", at, number), _LIFE[turn], body.encode(), at

    def _delivery(self, number: int) -> tuple[Any, ...]:
        at = self.at_ms(number)
        event, endpoint = divmod(number, ENDPOINTS)
        job, turn = divmod(event, EVENTS_OF_A_JOB)
        organization = ORGANIZATIONS[job % len(ORGANIZATIONS)]
        has_failed = number % _FAILED_EVERY == 0
        return (
            _id("dlv", at, number),
            organization,
            _endpoint(organization, endpoint),
            self._job(job),
            turn + 1,
            _id("evt", at, event),
            _LIFE[turn],
            "failed" if has_failed else "delivered",
            1,
            int(has_failed),
            at,
            at,
            1,
        )

    def _attempt(self, number: int) -> tuple[Any, ...]:
        at = self.at_ms(number)
        outcome = (500, "http_status", "it answered 500") if number % _FAILED_EVERY == 0 else None
        return (
            _id("dlv", at, number),
            _id("att", at, number),
            at,
            12,
            *(outcome or (200, None, None)),
            "203.0.113.7:443",
            *_HEADERS,
            b"ok",
        )

    def _job(self, job: int) -> str:
        return _id("job", self.at_ms(job * EVENTS_OF_A_JOB * ENDPOINTS), job)


async def load_history(url: str, history: History) -> None:
    await load_tables(url, history.tables(), _COLUMNS)


def _endpoint(organization: str, number: int) -> str:
    return f"whk_{organization}_{number}"


def _id(prefix: str, at_ms: int, number: int) -> str:
    return f"{first_id_at(prefix, at_ms)[:_TIME_LENGTH]}{number:016}"
