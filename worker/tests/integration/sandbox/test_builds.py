"""Builds and servers that take a few seconds run in the sandbox as they do outside."""

from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.builds import C_PROGRAM, NODE_TESTS, POSTGRES, Builds


@pytest.fixture
def builds(tmp_path: Path) -> Builds:
    return Builds(tmp_path, all_memory_is_counted=False)


async def test_a_c_program_is_compiled_and_runs(builds: Builds) -> None:
    report = await builds.run("gcc -O2 -pthread x.c -o x && ./x", {"x.c": C_PROGRAM})
    assert report.last_lines == "built"


async def test_the_tests_of_a_node_project_run(builds: Builds) -> None:
    report = await builds.run("node --test", {"run.test.js": NODE_TESTS})
    assert "# pass 4" in report.last_lines


async def test_a_postgresql_server_runs(builds: Builds) -> None:
    report = await builds.run(POSTGRES, {}, postgres.installation())
    assert report.last_lines == "100000"
