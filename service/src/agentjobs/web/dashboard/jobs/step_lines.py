"""The lines in which a page shows steps: small ones that follow each other share a line."""

import itertools
from collections.abc import Iterable, Iterator

import msgspec

from agentjobs_runtime.agents.steps import StoredStep

# Agents read and think many times before they do something.
_SMALL = ("read", "model")
_MAX_SHORT_LENGTH = 600
_MARKS = {"+": "added", "-": "removed", "@": "hunk"}


class StepLine(msgspec.Struct, frozen=True):
    """One step, or several small ones."""

    steps: tuple[StoredStep, ...]

    @property
    def first(self) -> StoredStep:
        return self.steps[0]

    @property
    def is_group(self) -> bool:
        return len(self.steps) > 1

    @property
    def files(self) -> list[str]:
        """The files that were read, without duplicates."""
        return list(dict.fromkeys(step.title for step in self.steps if step.kind == "read"))

    @property
    def calls(self) -> int:
        return sum(step.kind == "model" for step in self.steps)

    @property
    def duration_ms(self) -> int | None:
        return _sum(step.duration_ms for step in self.steps)

    @property
    def cost_nanousd(self) -> int | None:
        return _sum(step.cost_nanousd for step in self.steps)


def fold(steps: Iterable[StoredStep]) -> Iterator[StepLine]:
    for is_small, run in itertools.groupby(steps, _is_small):
        if is_small:
            yield StepLine(tuple(run))
        else:
            yield from (StepLine((step,)) for step in run)


def is_short(step: StoredStep) -> bool:
    """Whether it is a message that is shown whole, without opening it."""
    return step.kind == "message" and len(step.detail) <= _MAX_SHORT_LENGTH


def message_text(step: StoredStep) -> str:
    """The title is the first line of a longer message."""
    return step.detail or step.title


def change_blocks(detail: str) -> list[tuple[str, str]]:
    """The lines of a change, by the class that colors them."""
    blocks = itertools.groupby(detail.split("\n"), lambda line: _MARKS.get(line[:1], ""))
    return [(mark, "\n".join(lines)) for mark, lines in blocks]


def _is_small(step: StoredStep) -> bool:
    return step.kind in _SMALL and step.state == "succeeded"


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
