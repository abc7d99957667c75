"""Where a preset's program is found, which files an agent sees, and how problems are reported."""

import os
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_worker.agents.installation import NotInstalled, find_installation, resolve_preset
from agentjobs_worker.agents.presets.all_presets import PRESETS
from agentjobs_worker.agents.readiness import Versions, check_readiness, is_older
from agentjobs_worker.sandbox.protocol import SandboxError
from tests.support.agent_programs import declared


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def command_agent(*command: str, **environment: str) -> Agent:
    return declared(id="own", name="Own", command=list(command), environment=environment)


@pytest.fixture
def path_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory that is the worker's whole PATH."""
    directory = tmp_path / "path"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def test_a_single_file_program_is_exposed_as_that_file(
    path_directory: Path, tmp_path: Path
) -> None:
    real = write_program(tmp_path / "opt" / "claude-1", "#!/bin/sh\n")
    (path_directory / "claude").symlink_to(real)
    installation = find_installation(PRESETS["claude-code"])
    assert (installation.program, installation.read_only) == ((str(real),), (real,))


def test_a_node_script_is_exposed_with_its_packages_and_its_node(
    path_directory: Path, tmp_path: Path
) -> None:
    modules = tmp_path / "lib" / "node_modules"
    script = write_program(
        modules / "@openai" / "codex" / "node_modules" / "x" / "codex.js", "#!/usr/bin/env node\n"
    )
    node = write_program(path_directory / "node", "")
    (path_directory / "codex").symlink_to(script)
    installation = find_installation(PRESETS["codex"])
    assert installation.program == (str(node), str(script))
    assert installation.read_only == (modules, node)


def test_a_node_script_without_node_is_reported(path_directory: Path, tmp_path: Path) -> None:
    write_program(path_directory / "codex", "#!/usr/bin/env node\n")
    with pytest.raises(NotInstalled, match=r"needs Node\.js"):
        find_installation(PRESETS["codex"])


def test_a_python_tool_is_exposed_with_its_environment_and_only_the_library_of_its_python(
    path_directory: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "tools" / "mini"
    venv.create(prefix, with_pip=False, symlinks=True)
    script = write_program(prefix / "bin" / "mini", "#!/no/matter\n")
    (path_directory / "mini").symlink_to(script)
    installation = find_installation(PRESETS["mini-swe-agent"])
    assert installation.program == (str(prefix / "bin" / "python"), str(script))
    assert prefix in installation.read_only
    base = Path(sys.base_prefix)
    assert base / "lib" in installation.read_only
    assert (prefix / "bin" / "python").resolve() in installation.read_only
    assert base not in installation.read_only


def test_a_missing_program_is_reported_with_the_install_command(path_directory: Path) -> None:
    with pytest.raises(NotInstalled, match=r"run `npm install -g @anthropic-ai/claude-code`"):
        find_installation(PRESETS["claude-code"])
    with pytest.raises(SandboxError, match=r"`/opt/claude` is not a program on this worker"):
        find_installation(PRESETS["claude-code"], "/opt/claude")


def test_a_presets_command_uses_the_installed_program(path_directory: Path) -> None:
    write_program(path_directory / "claude", "#!/bin/sh\n")
    agent = declared(preset="claude-code", model="opus", arguments=["--effort", "high"])
    assert agent.command == ()
    resolved = resolve_preset(agent)
    assert resolved.command[:2] == ("sh", "-c")
    assert str(path_directory / "claude") in resolved.command
    assert resolved.command[-4:] == ("--model", "opus", "--effort", "high")
    assert resolved.read_only == (path_directory / "claude",)


async def test_the_version_command_runs_in_its_own_environment(
    path_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    write_program(
        path_directory / "claude",
        '#!/bin/sh\n[ "$1" = --version ] && [ -z "$OPENAI_API_KEY" ] && echo "9.8.7 (x $HOME)"\n',
    )
    readiness = await check_readiness(declared(preset="claude-code"))
    assert (readiness.installed, readiness.version, readiness.reason) == (True, "9.8.7", None)


@pytest.mark.parametrize(
    ("script", "version", "reason"),
    [
        ("echo 1.2.3", "1.2.3", "version 1.2.3, and 2.0.0 or newer is needed: run `npm"),
        ("echo unknown", None, "does not report its version"),
        ("echo 9.9.9; exit 1", None, "does not report its version"),
    ],
)
async def test_an_unusable_version_is_reported(
    path_directory: Path, script: str, version: str | None, reason: str
) -> None:
    write_program(path_directory / "claude", f"#!/bin/sh\n{script}\n")
    readiness = await check_readiness(declared(preset="claude-code"))
    assert (readiness.installed, readiness.version) == (True, version)
    assert reason in str(readiness.reason)


@pytest.mark.parametrize(
    "home",
    [
        # Each fails for root too, who ignores permissions.
        pytest.param(None, id="a file that cannot be read"),
        pytest.param(f"/{'x' * 300}/bin", id="a path that is too long"),
        pytest.param("/a\0b/bin", id="an invalid path"),
    ],
)
async def test_an_unreadable_environment_is_reported_without_failing_others(
    path_directory: Path, tmp_path: Path, home: str | None
) -> None:
    script = write_program(tmp_path / "tool" / "bin" / "mini", "#!/no/matter\n")
    (script.parent / "python").symlink_to(sys.executable)
    (path_directory / "mini").symlink_to(script)
    configuration = tmp_path / "tool" / "pyvenv.cfg"
    if home is None:
        configuration.symlink_to("/proc/self/mem")
    else:
        configuration.write_text(f"home = {home}\n")
    readiness = await check_readiness(declared(preset="mini-swe-agent", model="m"))
    assert not readiness.installed
    assert f"{path_directory / 'mini'} cannot be read" in str(readiness.reason)
    assert "uv tool install mini-swe-agent" in str(readiness.reason)


async def test_a_python_that_links_to_itself_is_reported_without_failing_others(
    path_directory: Path, tmp_path: Path
) -> None:
    script = write_program(tmp_path / "tool" / "bin" / "mini", "#!/no/matter\n")
    (script.parent / "python").symlink_to("python")
    (path_directory / "mini").symlink_to(script)
    (tmp_path / "tool" / "pyvenv.cfg").touch()
    readiness = await check_readiness(declared(preset="mini-swe-agent", model="m"))
    assert f"{path_directory / 'mini'} cannot be read" in str(readiness.reason)


async def test_a_program_that_cannot_report_its_version_does_not_fail_others(
    path_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(path_directory / "claude", "#!/bin/sh\necho 9.8.7\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    readiness = await check_readiness(declared(preset="claude-code"))
    assert (readiness.installed, readiness.version) == (True, None)
    assert "cannot be read" in str(readiness.reason)
    monkeypatch.undo()


async def test_an_absurd_number_is_not_a_version(path_directory: Path) -> None:
    write_program(path_directory / "claude", f"#!/bin/sh\necho {'9' * 5000}.1\n")
    assert "does not report its version" in str(
        (await check_readiness(declared(preset="claude-code"))).reason
    )


async def test_a_version_is_cached_until_the_program_changes(
    path_directory: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    path = write_program(path_directory / "claude", f"#!/bin/sh\necho x >> {calls}\necho 2.1.0\n")
    versions, preset = Versions(), PRESETS["claude-code"]
    for _ in range(3):
        assert await versions.find(preset, find_installation(preset)) == "2.1.0"
    assert calls.read_text() == "x\n"
    os.utime(path, (1, 1))
    assert await versions.find(preset, find_installation(preset)) == "2.1.0"
    assert calls.read_text() == "x\nx\n"


def test_versions_are_compared_as_numbers() -> None:
    assert is_older("1.9.0", "1.10")
    assert not is_older("0.166.0", "0.100.0")
    assert not is_older("2.0.0", "2.0.0")


async def test_the_program_of_a_command_must_be_on_the_agents_path(path_directory: Path) -> None:
    assert (await check_readiness(command_agent("sh", "-c", "true"))).installed
    write_program(path_directory / "own-tool", "#!/bin/sh\n")
    hidden = await check_readiness(command_agent("own-tool"))
    assert not hidden.installed
    assert "use its absolute path" in str(hidden.reason)
    assert (await check_readiness(command_agent("own-tool"), in_sandbox=False)).installed
    assert (await check_readiness(command_agent("own-tool", PATH=str(path_directory)))).installed
    assert (await check_readiness(command_agent(str(path_directory / "own-tool")))).installed
    assert not (await check_readiness(command_agent(str(path_directory / "gone")))).installed
    assert (await check_readiness(command_agent("./in-the-repository"))).installed
