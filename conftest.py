"""Fixtures of every suite: a fresh, migrated database on either engine.

The acceptance tests use them too, so they know the program only by its command line.
"""

import asyncio
import functools
import gc
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import _pytest.pathlib
import httpx._transports.default as httpx_transports
import hypothesis
import pytest
from pytest_socket import disable_socket, enable_socket

from tests.support import parallel_run, preloaded_cli, sqlite_file, suites
from tests.support.event_loop import TidyLoops
from tests.support.merged_cases import merge_cases
from tests.support.parallel_run import (  # noqa: F401 - one is a hook
    make_once,
    pytest_runtestloop,
    scope_of,
)
from tests.support.paths import NODE_BIN
from tests.support.postgres import EMPTY, FreshDatabases, PostgresCluster
from tests.support.suites import pytest_ignore_collect  # noqa: F401 - a hook

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")
asyncio.set_event_loop_policy(TidyLoops())
# Each client would read all certificates of the machine, for plain HTTP too.
httpx_transports.create_ssl_context = functools.cache(httpx_transports.create_ssl_context)

# Runs that were killed leave trees that are too deep for a recursive function.
_pytest.pathlib.rm_rf = lambda path: subprocess.run(["rm", "-rf", "--", path], check=False)

# Otherwise each connection to PostgreSQL asks for TLS first, which the test servers refuse.
os.environ["PGSSLMODE"] = "disable"
# The same Node.js on every machine: that of a distribution may be too old for programs of tests.
os.environ["PATH"] = f"{NODE_BIN}{os.pathsep}{os.environ['PATH']}"

# The database with the current schema.
_MIGRATED = "migrated"
_ENGINES = ("sqlite", "postgresql")
_SHARED_MEMORY = Path("/dev/shm")
_MIN_FREE_BYTES = 8 * 1024**3
# The first Linux that supports layers of sandboxes in memory.
_MIN_KERNEL = (6, 6)


@pytest.fixture(autouse=True)
def remove_log_handlers() -> Iterator[None]:
    """A service that ran in the process of the tests leaves one, whose stream may be closed."""
    yield
    root = logging.getLogger()
    others = [handler for handler in root.handlers if not _belongs_to_service(handler)]
    if len(others) < len(root.handlers):
        root.handlers[:] = others
        root.setLevel(logging.WARNING)


def _belongs_to_service(handler: logging.Handler) -> bool:
    return type(handler).__module__.startswith("agentjobs")


def _has_room_in_memory() -> bool:
    try:
        system = os.statvfs(_SHARED_MEMORY)
        memory = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2]
    except OSError:
        return False
    free = min(system.f_bavail * system.f_frsize, int(memory.split()[0]) * 1024)
    is_usable = os.access(_SHARED_MEMORY, os.W_OK) and not system.f_flag & os.ST_NOEXEC
    kernel = tuple(map(int, platform.release().split(".")[:2]))
    return is_usable and free >= _MIN_FREE_BYTES and kernel >= _MIN_KERNEL


# Thousands of small databases and repositories would wait for the disk.
if _has_room_in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_SHARED_MEMORY))


# Their tests mostly wait for processes and time-outs.
_WAITING = (
    *("tests/acceptance/", "tests/browser", "tests/faults/", "tests/hostile/test_"),
    "tests/mutants/",
    "kubernetes/tests/integration/",
)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Unit tests reach no network: an attempt to open an internet socket fails the test."""
    if "unit" in item.path.parts:
        # The event loop's own wake-up pipe is a Unix socket pair.
        disable_socket(allow_unix_socket=True)


def pytest_runtest_teardown() -> None:
    enable_socket()


def pytest_addoption(parser: pytest.Parser) -> None:
    parallel_run.pytest_addoption(parser)
    suites.add_option(parser)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without the garbage collector, which would scan thousands of tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """In one process, which a developer starts, each case stays a test of its own."""
    if not collector.config.option.processes or not isinstance(obj, FunctionType):
        return None
    merged = merge_cases(obj) if collector.istestfunction(obj, name) else None
    if merged is None:
        return None
    setattr(collector.obj, name, merged)
    return list(collector._genfunctions(name, merged))


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Files that wait run beside files that compute, and start before the last tenth of them."""
    scopes: dict[str, list[pytest.Item]] = {}
    for item in suites.select(items, config):
        scopes.setdefault(scope_of(item.nodeid), []).append(item)
    waiting = [scope for scope in scopes if scope.startswith(_WAITING)]
    computing = [scope for scope in scopes if not scope.startswith(_WAITING)]
    positions = {scope: 0.9 * index / len(waiting) for index, scope in enumerate(waiting)}
    positions |= {scope: index / len(computing) for index, scope in enumerate(computing)}
    items[:] = [
        item for scope in sorted(scopes, key=positions.__getitem__) for item in scopes[scope]
    ]


@pytest.fixture(scope="session")
def postgres_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a server that has the database `postgres_template`."""
    return make_once(tmp_path_factory, "postgresql", _make_cluster)


@pytest.fixture(scope="session")
def postgres_cluster(postgres_files: Path) -> Iterator[PostgresCluster]:
    cluster = PostgresCluster(template=postgres_files)
    cluster.start()
    yield cluster
    cluster.remove()


def _make_cluster(path: Path) -> None:
    cluster = PostgresCluster()
    cluster.start()
    _migrate(cluster.url(cluster.create_database(name=_MIGRATED)))
    cluster.sql(EMPTY, _MIGRATED)
    cluster.save(path)


@pytest.fixture(scope="session")
def postgres_template() -> str:
    return _MIGRATED


@pytest.fixture(scope="session")
def postgres_databases(
    postgres_cluster: PostgresCluster, postgres_template: str
) -> Iterator[FreshDatabases]:
    databases = FreshDatabases(postgres_cluster, postgres_template)
    yield databases
    databases.close()


@pytest.fixture
def postgres_url(
    postgres_cluster: PostgresCluster, postgres_databases: FreshDatabases
) -> Iterator[str]:
    """An empty PostgreSQL database with the current schema."""
    name = postgres_databases.take()
    yield postgres_cluster.url(name)
    postgres_databases.give_back(name)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "template.db", _make_sqlite_file)


def _make_sqlite_file(path: Path) -> None:
    _migrate(f"sqlite:///{path}")
    sqlite_file.delete_rows(path)


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh SQLite database with the current schema."""
    path = tmp_path / "agentjobs.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=_ENGINES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The test runs once on each engine."""
    name = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param]
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture(scope="module", params=_ENGINES)
def shared_database_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """One database on each engine for all tests of a module that use it."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("shared") / "agentjobs.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
    databases: FreshDatabases = request.getfixturevalue("postgres_databases")
    name = databases.take()
    yield cluster.url(name)
    databases.give_back(name)


@pytest.fixture(params=_ENGINES)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Likewise, without any schema yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
    name = cluster.create_database()
    yield cluster.url(name)
    cluster.drop_database(name)


def _migrate(url: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        environment = {"PATH": os.environ["PATH"], "AGENTJOBS_DATABASE_URL": url}
        done = preloaded_cli.run(["migrate", "--data-dir", directory], environment)
    assert done.returncode == 0, done.stderr
