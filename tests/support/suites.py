"""Which tests `make test` runs, and which only `make test SUITE=rest`.

`main` is what a person waits for: unit tests, contract tests on SQLite and, where the engines
differ, on PostgreSQL, the main paths of the product from outside, and the browser once. `rest` is
everything else. A run that names files or directories has all of their tests.
"""

from pathlib import Path

import pytest

from tests.support.paths import PARTS, PROJECT

SUITES = ("main", "rest", "all")
# Files of which every test is a main one.
_ALWAYS = (
    "tests/unit/",
    *(f"{part}/tests/unit/" for part in PARTS),
    "tests/browser/",
    *(
        f"tests/acceptance/test_{name}.py"
        for name in ("specification", "webhooks", "follow_ups", "crashes", "platforms", "results")
    ),
)
_MAIN = (*_ALWAYS, "service/tests/contract/")
# Slow ones about upgrades, PostgreSQL as a whole and platforms, as few changes concern them.
_NEVER = tuple(
    f"service/tests/contract/{path}"
    for path in (
        "jobs/test_cut_transactions.py",
        "platform_sync/",
        "store/test_concurrent_migrations.py",
        "store/test_conversion.py",
        "store/test_failover.py",
        "store/test_migrations.py",
        "store/test_pgbouncer.py",
    )
)
# The engines differ in what these promise: transactions, locks, claims and order.
_BOTH_ENGINES = (
    "service/tests/contract/store/",
    "service/tests/contract/jobs/test_queue.py",
    "service/tests/contract/jobs/test_rescue.py",
    "service/tests/contract/loops/test_lease_loop.py",
    "service/tests/contract/webhooks/",
)


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--suite", choices=SUITES, default="all", help="see tests/support/suites.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without a test of the suite are not imported."""
    path = _relative(collection_path)
    if not _is_limited(config) or not collection_path.name.startswith("test_"):
        return None
    if config.option.suite == "main":
        return not path.startswith(_MAIN) or path.startswith(_NEVER) or None
    return path.startswith(_ALWAYS) or None


def select(items: list[pytest.Item], config: pytest.Config) -> list[pytest.Item]:
    if not _is_limited(config):
        return items
    wanted = config.option.suite == "main"
    return [item for item in items if _is_main(item) == wanted]


def _is_main(item: pytest.Item) -> bool:
    path = _relative(item.path)
    if path.startswith(_NEVER):
        return False
    callspec = getattr(item, "callspec", None)
    parameters = () if callspec is None else callspec.params.values()
    return path.startswith((*_ALWAYS, *_BOTH_ENGINES)) or (
        path.startswith(_MAIN) and "postgresql" not in parameters
    )


def _is_limited(config: pytest.Config) -> bool:
    is_named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    return config.option.suite != "all" and not is_named


def _relative(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()
