"""Results of agents are checked in a process with limits."""

import asyncio

import pytest

from agentjobs_worker.agents import result
from agentjobs_worker.agents.result import result_faults


async def test_a_result_is_checked_in_another_process() -> None:
    schema = {"type": "object", "required": ["risk"]}
    assert await result_faults(schema, b'{"risk": 1}') == []
    assert await result_faults(schema, b"{}") == ["$: 'risk' is a required property"]
    assert await result_faults(schema, b"{" * 256 * 1024) != []


async def test_a_text_made_for_a_pattern_does_not_block_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result, "_CPU_SECONDS", 2)
    checking = asyncio.create_task(result_faults({"pattern": "^(a+)+$"}, b'"' + b"a" * 60 + b'b"'))
    turns = 0
    while not checking.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert await checking == ["checking it takes more than 2 seconds of CPU time"]
    assert turns > 10


async def test_a_result_that_needs_too_much_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result, "_MEMORY_BYTES", 64 * 1024**2)
    many = b"[" + b"[],".join([b""] * 2_000_000) + b"[]]"
    assert await result_faults({}, many) == ["checking it takes more than 64 MiB of memory"]
