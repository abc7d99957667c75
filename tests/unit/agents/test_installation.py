"""Where a preset's program is found, which files an agent sees, and how problems are reported."""

import os
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from agentjobs.agents.definitions import Agent
from agentjobs.agents.installation import NotInstalled, find_installation, resolve_preset
from agentjobs.agents.presets.all_presets import PRESETS
from agentjobs.agents.readiness import Versions, check_readiness, is_older
from agentjobs.sandbox.protocol import SandboxError
from tests.support.agent_programs import declared


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def plain(*command: str, **environment: str) -> Agent:
    return declared(id="own", name="Own", command=list(command), environment=environment)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory that is the worker's whole PATH."""
    directory = tmp_path / "path"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def test_a_single_file_program_is_shown_as_that_file(only: Path, tmp_path: Path) -> None:
    real = program(tmp_path / "opt" / "claude-1", "#!/bin/sh\n")
    (only / "claude").symlink_to(real)
    found = find_installation(PRESETS["claude-code"])
    assert (found.program, found.read_only) == ((str(real),), (real,))


def test_a_node_script_is_shown_with_its_packages_and_its_node(only: Path, tmp_path: Path) -> None:
    modules = tmp_path / "lib" / "node_modules"
    script = program(
        modules / "@openai" / "codex" / "node_modules" / "x" / "codex.js", "#!/usr/bin/env node\n"
    )
    node = program(only / "node", "")
    (only / "codex").symlink_to(script)
    found = find_installation(PRESETS["codex"])
    assert found.program == (str(node), str(script))
    assert found.read_only == (modules, node)


def test_a_node_script_without_node_is_reported(only: Path, tmp_path: Path) -> None:
    program(only / "codex", "#!/usr/bin/env node\n")
    with pytest.raises(NotInstalled, match=r"needs Node\.js"):
        find_installation(PRESETS["codex"])


def test_a_python_tool_is_shown_with_its_environment_and_only_the_library_of_its_python(
    only: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "tools" / "mini"
    venv.create(prefix, with_pip=False, symlinks=True)
    script = program(prefix / "bin" / "mini", "#!/no/matter\n")
    (only / "mini").symlink_to(script)
    found = find_installation(PRESETS["mini-swe-agent"])
    assert found.program == (str(prefix / "bin" / "python"), str(script))
    assert prefix in found.read_only
    base = Path(sys.base_prefix)
    assert base / "lib" in found.read_only
    assert (prefix / "bin" / "python").resolve() in found.read_only
    assert base not in found.read_only


def test_a_missing_program_is_reported_with_the_install_command(only: Path) -> None:
    with pytest.raises(NotInstalled, match=r"run `npm install -g @anthropic-ai/claude-code`"):
        find_installation(PRESETS["claude-code"])
    with pytest.raises(SandboxError, match=r"`/opt/claude` is not a program on this worker"):
        find_installation(PRESETS["claude-code"], "/opt/claude")


def test_a_presets_command_uses_the_installed_program(only: Path) -> None:
    program(only / "claude", "#!/bin/sh\n")
    agent = declared(preset="claude-code", model="opus", arguments=["--effort", "high"])
    assert agent.command == ()
    made = resolve_preset(agent)
    assert made.command[:2] == ("sh", "-c")
    assert str(only / "claude") in made.command
    assert made.command[-4:] == ("--model", "opus", "--effort", "high")
    assert made.read_only == (only / "claude",)


async def test_the_version_command_runs_in_its_own_environment(
    only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    program(
        only / "claude",
        '#!/bin/sh\n[ "$1" = --version ] && [ -z "$OPENAI_API_KEY" ] && echo "9.8.7 (x $HOME)"\n',
    )
    found = await check_readiness(declared(preset="claude-code"))
    assert (found.installed, found.version, found.reason) == (True, "9.8.7", None)


@pytest.mark.parametrize(
    ("script", "version", "reason"),
    [
        ("echo 1.2.3", "1.2.3", "version 1.2.3, and 2.0.0 or newer is needed: run `npm"),
        ("echo unknown", None, "does not report its version"),
        ("echo 9.9.9; exit 1", None, "does not report its version"),
    ],
)
async def test_an_unusable_version_is_reported(
    only: Path, script: str, version: str | None, reason: str
) -> None:
    program(only / "claude", f"#!/bin/sh\n{script}\n")
    found = await check_readiness(declared(preset="claude-code"))
    assert (found.installed, found.version) == (True, version)
    assert reason in str(found.reason)


@pytest.mark.parametrize(
    "home",
    [
        # Each fails for root too, who ignores permissions.
        pytest.param(None, id="a file that cannot be read"),
        pytest.param(f"/{'x' * 300}/bin", id="a path that is too long"),
        pytest.param("/a\0b/bin", id="a path that is none"),
    ],
)
async def test_an_unreadable_environment_is_reported_without_failing_others(
    only: Path, tmp_path: Path, home: str | None
) -> None:
    script = program(tmp_path / "tool" / "bin" / "mini", "#!/no/matter\n")
    (script.parent / "python").symlink_to(sys.executable)
    (only / "mini").symlink_to(script)
    configuration = tmp_path / "tool" / "pyvenv.cfg"
    if home is None:
        configuration.symlink_to("/proc/self/mem")
    else:
        configuration.write_text(f"home = {home}\n")
    found = await check_readiness(declared(preset="mini-swe-agent", model="m"))
    assert not found.installed
    assert f"{only / 'mini'} cannot be read" in str(found.reason)
    assert "uv tool install mini-swe-agent" in str(found.reason)


async def test_a_python_that_links_to_itself_is_reported_without_failing_others(
    only: Path, tmp_path: Path
) -> None:
    script = program(tmp_path / "tool" / "bin" / "mini", "#!/no/matter\n")
    (script.parent / "python").symlink_to("python")
    (only / "mini").symlink_to(script)
    (tmp_path / "tool" / "pyvenv.cfg").touch()
    found = await check_readiness(declared(preset="mini-swe-agent", model="m"))
    assert f"{only / 'mini'} cannot be read" in str(found.reason)


async def test_a_program_that_cannot_report_its_version_does_not_fail_others(
    only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(only / "claude", "#!/bin/sh\necho 9.8.7\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    found = await check_readiness(declared(preset="claude-code"))
    assert (found.installed, found.version) == (True, None)
    assert "cannot be read" in str(found.reason)
    monkeypatch.undo()


async def test_an_absurd_number_is_not_a_version(only: Path) -> None:
    program(only / "claude", f"#!/bin/sh\necho {'9' * 5000}.1\n")
    assert "does not report its version" in str(
        (await check_readiness(declared(preset="claude-code"))).reason
    )


async def test_a_version_is_cached_until_the_program_changes(only: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    path = program(only / "claude", f"#!/bin/sh\necho x >> {asked}\necho 2.1.0\n")
    versions, preset = Versions(), PRESETS["claude-code"]
    for _ in range(3):
        assert await versions.of(preset, find_installation(preset)) == "2.1.0"
    assert asked.read_text() == "x\n"
    os.utime(path, (1, 1))
    assert await versions.of(preset, find_installation(preset)) == "2.1.0"
    assert asked.read_text() == "x\nx\n"


def test_versions_are_compared_as_numbers() -> None:
    assert is_older("1.9.0", "1.10")
    assert not is_older("0.166.0", "0.100.0")
    assert not is_older("2.0.0", "2.0.0")


async def test_the_program_of_a_command_must_be_on_the_agents_path(only: Path) -> None:
    assert (await check_readiness(plain("sh", "-c", "true"))).installed
    program(only / "own-tool", "#!/bin/sh\n")
    hidden = await check_readiness(plain("own-tool"))
    assert not hidden.installed
    assert "use its absolute path" in str(hidden.reason)
    assert (await check_readiness(plain("own-tool"), in_sandbox=False)).installed
    assert (await check_readiness(plain("own-tool", PATH=str(only)))).installed
    assert (await check_readiness(plain(str(only / "own-tool")))).installed
    assert not (await check_readiness(plain(str(only / "gone")))).installed
    assert (await check_readiness(plain("./in-the-repository"))).installed
