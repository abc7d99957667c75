"""Finds where a preset's program is installed, and which files the sandbox must show.

Does not decide whether the program is ready.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_worker.agents.presets.all_presets import PRESETS
from agentjobs_worker.agents.presets.preset import Preset
from agentjobs_worker.sandbox.protocol import SandboxError

_SHEBANG_BYTES = 256
_NODE = re.compile(rb"#!.*\bnode\b")
_HOME = re.compile(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)


class NotInstalled(SandboxError):
    """The program is not installed on this machine; the message says how to install it."""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """`program` is the start of its argv; `path` is the file that changes with its version."""

    path: Path
    program: tuple[str, ...]
    read_only: tuple[Path, ...]


def resolve_preset(agent: Agent) -> Agent:
    """Set an agent's command and files from its preset's installation. Raises NotInstalled."""
    if agent.preset is None:
        return agent
    preset = PRESETS[agent.preset]
    installation = find_installation(preset, agent.executable)
    assert agent.model is not None, "every preset has a model"
    return msgspec.structs.replace(
        agent,
        command=preset.command(installation.program, agent.model, agent.arguments),
        read_only=installation.read_only,
    )


def find_installation(preset: Preset, executable: str = "") -> Installation:
    executable_path = shutil.which(executable or preset.executable)
    if executable_path is None and executable:
        raise NotInstalled(f"`{executable}` is not a program on this worker: correct `executable`")
    if executable_path is None:
        raise NotInstalled(
            f"`{preset.executable}` is not on this worker's PATH: run `{preset.install_with}`, or "
            "set `executable` to its path"
        )
    try:
        return inspect_installation(Path(executable_path).resolve())
    # Circular links or an invalid path.
    except (OSError, RuntimeError, ValueError) as error:
        raise NotInstalled(
            f"{executable_path} cannot be read ({error}): make it readable for the worker's user, "
            f"or reinstall it with `{preset.install_with}`"
        ) from None


def inspect_installation(path: Path) -> Installation:
    if (path.parent.parent / "pyvenv.cfg").is_file():
        return _in_virtual_environment(path)
    if _NODE.match(_first_bytes(path)):
        return _on_node(path)
    return Installation(path=path, program=(str(path),), read_only=(path,))


def _in_virtual_environment(script: Path) -> Installation:
    prefix = script.parent.parent
    python = prefix / "bin" / "python"
    return Installation(
        path=script,
        # Names the interpreter, because a shebang line cannot contain a long path.
        program=(str(python), str(script)),
        read_only=(prefix, *_base_python(prefix, python)),
    )


def _base_python(prefix: Path, python: Path) -> Iterator[Path]:
    """The interpreter, every link to it, and its library. Never its whole prefix, which may be a
    home directory."""
    links = list(_links(python))
    yield from (link for link in links if not link.is_relative_to(prefix))
    homes = {links[-1].parent}
    declared = _HOME.search((prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace"))
    if declared:
        homes |= {Path(declared[1]), Path(declared[1]).resolve()}
    yield from (home.parent / "lib" for home in sorted(homes) if (home.parent / "lib").is_dir())


def _links(path: Path) -> Iterator[Path]:
    """A link, its target, and so on until the file itself."""
    for _ in range(40):
        yield path
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    yield path.resolve()


def _on_node(script: Path) -> Installation:
    node = shutil.which("node")
    if node is None:
        raise NotInstalled(f"{script} needs Node.js, and no `node` is on this worker's PATH")
    interpreter = Path(node).resolve()
    return Installation(
        path=script,
        program=(str(interpreter), str(script)),
        read_only=(_node_modules(script), interpreter),
    )


def _node_modules(script: Path) -> Path:
    """The outermost one, because a package's dependencies are next to it."""
    enclosing = [parent for parent in script.parents if parent.name == "node_modules"]
    return enclosing[-1] if enclosing else script


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_SHEBANG_BYTES)
    except OSError:
        return b""
