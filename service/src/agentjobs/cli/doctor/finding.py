"""The result of a check of `agentjobs doctor`."""

from typing import Literal, NamedTuple

State = Literal["ok", "note", "problem"]


class Finding(NamedTuple):
    """The message of a problem says what to do next."""

    subject: str
    state: State
    message: str


def count(number: int, noun: str) -> str:
    """Such as "1 job" or "2 jobs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe_age(milliseconds: int) -> str:
    """Such as "40 seconds" or "3 hours"."""
    seconds = max(milliseconds // 1_000, 0)
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return count(seconds // size, unit)
    return count(seconds, "second")
