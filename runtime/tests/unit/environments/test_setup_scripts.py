"""The scripts that a setup command names are protected; what its programs run in turn is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.environments.setup_scripts import named_scripts
from agentjobs_runtime.repo_files.patterns import parse_patterns
from agentjobs_runtime.repo_files.rules import protected_paths


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("./scripts/setup.sh --all && make deps", "scripts/setup.sh"),
        ("npm ci; bash -e scripts/setup.sh", "scripts/setup.sh"),
        ("bash scripts/setup", "scripts/setup"),
        ("sh -c './bin/prepare' && sh -c 'python3 tools/fetch.py'", "tools/fetch.py"),
        ("sh -c './bin/prepare' && sh -c 'python3 tools/fetch.py'", "bin/prepare"),
        ("CI=1 ./gradlew build", "gradlew"),
        ("if true; then bin/setup; fi", "bin/setup"),
        ("/workspace/bin/setup", "bin/setup"),
        (". ./env", "env"),
        ("cd web && ./setup.sh", "web/setup.sh"),
        ("npm ci &&\\\n  tools/setup", "tools/setup"),
        ("./Scripts/Setup.sh", "scripts/setup.SH"),
        ("./scripts/setup.sh", "scripts"),
    ],
)
def test_a_script_that_setup_names_is_protected(command: str, path: str) -> None:
    executed = parse_patterns(named_scripts(command))
    assert protected_paths([path.encode()], executed=executed) == [path.encode()]
    lifted = parse_patterns([path])
    assert protected_paths([path.encode()], lifted, executed) == []


@pytest.mark.parametrize(
    "command",
    [
        "npm ci --prefix web",
        "pip install -r requirements.txt -e ./lib",
        "uv sync --frozen && make setup",
        "cp config/example.toml config/local.toml",
        "../setup.sh",
        "/usr/bin/setup.sh",
    ],
)
def test_a_command_without_scripts_of_the_repository_protects_nothing(command: str) -> None:
    assert named_scripts(command) == ()


@given(
    st.lists(
        st.sampled_from(
            ["a", "/", ".", "..", "./", " ", "sh ", "*", "[", "\n", "é", "x.sh", "\\", "!"]
        )
    ).map("".join)
    | st.text(max_size=300)
    | st.integers(1, 400).map(lambda count: "./" + "a/" * count + "b.sh")
)
def test_every_command_gives_valid_patterns(command: str) -> None:
    assert len(parse_patterns(named_scripts(command))) <= 100
