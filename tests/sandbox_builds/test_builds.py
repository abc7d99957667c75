"""Compilers, and the test suites of Python and Go, run in the sandbox as they do outside."""

import sys
from pathlib import Path

import pytest

from agentjobs_worker.agents.builtin_agents import python_files
from tests.support.builds import (
    CMAKE,
    CPP_PROGRAM,
    GO_MODULE,
    GO_PROGRAM,
    JAVA_PROGRAM,
    RUST_MANIFEST,
    RUST_PROGRAM,
    Builds,
    go_toolchain,
    rust_toolchain,
)


@pytest.fixture(params=[False, True], ids=["without a cgroup", "with a cgroup"])
def builds(request: pytest.FixtureRequest, tmp_path: Path) -> Builds:
    return Builds(tmp_path, all_memory_is_counted=request.param)


async def test_a_cpp_project_is_built_and_tested(builds: Builds) -> None:
    script = "cmake -S . -B out && cmake --build out && cd out && ctest"
    report = await builds.run(script, {"CMakeLists.txt": CMAKE, "x.cpp": CPP_PROGRAM})
    assert "100% tests passed" in report.last_lines


async def test_sanitizers_work(builds: Builds) -> None:
    script = "g++ -fsanitize=address,undefined x.cpp -o x && ASAN_OPTIONS=detect_leaks=0 ./x"
    report = await builds.run(script, {"x.cpp": CPP_PROGRAM})
    assert report.last_lines == "built"


async def test_a_rust_project_is_built_and_tested(builds: Builds) -> None:
    files = {"Cargo.toml": RUST_MANIFEST, "lib.rs": RUST_PROGRAM}
    script = "mkdir src && mv lib.rs src && cargo test --offline"
    report = await builds.run(script, files, rust_toolchain())
    assert "1 passed" in report.last_lines


async def test_a_go_project_is_built_and_tested(builds: Builds) -> None:
    files = {"go.mod": GO_MODULE, "x_test.go": GO_PROGRAM}
    report = await builds.run("GOFLAGS=-mod=mod go test ./...", files, go_toolchain())
    assert report.last_lines.startswith("ok")


async def test_a_java_program_is_compiled_and_runs(builds: Builds) -> None:
    report = await builds.run("javac Main.java && java Main", {"Main.java": JAVA_PROGRAM})
    assert report.last_lines.split("\n")[-1] == "built"


async def test_packages_of_gos_standard_library_pass_their_tests(builds: Builds) -> None:
    source = go_toolchain() / "src"
    script = f"cd {source} && go test -short io/fs os/signal path/filepath net/http/httptest"
    report = await builds.run(script, {}, go_toolchain())
    assert "FAIL" not in report.last_lines


async def test_modules_of_pythons_own_test_suite_pass(builds: Builds) -> None:
    modules = "test_mmap test_select test_selectors test_tempfile test_shutil test_pathlib"
    environment = Path(sys.base_prefix)
    report = await builds.run(
        f"python3 -m test {modules}",
        {},
        environment,
        *[path for path in python_files() if path != environment],
    )
    assert "Result: SUCCESS" in report.last_lines
