"""Runs the cases of a parametrized test as one test.

Each test costs a few milliseconds in every test process, more than most cases of a table. Only
tests without fixtures are merged, so that the cases share nothing.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import is_hypothesis_test

Case = dict[str, Any]


def merge_cases(test: Callable[..., Any]) -> Callable[[], Any] | None:
    """None if the test has no cases, or if it has fixtures or other marks."""
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    if not marks or not all(map(_is_table, marks)) or is_hypothesis_test(test):
        return None
    tables = [list(_rows(mark)) for mark in marks]
    names = {name for rows in tables for name in (rows[0] if rows else ())}
    if names != set(inspect.signature(test).parameters):
        return None
    cases = [_join(rows) for rows in itertools.product(*tables)]
    return _run_async(test, cases) if inspect.iscoroutinefunction(test) else _run(test, cases)


def _is_table(mark: pytest.Mark) -> bool:
    if mark.name != "parametrize" or mark.kwargs.keys() - {"ids"}:
        return False
    rows = mark.args[1]
    return isinstance(rows, list | tuple | dict | set) and not any(
        isinstance(row, ParameterSet) and row.marks for row in rows
    )


def _rows(mark: pytest.Mark) -> Iterator[Case]:
    names, rows = mark.args
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    for row in rows:
        values = row.values if isinstance(row, ParameterSet) else row if len(names) > 1 else (row,)
        yield dict(zip(names, values, strict=True))


def _join(rows: tuple[Case, ...]) -> Case:
    return {name: value for row in rows for name, value in row.items()}


def _run(test: Callable[..., Any], cases: list[Case]) -> Callable[[], Any]:
    def run_cases() -> None:
        failures: list[Exception] = []
        for case in cases:
            try:
                test(**case)
            except Exception as error:  # noqa: BLE001 - every case runs, and all failures are shown
                failures.append(_named(error, case))
        _raise(failures, cases)

    return _renamed(run_cases, test)


def _run_async(test: Callable[..., Any], cases: list[Case]) -> Callable[[], Any]:
    async def run_cases() -> None:
        failures: list[Exception] = []
        for case in cases:
            try:
                await test(**case)
            except Exception as error:  # noqa: BLE001 - every case runs, and all failures are shown
                failures.append(_named(error, case))
        _raise(failures, cases)

    return _renamed(run_cases, test)


def _named(error: Exception, case: Case) -> Exception:
    error.add_note(f"case: {case!r}")
    return error


def _raise(failures: list[Exception], cases: list[Case]) -> None:
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases failed", failures)


def _renamed(merged: Callable[[], Any], test: Callable[..., Any]) -> Callable[[], Any]:
    functools.update_wrapper(merged, test, updated=())
    # pytest would take the parameters and marks of the original.
    del merged.__wrapped__  # type: ignore[attr-defined]
    return merged
