"""These tests need compilers and minutes, so only `make test SUITE=fixes` runs them.

They end with a table of all fix jobs by ecosystem, which `--fixes-table=FILE` writes to a file.
"""

from dataclasses import asdict
from pathlib import Path

import pytest

from tests.fixes.javascript import PackageManagers
from tests.support.fix_corpus import Corpus, FixJob
from tests.support.fix_table import Row, markdown, row_of, write_table

_PROPERTY = "fix_job"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/fixes" in argument for argument in config.args) else True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fixes-table", type=Path, help="write all fix jobs to a .md or .json file")


@pytest.fixture
def corpus(request: pytest.FixtureRequest, tmp_path: Path, sqlite_url: str) -> Corpus:
    def record_job(job: FixJob) -> None:
        request.node.user_properties.append((_PROPERTY, asdict(row_of(job))))

    name = request.node.name.removeprefix("test_").replace("_", " ")
    return Corpus(tmp_path, sqlite_url, name, record_job)


@pytest.fixture(scope="session")
def package_managers(tmp_path_factory: pytest.TempPathFactory) -> PackageManagers:
    return PackageManagers(tmp_path_factory.mktemp("package-managers"))


class _Table:
    """Registered where reports arrive, which is another process with `-n`."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            jobs = (value for name, value in report.user_properties if name == _PROPERTY)
            self._rows += [Row(**job) for job in jobs]  # type: ignore[arg-type]

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        if not self._rows:
            return
        terminalreporter.section("fix jobs")
        terminalreporter.write(markdown(self._rows))
        if path := config.getoption("fixes_table"):
            write_table(path, self._rows)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Table())
