"""Moments as people type them."""

import pytest

from agentjobs.cli.times import parse_time_ms
from agentjobs_runtime.problems import Problem

NOW = 1_763_200_000_000
NEW_YEAR = 1_735_689_600_000


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("7d", 604_800_000), (" 0s ", 0)],
)
def test_an_age_is_so_long_ago(text: str, ago_ms: int) -> None:
    assert parse_time_ms(text, NOW) == NOW - ago_ms


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-01",
        "2025-01-01T00:00",
        "2025-01-01 00:00:00",
        "2025-01-01T00:00:00Z",
        "2025-01-01T00:00:00.000Z",
        "2025-01-01T02:00:00+02:00",
        "2024-12-31T19:00-05:00",
        "20250101T000000Z",
    ],
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert parse_time_ms(text, NOW) == NEW_YEAR


def test_milliseconds_count() -> None:
    assert parse_time_ms("2025-01-01T00:00:00.987654Z", NOW) == NEW_YEAR + 987


@pytest.mark.parametrize("text", ["999999999d", "1960-05-05", "0001-01-01T00:00+14:00"])
def test_what_lies_before_everything_is_the_beginning(text: str) -> None:
    assert parse_time_ms(text, NOW) == 0


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2", "h", "-2h", "2 h", "1.5h", "2w", "1h30m", "٣h", "²h"),
        *("9999999999999d", "2025-13-01", "2025-02-30", "2025-01-01T25:00", "12:00", "10000-01-01"),
        *("2025-01-01T00:00:00+99:00", "\x1b[31m"),
    ],
)
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(Problem) as refused:
        parse_time_ms(text, NOW)
    assert refused.value.code == "invalid_time"
    assert "15m" in refused.value.message
    assert "ISO 8601" in refused.value.message
