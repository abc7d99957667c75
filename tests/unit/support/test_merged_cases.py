"""The cases of a parametrized test as one test."""

import asyncio
from pathlib import Path

import pytest

from tests.support.merged_cases import merge_cases


def test_every_case_runs_and_failures_name_theirs() -> None:
    seen = []

    @pytest.mark.parametrize("letter", ["x", pytest.param("y", id="second")])
    @pytest.mark.parametrize(("number", "expected"), [(1, 1), (2, 3)])
    def test(number: int, expected: int, letter: str) -> None:
        seen.append((number, letter))
        assert number == expected

    merged = merge_cases(test)
    assert merged is not None
    with pytest.raises(ExceptionGroup, match="2 of 4 cases failed") as failed:
        merged()
    assert sorted(seen) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]
    [first, second] = failed.value.exceptions
    assert first.__notes__ == ["case: {'number': 2, 'expected': 3, 'letter': 'x'}"]
    assert "'letter': 'y'" in second.__notes__[0]


def test_cases_of_coroutines_are_awaited() -> None:
    seen = []

    @pytest.mark.parametrize("number", [1, 2])
    async def test(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(number)

    merged = merge_cases(test)
    assert merged is not None
    asyncio.run(merged())
    assert seen == [1, 2]


def test_tests_with_fixtures_or_other_marks_are_not_merged() -> None:
    @pytest.mark.parametrize("number", [1])
    def with_fixture(number: int, tmp_path: Path) -> None: ...

    @pytest.mark.timeout(1)
    @pytest.mark.parametrize("number", [1])
    def with_mark(number: int) -> None: ...

    @pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
    def indirect(engine: str) -> None: ...

    assert [merge_cases(test) for test in (with_fixture, with_mark, indirect)] == [None] * 3
