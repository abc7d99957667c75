"""Completion in a real bash, and the answers that the scripts of zsh and fish ask for."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.service import PROGRAM

# Completes the last word of its arguments as the shell does after the tab key.
_TAB = """
set -eu
eval "$(agentjobs completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
$(complete -p agentjobs | sed 's/.*-F \\([^ ]*\\).*/\\1/') agentjobs
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    credentials = tmp_path / "agentjobs" / "credentials.toml"
    credentials.parent.mkdir()
    credentials.write_text('[contexts.prod]\nurl = "https://x"\napi_key = "ajk_x"\n')
    credentials.chmod(0o600)
    path = f"{Path(PROGRAM).parent}:{os.environ['PATH']}"
    return {"PATH": path, "XDG_CONFIG_HOME": str(tmp_path)}


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("wor",), {"worker", "workers"}),
        (("jobs", "l"), {"list", "logs"}),
        (("jobs", "list", "--st"), {"--status"}),
        (("jobs", "list", "--status", "c"), {"completed", "cancelled"}),
        (("jobs", "list", "--context", ""), {"prod"}),
        (("contexts", "use", "p"), {"prod"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes_commands_options_and_names(environment, words, expected):
    printed = run(environment, "bash", "-c", _TAB, "bash", "agentjobs", *words)
    assert set(printed.split()) == expected


def test_scripts_are_valid_and_ask_for_what_is_answered(environment):
    for shell in ("bash", "zsh", "fish"):
        script = run(environment, PROGRAM, "completion", shell)
        assert f"_AGENTJOBS_COMPLETE=complete_{shell}" in script
    asked = {**environment, "_TYPER_COMPLETE_ARGS": "agentjobs jobs lo"}
    zsh = run({**asked, "_AGENTJOBS_COMPLETE": "complete_zsh"}, PROGRAM)
    assert zsh == """_arguments '*: :(("logs":"Print the log of a job."))'\n"""
    fish = {"_AGENTJOBS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert run({**asked, **fish}, PROGRAM) == "logs\tPrint the log of a job.\n"


def test_a_damaged_file_of_contexts_completes_nothing(environment):
    (Path(environment["XDG_CONFIG_HOME"]) / "agentjobs" / "credentials.toml").write_text("[")
    printed = run(environment, "bash", "-c", _TAB, "bash", "agentjobs", "contexts", "use", "")
    assert printed.strip() == ""
