import math
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from agentjobs.webhooks.model import Attempt
from agentjobs.webhooks.retries import (
    AttemptOutcome,
    decide_outcome,
)
from tests.support.deliveries import attempt

WAITS = (5, 60, 720)
AT = 1_700_000_000_000


def failed(retry_after: str | None = None, status_code: int = 503) -> Attempt:
    headers = () if retry_after is None else (("Retry-After", retry_after),)
    return attempt(status_code, at=AT, headers=headers)


def wait_seconds(failed_attempt: Attempt, failures: int, jitter: float = 0) -> float:
    outcome = decide_outcome(failed_attempt, failures, WAITS, jitter)
    assert outcome.status == "pending"
    assert outcome.due_at is not None
    return (outcome.due_at - failed_attempt.at - failed_attempt.duration_ms) / 1000


@pytest.mark.parametrize("status_code", [200, 201, 202, 204, 299])
def test_any_2xx_is_delivered(status_code: int) -> None:
    assert decide_outcome(attempt(status_code), 3, WAITS) == AttemptOutcome("delivered")


@pytest.mark.parametrize(("failures", "seconds"), [(0, 5), (1, 60), (2, 720)])
def test_each_retry_waits_twelve_times_longer(failures: int, seconds: float) -> None:
    assert wait_seconds(failed(), failures) == seconds


@pytest.mark.parametrize(("jitter", "seconds"), [(-1, 48), (1, 72)])
def test_jitter_changes_a_wait_by_up_to_a_fifth(jitter: float, seconds: float) -> None:
    assert wait_seconds(failed(), 1, jitter) == seconds


def test_random_jitter_stays_within_the_spread() -> None:
    dues = {decide_outcome(failed(), 0, WAITS).due_at for _ in range(200)}

    assert len(dues) > 20
    assert all(AT + 4_000 <= (due or 0) <= AT + 6_007 for due in dues)


def test_the_delivery_fails_after_the_third_retry() -> None:
    assert decide_outcome(failed(), 3, WAITS) == AttemptOutcome("failed")
    assert decide_outcome(failed(), 0, ()) == AttemptOutcome("failed")


def test_410_fails_at_once_and_disables_the_endpoint() -> None:
    assert decide_outcome(failed(status_code=410), 0, WAITS) == AttemptOutcome(
        "failed", disable="gone"
    )


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7),
        ("2", 5),  # never shorter
        ("10", 10),
        ("11", 10),  # never longer than twice
        ("9" * 40, 10),
        ("0", 5),
        ("-5", 5),
        ("soon", 5),
        ("", 5),
        ("1e3", 5),
        ("\u0667", 5),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 10),
        ("Fri, 99 Foo 9999 99:99:99 GMT", 5),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 5),
    ],
)
def test_retry_after_can_double_a_wait(retry_after: str, seconds: float) -> None:
    assert wait_seconds(failed(retry_after), 0) == seconds


def test_retry_after_can_be_a_date() -> None:
    moment = datetime.fromtimestamp(AT // 1000 + 90, UTC)

    waited = wait_seconds(failed(format_datetime(moment, usegmt=True), 429), 1)

    assert math.isclose(waited, 90, abs_tol=0.1)


def test_an_attempt_without_a_response_is_retried_like_any_other() -> None:
    assert wait_seconds(attempt(None, at=AT, error="timeout"), 0) == 5
