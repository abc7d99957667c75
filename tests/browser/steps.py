"""The steps of a job, written directly to the store: of every kind and in every state."""

import asyncio
from pathlib import Path
from typing import Any

from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import now_ms
from tests.support.steps import insert_steps

_OUTPUT = """\
============================= test session starts ==============================
tests/test_prices.py ..F.                                                 [100%]

>       assert total_of([{"price": 9.99, "count": 1}]) == 9.99
E       assert 9 == 9.99

tests/test_prices.py:12: AssertionError
=========================== short test summary info ============================
FAILED tests/test_prices.py::test_prices_are_not_cut - assert 9 == 9.99
========================= 1 failed, 3 passed in 0.31s ==========================
"""
_CHANGE = """\
@@ -5,3 +5,3 @@
     total = sum(item["price"] * item["count"] for item in items)
-    return int(total)
+    return round(total, 2)
"""
_SUMMARY = """\
Prices were cut, not rounded.

- `total_of` now rounds to cents.
- The test that failed before passes.
"""
_MODEL: dict[str, Any] = {
    "kind": "model",
    "title": "claude-sonnet-4-5",
    "detail": "18,204 tokens in (16,001 cached), 312 out",
    "duration_ms": 4_210,
    "cost_nanousd": 12_400_000,
}
STEPS: tuple[dict[str, Any], ...] = (
    _MODEL,
    {"kind": "message", "title": "I will look at how prices are computed first."},
    *(
        step
        for name in ("shop/prices.py", "shop/cart.py", "shop/bill.py", "tests/test_prices.py")
        for step in (_MODEL, {"kind": "read", "title": name, "detail": "1\timport shop\n"})
    ),
    {"kind": "other", "title": "Grep total_of", "detail": "Found 3 files", "duration_ms": 40},
    _MODEL,
    {
        "kind": "command",
        "title": "python -m pytest tests/test_prices.py -x --no-header --tb=short --color=no",
        "detail": _OUTPUT,
        "state": "failed",
        "exit_code": 1,
        "duration_ms": 1_830,
    },
    {**_MODEL, "state": "failed", "detail": "status 429", "cost_nanousd": None},
    _MODEL,
    {"kind": "change", "title": "shop/prices.py", "detail": _CHANGE, "duration_ms": 12},
    {"kind": "change", "title": "CHANGES.md", "detail": "+# Changes", "duration_ms": 9},
    {"kind": "command", "title": "python -m pytest", "detail": "4 passed", "duration_ms": 2_200},
    {"kind": "message", "title": "Prices were cut, not rounded.", "detail": _SUMMARY},
    {"kind": "command", "title": "npm run watch", "state": "unfinished"},
    {"kind": "command", "title": "make lint", "state": "running"},
)


def write_steps(data_dir: Path, job_id: str) -> None:
    asyncio.run(add_steps(data_dir, job_id, *STEPS))


async def add_steps(data_dir: Path, job_id: str, *steps: dict[str, Any], after: int = 0) -> None:
    db = await open_database(f"sqlite:///{data_dir / 'agentjobs.db'}", migrate=False)
    await insert_steps(db, job_id, *steps, after=after, began_at=now_ms() - 95_000)
    await db.close()
