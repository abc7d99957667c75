"""Values of JSON are counted without parsing it, whatever its strings are and wherever cut."""

import json
from typing import Any

from hypothesis import given, strategies

from agentjobs_worker.agents.presets.event_stream import ValueCounter

JSON = strategies.recursive(
    strategies.none() | strategies.integers() | strategies.text('\\",[{}]: a\näé'),
    lambda values: (
        strategies.lists(values) | strategies.dictionaries(strategies.text('\\",[{a'), values)
    ),
    max_leaves=20,
)


def separators_in(value: Any) -> int:
    """A list or an object has an opening bracket, and a comma between its values."""
    if not isinstance(value, list | dict):
        return 0
    values = value if isinstance(value, list) else list(value.values())
    return 1 + max(0, len(values) - 1) + sum(map(separators_in, values))


@given(value=JSON, size=strategies.integers(1, 20), ascii_only=strategies.booleans())
def test_the_count_depends_neither_on_strings_nor_on_how_the_text_is_split(
    value: Any, size: int, ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    counter = ValueCounter()
    for at in range(0, len(text), size):
        counter.feed(text[at : at + size])
    assert counter.count == separators_in(value)
