"""The last thirty days of an organization, written directly into the tables of a store.

100,000 jobs with their events, deliveries and costs, pull requests, the audit log, users, keys and
endpoints.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at
from bench.bulk_load import load_tables

JOBS = 100_000
EVENTS_OF_A_JOB = 3
PULLS = 2_000
DAYS = 30
ORGANIZATION, ORGANIZATION_ID = "acme", "org_large"
REPO = "acme/shop"
REPO_ID = "repo_0"
AGENTS = ("lint-fixer", "agent-1", "agent-2", "agent-3")

_AUDIT_ENTRIES = 10_000
_ENDPOINTS = _KEYS = _PEOPLE = 50
_OPEN = 200
_TIME_LENGTH = 10
_REPOS = (REPO, "acme/old", "acme/first", *(f"acme/part-{number}" for number in range(17)))
_LIFE = ("job.queued", "job.started", "job.completed")
_ACTIONS = ("api_key.created", "pull.merged", "user.signed_in", "webhook.changed", "member.added")
_PROMPT = "You are a coding agent, working on a repository.\n" * 60
_LOG_CHUNKS = 64
_LOG_LINE = "\x1b[2m12:00:00\x1b[0m \x1b[32mok\x1b[0m  src/shop/prices.py is as it should be, {}\n"
_HEADERS = json.dumps([["Content-Type", "application/json"], ["X-Service-Event", "job.queued"]] * 4)

_COLUMNS = {
    "organizations": "id name plan created_at",
    "repos": "id organization_id full_name platform source default_branch head_commit created_at",
    "repo_index": "repo_id status line_count",
    "jobs": "id organization_id repo_id repo agent ticket_id config_override status created_at"
    " queued_at started_at completed_at branch base_commit head_commit pr_url pr_number error_code"
    " error_message usage prompt created_by created_by_name last_sequence",
    "job_spending": "job_id spent_nanousd",
    "job_logs": "job_id sequence created_at text",
    "events": "job_id sequence id event body created_at",
    "webhook_endpoints": "id organization_id url sealed key_id created_at updated_at",
    "deliveries": "id organization_id endpoint_id job_id sequence event_id event status attempts"
    " due_at created_at",
    "delivery_attempts": "delivery_id id at duration_ms status_code error_class error address"
    " request_headers response_headers response_body",
    "pulls": "repo_id number title body head_branch base_branch head_commit base_commit state draft"
    " created_at",
    "users": "id email name created_at",
    "memberships": "organization_id user_id role created_at",
    "api_keys": "id organization_id name hint hash scope git_write created_at",
    "secrets": "organization_id name sealed key_id created_at updated_at",
    "daily_spending": "organization_id day spent_nanousd",
    "audit_log": "id organization_id at actor_kind actor_id actor action target details address",
    "workers": "id hostname agents slots started_at heartbeat_at",
}

Row = tuple[Any, ...]


@dataclass(frozen=True)
class History:
    """`base` and `head` are the commits of the latest pull request, and of the job with a log."""

    until_ms: int
    base: str = "0" * 40
    head: str = "1" * 40

    @property
    def logged_job(self) -> str:
        """The latest finished job: it has a log of a megabyte and a change."""
        return self.job_id(JOBS - _OPEN - 1)

    def job_id(self, number: int) -> str:
        return _id("job", self._at(number), number)

    def delivery_id(self, number: int) -> str:
        job, sequence = divmod(number, EVENTS_OF_A_JOB)
        return _id("dlv", self._at(job) + sequence * 30_000, number)

    def endpoint_id(self, number: int) -> str:
        return _id("whk", 0, number)

    def user_id(self, number: int) -> str:
        return _id("usr", 0, number)

    def tables(self) -> dict[str, Iterator[Row]]:
        rows: dict[str, tuple[Callable[[int], Row], int]] = {
            "organizations": (self._organization, 2),
            "repos": (self._repo, len(_REPOS)),
            "repo_index": (lambda number: (f"repo_{number}", "ready", 12_345), len(_REPOS)),
            "jobs": (self._job, JOBS),
            "job_spending": (lambda number: (self.job_id(number), 12_345_678), JOBS),
            "job_logs": (self._log, _LOG_CHUNKS),
            "events": (self._event, JOBS * EVENTS_OF_A_JOB),
            "webhook_endpoints": (self._endpoint, _ENDPOINTS),
            "deliveries": (self._delivery, JOBS * EVENTS_OF_A_JOB),
            "delivery_attempts": (self._attempt, JOBS * EVENTS_OF_A_JOB),
            "pulls": (self._pull, PULLS),
            "users": (self._user, _PEOPLE),
            "memberships": (self._membership, _PEOPLE),
            "api_keys": (self._key, _KEYS),
            "secrets": (lambda number: (ORGANIZATION_ID, f"KEY_{number}", b"s", "k", 0, 0), 10),
            "daily_spending": (self._spending, DAYS),
            "audit_log": (self._audit_entry, _AUDIT_ENTRIES),
            "workers": (self._worker, 4),
        }
        return {table: map(make, range(number)) for table, (make, number) in rows.items()}

    def _at(self, number: int, of: int = JOBS) -> int:
        """Evenly distributed over time; the last one is now."""
        return self.until_ms - DAYS * DAY_MS + (number + 1) * DAYS * DAY_MS // of

    def _organization(self, number: int) -> Row:
        if number:
            return "org_small", "small", "free", 0
        return ORGANIZATION_ID, ORGANIZATION, "enterprise", 0

    def _repo(self, number: int) -> Row:
        return (
            f"repo_{number}", ORGANIZATION_ID, _REPOS[number], "local", "", "main", self.base, 0,
        )  # fmt: skip

    def _job(self, number: int) -> Row:
        """The oldest job has its own names; each half of the jobs has one repository."""
        at = self._at(number)
        is_oldest, is_old = number == 0, number < JOBS // 2
        is_open = number >= JOBS - _OPEN
        repo = "acme/first" if is_oldest else "acme/old" if is_old else REPO
        job_id = self.job_id(number)
        changed = (self.base, self.head) if job_id == self.logged_job else (None, None)
        has_pull = not is_open and not is_old
        return (
            job_id, ORGANIZATION_ID, f"repo_{_REPOS.index(repo)}", repo,
            "first-agent" if is_oldest else AGENTS[number % 4],
            "FIRST-1" if is_oldest else f"SHOP-{number}" if number % 3 else None,
            f'{{"title": "Make it work, number {number}", "prompt": "{"Please look. " * 20}"}}',
            self._status(number), at, at,
            None if is_open else at + 2_000,
            None if is_open else at + 60_000,
            f"agentjobs/agent/{number:012}", *changed,
            f"http://127.0.0.1:8080/{ORGANIZATION}/{repo}/pulls/{number}" if has_pull else None,
            number if has_pull else None,
            "agent_failed" if is_old else None,
            "It ended with code 1." if is_old else None,
            '{"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.012345678, "requests": 1}',
            _PROMPT,
            "usr_first" if is_oldest else "key_1", "somebody", EVENTS_OF_A_JOB,
        )  # fmt: skip

    def _status(self, number: int) -> str:
        if number == 0:
            return "cancelled"
        if number >= JOBS - _OPEN:
            return "queued" if number % 2 else "running"
        return "failed" if number < JOBS // 2 else "completed"

    def _log(self, number: int) -> Row:
        lines = "".join(_LOG_LINE.format(number * 220 + line) for line in range(220))
        return self.logged_job, number + 1, self.until_ms, lines

    def _event(self, number: int) -> Row:
        job, turn = divmod(number, EVENTS_OF_A_JOB)
        at = self._at(job) + turn * 30_000
        body = {"event": _LIFE[turn], "job_id": self.job_id(job), "repo": REPO, "pr_url": None}
        return (
            self.job_id(job), turn + 1, _id("evt", at, number), _LIFE[turn],
            json.dumps(body).encode(), at,
        )  # fmt: skip

    def _endpoint(self, number: int) -> Row:
        url = f"https://hooks.example.com/{number}"
        return self.endpoint_id(number), ORGANIZATION_ID, url, b"s", "k", 0, 0

    def _delivery(self, number: int) -> Row:
        job, turn = divmod(number, EVENTS_OF_A_JOB)
        at = self._at(job) + turn * 30_000
        return (
            self.delivery_id(number), ORGANIZATION_ID, self.endpoint_id(number % _ENDPOINTS),
            self.job_id(job), turn + 1, _id("evt", at, number), _LIFE[turn],
            "failed" if number % 13 == 0 else "delivered", 1, at, at,
        )  # fmt: skip

    def _attempt(self, number: int) -> Row:
        outcome = (500, "http_status", "it answered 500") if number % 13 == 0 else (200, None, None)
        at = self._at(number // EVENTS_OF_A_JOB)
        return (
            self.delivery_id(number), _id("att", at, number), at, 12, *outcome, "203.0.113.7:443",
            _HEADERS, _HEADERS, b"ok",
        )  # fmt: skip

    def _pull(self, number: int) -> Row:
        """Distributed over eight repositories; the last one has commits."""
        is_last = number == PULLS - 1
        return (
            REPO_ID if is_last else f"repo_{number % 8}", number + 1,
            f"Make it work, number {number}", "It did not work, and now it does.\n" * 40,
            "agentjobs/change" if is_last else f"agentjobs/agent/{number:012}", "main",
            self.head, self.base,
            "open" if is_last else ("open", "merged", "closed")[number % 3], False,
            self._at(number, PULLS),
        )  # fmt: skip

    def _user(self, number: int) -> Row:
        return self.user_id(number), f"somebody-{number}@example.com", f"Somebody {number}", 0

    def _membership(self, number: int) -> Row:
        return ORGANIZATION_ID, self.user_id(number), "member" if number else "admin", 0

    def _key(self, number: int) -> Row:
        hashed = number.to_bytes(32, "big")
        return (
            _id("key", 0, number), ORGANIZATION_ID, f"CI {number}", "ajk_…abcd", hashed, "jobs",
            False, 0,
        )  # fmt: skip

    def _spending(self, number: int) -> Row:
        return ORGANIZATION_ID, self.until_ms // DAY_MS - number, 41_000_000_000

    def _audit_entry(self, number: int) -> Row:
        at = self._at(number, _AUDIT_ENTRIES)
        action = _ACTIONS[number % len(_ACTIONS)]
        person = number % _PEOPLE
        return (
            _id("aud", at, number), ORGANIZATION_ID, at, "user", self.user_id(person),
            f"Somebody {person}", action, f"target {number}", '{"role": "member"}', "203.0.113.7",
        )  # fmt: skip

    def _worker(self, number: int) -> Row:
        """Alive during the whole measurement."""
        return f"wrk_{number}", f"host-{number}", json.dumps(AGENTS), 4, 0, self.until_ms + DAY_MS


async def load_history(url: str, history: History) -> None:
    await load_tables(url, history.tables(), _COLUMNS)


def _id(prefix: str, at_ms: int, number: int) -> str:
    return f"{prefix}_{_time(at_ms)}{number:016}"


@lru_cache(maxsize=500_000)
def _time(at_ms: int) -> str:
    """Encoded like identifiers. Cached, because the rows of a job share a time."""
    return first_id_at("", at_ms)[1 : 1 + _TIME_LENGTH]
