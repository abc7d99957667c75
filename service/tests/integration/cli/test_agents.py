"""`agentjobs agents`: the configured agents, missing requirements and how to fix them."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli_process import CommandLine
from tests.support.in_process_cli import InProcessCommandLine


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shutil.copy(sqlite_template, data_dir / "agentjobs.db")
    return InProcessCommandLine(capsys, data_dir)


@pytest.fixture
def claude(tmp_path) -> Path:
    path = tmp_path / "claude"
    path.write_text("#!/bin/sh\necho '2.1.197 (Claude Code)'\n")
    path.chmod(0o755)
    return path


def settings(agentjobs, text: str) -> None:
    (agentjobs.data_dir / "agentjobs.toml").write_text(text)


def store_key(agentjobs) -> None:
    set_secret = CommandLine(agentjobs.data_dir)
    done = set_secret("secrets", "set", "ANTHROPIC_API_KEY", typed="sk-ant-1\n")
    assert done.exit_code == 0, done.err


def test_the_doctor_names_what_an_agent_lacks_and_fails(agentjobs, claude):
    settings(agentjobs, f'[[agents]]\npreset = "claude-code"\nexecutable = "{claude}"\n')
    sick = agentjobs("agents", "doctor", "--json")
    assert sick.exit_code == 1
    agents = {each["id"]: each for each in json.loads(sick.out)["agents"]}
    assert agents["lint-fixer"]["ready"]
    assert agents["claude-code"] == {
        "id": "claude-code",
        "installed": True,
        "version": "2.1.197",
        "key": "ANTHROPIC_API_KEY",
        "key_present": False,
        "ready": False,
        "to_do": "set its key: `agentjobs secrets set ANTHROPIC_API_KEY --org default`",
    }


def test_with_program_and_key_the_doctor_is_content(agentjobs, claude):
    settings(agentjobs, f'[[agents]]\npreset = "claude-code"\nexecutable = "{claude}"\n')
    store_key(agentjobs)
    agents = agentjobs("agents", "doctor", "--json").document["agents"]
    assert all(each["ready"] for each in agents)


def test_a_key_counts_for_its_own_organization_only(agentjobs, claude):
    settings(agentjobs, f'[[agents]]\npreset = "claude-code"\nexecutable = "{claude}"\n')
    agentjobs("orgs", "create", "acme")
    store_key(agentjobs)
    sick = agentjobs("agents", "doctor", "--org", "acme")
    assert sick.exit_code == 1
    assert "agentjobs secrets set ANTHROPIC_API_KEY --org acme" in sick.out
    unknown = agentjobs("agents", "doctor", "--org", "nobody")
    assert (unknown.exit_code, unknown.out) == (2, "")


def test_a_program_that_is_not_installed_comes_with_the_command_that_installs_it(agentjobs):
    settings(agentjobs, '[[agents]]\npreset = "codex"\nexecutable = "/no/codex"\n')
    sick = agentjobs("agents", "doctor")
    assert sick.exit_code == 1
    assert "`/no/codex` is not a program on this worker: correct `executable`" in sick.out


def test_a_fault_in_a_presets_definition_is_told_with_its_line(agentjobs):
    settings(agentjobs, '[[agents]]\npreset = "aider"\n\n[[agents]]\npreset = "cursor"\n')
    refused = agentjobs("agents", "doctor")
    assert refused.exit_code == 2
    assert "line 1: agents[0].model: must name a model: aider has no default" in refused.err
    settings(agentjobs, '[[agents]]\npreset = "codex"\n\n[[agents]]\npreset = "cursor"\n')
    refused = agentjobs("agents", "list")
    assert "line 5: agents[1].preset: must be one of the presets" in refused.err


def test_the_list_says_preset_and_model(agentjobs):
    settings(agentjobs, '[[agents]]\npreset = "aider"\nmodel = "sonnet"\n')
    agents = {each["id"]: each for each in agentjobs("agents", "list", "--json").document["agents"]}
    assert agents["aider"]["preset"] == "aider"
    assert (agents["aider"]["model_api"], agents["aider"]["model"]) == ("anthropic", "sonnet")
    assert agents["lint-fixer"]["preset"] is None


def test_a_key_that_does_not_open_here_is_not_present(agentjobs, claude):
    settings(agentjobs, f'[[agents]]\npreset = "claude-code"\nexecutable = "{claude}"\n')
    store_key(agentjobs)
    (agentjobs.data_dir / "encryption.key").unlink()
    sick = agentjobs("agents", "doctor", "--json")
    assert sick.exit_code == 1
    (agent,) = [each for each in json.loads(sick.out)["agents"] if each["id"] == "claude-code"]
    assert not agent["key_present"]
    assert "which this machine does not have" in agent["to_do"]
